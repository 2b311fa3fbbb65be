"""`neutrino vm`: stand-in instances on the machine of `neutrino up`, to send the first packets with."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neutrino.cli.failures import REFUSED, CannotStart

if TYPE_CHECKING:
    from neutrino.lab.instances import Instances

CREATE = "create"


def with_action(argv: Sequence[str]) -> list[str]:
    """`vm web …` is short for `vm create web …`."""
    words = list(argv)
    if words[:1] == ["vm"]:
        # The action, or a name, is the first word that is neither an option nor the value of --state.
        at = 3 if words[1:2] == ["--state"] else 1
        if at < len(words) and not words[at].startswith("-") and words[at] not in ACTIONS:
            words.insert(at, CREATE)
    return words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _state(parser, "state")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    create = actions.add_parser(CREATE, help="create one; `neutrino vm NAME …` is short for it")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--network", help="the network, by name or id")
    create.add_argument("--port", help="an existing port, by name or id, in place of a network")
    create.add_argument("--address", help="the address that its port gets (default: any free one)")
    create.add_argument("--security-group", action="append", help="by name or id; may be given several times")
    create.add_argument("--no-dhcp", action="store_true", help="take the addresses from the port, not by DHCP")
    _state(create)

    execute = actions.add_parser("exec", help="run a command in one; its exit status is passed on")
    execute.add_argument("name", metavar="NAME")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER)
    _state(execute)

    delete = actions.add_parser("delete", help="delete one, with the port that was created for it")
    delete.add_argument("name", metavar="NAME")
    _state(delete)
    _state(actions.add_parser("list", help="list them with their addresses and ports"))


def _state(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    """People write it on either side of the action."""
    parser.add_argument("--state", default=default, help="where neutrino up keeps its files (default: state)")


def vm(args: argparse.Namespace) -> int:
    from neutrino.cli.instances import find_running, machine_instances
    from neutrino.cli.preflight import check_privileges
    from neutrino.lab.errors import LabError

    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # `su` does not add them everywhere
    check_privileges("neutrino vm")
    state = Path(args.state).absolute()
    running = find_running(state)
    if not running.host:
        raise CannotStart("networks are not wired on this machine: neutrino up said why when it started")
    if not running.is_open:
        raise CannotStart("neutrino vm has no credentials for Keystone: it needs auth_strategy=noauth")
    try:
        return ACTIONS[args.action](machine_instances(state, running), args)
    except LabError as error:
        raise CannotStart(str(error)) from None


def _create(instances: Instances, args: argparse.Namespace) -> int:
    if (args.network is None) == (args.port is None):
        raise CannotStart(f"VM {args.name} needs either --network or --port", REFUSED)
    if args.port is not None and (args.security_group is not None or args.address is not None):
        raise CannotStart("--security-group and --address are for a new port; the one of --port has its own", REFUSED)
    instances.create(
        args.name,
        network=args.network,
        port=args.port,
        address=args.address,
        security_groups=args.security_group,
        dhcp=not args.no_dhcp,
    )
    print(_described(instances, args.name))
    return 0


def _exec(instances: Instances, args: argparse.Namespace) -> int:
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise CannotStart("there is no command to run: neutrino vm exec NAME -- COMMAND", REFUSED)
    command = instances.command(args.name, argv)
    os.execvp(command[0], command)


def _delete(instances: Instances, args: argparse.Namespace) -> int:
    instances.delete(args.name)
    print(f"{args.name} is deleted")
    return 0


def _list(instances: Instances, args: argparse.Namespace) -> int:
    for each in instances.vms.all():
        print(_described(instances, each.name))
    return 0


def _described(instances: Instances, name: str) -> str:
    found = instances.vms.get(name)
    port = instances.api.show("port", found.port_id)
    addresses = ", ".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "no address"
    return f"{name}: {addresses}, port {found.port_id} {port['status']}"


ACTIONS = {CREATE: _create, "exec": _exec, "delete": _delete, "list": _list}
