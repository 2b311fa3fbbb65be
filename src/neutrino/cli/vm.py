"""`neutrino vm`: stand-in instances on the machine of `neutrino up`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neutrino.cli.errors import INVALID, CommandError

if TYPE_CHECKING:
    from neutrino.lab.instances.instances import Instances, VmOptions

CREATE = "create"


def with_action(argv: Sequence[str]) -> list[str]:
    """Expand `vm web …` to `vm create web …`."""
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
    add_create_arguments(create)
    create.add_argument("--address", help="fixed IP of the new port (default: any free one)")
    _state(create)
    execute = actions.add_parser("exec", help="run a command in one, and exit with its status")
    execute.add_argument("name", metavar="NAME")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER)
    _state(execute)
    delete = actions.add_parser("delete", help="delete one, with the port that was created for it")
    delete.add_argument("name", metavar="NAME")
    _state(delete)
    _state(actions.add_parser("list", help="list them with their addresses and ports"))


def _state(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    """Accepted before and after the action: users type both."""
    parser.add_argument("--state", default=default, help="the state directory of neutrino up (default: state)")


def add_create_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that `neutrino vm` and `neutrino lab vm` share."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--network", help="the network, by name or id")
    parser.add_argument("--port", help="an existing port instead of a network, by name or id")
    parser.add_argument("--security-group", action="append", help="by name or id; repeatable")
    parser.add_argument("--no-dhcp", action="store_true", help="configure the port's addresses without DHCP")


def create_options(args: argparse.Namespace) -> VmOptions:
    if (args.network is None) == (args.port is None):
        raise CommandError(f"VM {args.name} needs either --network or --port", INVALID)
    address: str | None = getattr(args, "address", None)
    if args.port is not None and (args.security_group is not None or address is not None):
        raise CommandError("--security-group and --address apply to a new port only, not with --port", INVALID)
    return {
        "network": args.network,
        "port": args.port,
        "address": address,
        "security_groups": args.security_group,
        "dhcp": not args.no_dhcp,
    }


def command_of(args: argparse.Namespace) -> list[str]:
    """The command after `--`."""
    argv: list[str] = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise CommandError(f"no command given: neutrino {args.command} exec NAME -- COMMAND", INVALID)
    return argv


def vm(args: argparse.Namespace) -> int:
    from neutrino.cli.preflight import check_privileges
    from neutrino.cli.up.machine import find_running, machine_instances

    check_privileges("neutrino vm")
    state = Path(args.state).absolute()
    running = find_running(state)
    if not running.host:
        raise CommandError("networks are not wired on this machine; neutrino up printed the reason when it started")
    if not running.no_auth:
        raise CommandError("neutrino vm has no Keystone credentials: it needs auth_strategy=noauth")
    return ACTIONS[args.action](machine_instances(state, running), args)


def _create(instances: Instances, args: argparse.Namespace) -> int:
    vm = instances.create(args.name, **create_options(args))
    print(f"{vm.name}: {instances.describe(vm)}")
    return 0


def _exec(instances: Instances, args: argparse.Namespace) -> int:
    command = instances.command(args.name, command_of(args))
    os.execvp(command[0], command)


def _delete(instances: Instances, args: argparse.Namespace) -> int:
    instances.delete(args.name)
    print(f"{args.name} is deleted")
    return 0


def _list(instances: Instances, args: argparse.Namespace) -> int:
    for vm in instances.vms.all():
        print(f"{vm.name}: {instances.describe(vm)}")
    return 0


ACTIONS = {CREATE: _create, "exec": _exec, "delete": _delete, "list": _list}
