"""`neutrino lab`: several hosts on this machine, to try the service on."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neutrino.lab.lab import Lab

DEFAULT_STATE = "/run/neutrino-lab"
NEXT = """
The API is on {url}, without authentication. In this or another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  {openstack} network create blue
  {openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24
  {lab} vm vm1 --network blue --host h1
  {lab} vm vm2 --network blue --host {other}
  {lab} exec vm1 -- ping -c 3 10.0.0.X
{hint}
{lab} status shows what there is, {lab} down ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", default=DEFAULT_STATE, help="the lab's directory (default: %(default)s)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    up = actions.add_parser("up", help="bring up a server and hosts")
    up.add_argument("--hosts", type=int, default=3, help="how many hosts, h1 to hN (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--mtu", type=int, default=1500, help="MTU of the wires (default: %(default)s)")
    up.add_argument("--underlay-ip-version", type=int, default=4, choices=[4, 6], help="of the tunnels' endpoints")
    datapath = "of Open vSwitch: the kernel's, or the one in userspace (default: %(default)s)"
    up.add_argument("--datapath", default="netdev", choices=["system", "netdev"], help=datapath)
    up.add_argument(
        "--central", type=int, default=2, help="how many hosts take routers of every kind (default: %(default)s)"
    )
    up.add_argument("--config-file", action="append", default=[], help="more configuration for the server")
    up.add_argument("--agent-config-file", action="append", default=[], help="more configuration for the agents")
    _state(up)

    vm = actions.add_parser("vm", help="make a VM, or delete one")
    vm.add_argument("name", metavar="NAME")
    vm.add_argument("--delete", action="store_true", help="delete it, with the port that was made for it")
    vm.add_argument("--network", help="the network, by name or id")
    vm.add_argument("--port", help="a port that is there already, by name or id, in place of a network")
    vm.add_argument("--host", help="h1 to hN (default: the one with the fewest VMs)")
    vm.add_argument("--security-group", action="append", help="by name or id; may be given several times")
    vm.add_argument("--no-dhcp", action="store_true", help="take the addresses from the port, not by DHCP")
    vm.add_argument("--hybrid", action="store_true", help="plug through a Linux bridge, for a hybrid firewall")
    _state(vm)

    execute = actions.add_parser("exec", help="run a command in a VM, on a host, or on the external machine")
    execute.add_argument("where", metavar="NAME|hN|external")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="its exit status is passed on")
    _state(execute)

    _state(actions.add_parser("status", help="show hosts, VMs and the API"))
    _state(actions.add_parser("down", help="end it and leave nothing behind"))
    _state(actions.add_parser("demo", help="a short tour in a lab of its own, with the openstack client"))


def _state(parser: argparse.ArgumentParser) -> None:
    """People write it on either side of the action."""
    parser.add_argument("--state", default=argparse.SUPPRESS, help="the lab's directory")


def lab(args: argparse.Namespace) -> int:
    from neutrino.lab.errors import LabError
    from neutrino.lab.programs import check_root

    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # `su` does not add them everywhere
    actions = {"up": _up, "vm": _vm, "exec": _exec, "status": _status, "down": _down, "demo": _demo}
    try:
        check_root()
        return actions[args.action](args)
    except LabError as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 1


def _say(text: str) -> None:
    print(text, flush=True)


def _up(args: argparse.Namespace) -> int:
    from neutrino.lab import build
    from neutrino.lab.settings import Settings

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # takes down what was made
    settings = Settings(
        hosts=args.hosts,
        port=args.port,
        mtu=args.mtu,
        underlay_ip_version=args.underlay_ip_version,
        datapath=args.datapath,
        central=args.central,
        server_config_files=tuple(map(os.path.abspath, args.config_file)),
        agent_config_files=tuple(map(os.path.abspath, args.agent_config_file)),
    )
    made = build.up(args.state, settings, _say)
    _say(_next_steps(made))
    return 0


def _next_steps(made: Lab) -> str:
    from neutrino.cli.ready import client

    openstack, hint = client()
    clouds = shlex.quote(str(made.places.clouds))
    return NEXT.format(
        url=made.settings.url,
        clouds=clouds,
        openstack=openstack,
        lab=_itself(made),
        hint=hint,
        other=made.hosts[:2][-1],
    )


def _itself(made: Lab) -> str:
    """How this command is called here, for this lab."""
    program = "neutrino" if shutil.which("neutrino") else shlex.quote(str(Path(sys.executable).with_name("neutrino")))
    state = str(made.places.state)
    return f"{program} lab" if state == DEFAULT_STATE else f"{program} lab --state {shlex.quote(state)}"


def _down(args: argparse.Namespace) -> int:
    from neutrino.lab import build

    build.down(args.state, _say)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from neutrino.lab.demo import demo

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # takes down what was made
    demo(_say)
    return 0


def _vm(args: argparse.Namespace) -> int:
    from neutrino.lab.errors import LabError
    from neutrino.lab.lab import Lab

    there = Lab.open(args.state)
    if args.delete:
        there.delete_vm(args.name)
        _say(f"{args.name} is gone")
        return 0
    if (args.network is None) == (args.port is None):
        raise LabError(f"VM {args.name} needs either --network or --port")
    if args.port is not None and args.security_group is not None:
        raise LabError("--security-group is for a new port; the one of --port has its own")
    vm = there.vm(
        args.name,
        network=args.network,
        port=args.port,
        host=args.host,
        security_groups=args.security_group,
        dhcp=not args.no_dhcp,
        hybrid=args.hybrid,
    )
    port = there.api.show("port", vm.port_id)
    addresses = ", ".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "no address"
    _say(f"{vm.name} on {vm.host}: {addresses}, port {vm.port_id} {port['status']}")
    return 0


def _exec(args: argparse.Namespace) -> int:
    from neutrino.lab.errors import LabError
    from neutrino.lab.lab import Lab

    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise LabError("there is no command to run: neutrino lab exec NAME -- COMMAND")
    there = Lab.open(args.state)
    command = there.command(args.where, [*_from_here(there), *argv])
    os.execvpe(command[0], command, dict(there.processes.environment()))


def _from_here(there: Lab) -> list[str]:
    """A command starts in the directory that it is called in, unless that is in /run, of which each host has its own."""
    here = Path.cwd()
    if here.is_relative_to("/run") and not here.is_relative_to(there.places.state):
        return []
    return ["env", f"--chdir={here}"]


def _status(args: argparse.Namespace) -> int:
    from neutrino.lab.lab import Lab
    from neutrino.lab.status import read_status, render_status

    there = Lab.open(args.state)
    found = read_status(there)
    _say(render_status(found))
    _say(_next_steps(there))
    return 0 if found.is_well else 1
