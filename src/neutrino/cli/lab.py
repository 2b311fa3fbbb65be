"""`neutrino lab`: several hosts on this machine, for trying the service out."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from neutrino.cli.errors import unwind_on_sigterm
from neutrino.cli.vm import add_create_arguments, command_of, create_options

if TYPE_CHECKING:
    from neutrino.lab.lab import Lab

DEFAULT_STATE = "/run/neutrino-lab"
NEXT_STEPS = """
The API is on {url}, without authentication. In this or another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  {openstack} network create blue
  {openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24
  {lab} vm vm1 --network blue --host h1
  {lab} vm vm2 --network blue --host {other}
  {lab} exec vm1 -- ping -c 3 10.0.0.X
{hint}
{lab} status shows hosts and VMs, {lab} down removes the lab.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", default=DEFAULT_STATE, help="the lab's directory (default: %(default)s)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    up = actions.add_parser("up", help="create a lab: a server and hosts")
    up.add_argument("--hosts", type=int, default=3, help="number of hosts, h1 to hN (default: %(default)s)")
    up.add_argument("--port", type=int, default=9696, help="port of the API on 127.0.0.1 (default: %(default)s)")
    up.add_argument("--mtu", type=int, default=1500, help="MTU of the physical networks (default: %(default)s)")
    up.add_argument("--underlay-ip-version", type=int, default=4, choices=[4, 6], help="of the tunnel endpoints")
    datapath = "datapath of Open vSwitch: kernel (system) or userspace (netdev) (default: %(default)s)"
    up.add_argument("--datapath", default="netdev", choices=["system", "netdev"], help=datapath)
    up.add_argument("--central", type=int, default=2, help="hosts with agent_mode dvr_snat (default: %(default)s)")
    up.add_argument("--config-file", action="append", default=[], help="configuration file for the server; repeatable")
    up.add_argument("--agent-config-file", action="append", default=[], help="configuration file for the agents")
    _state(up)

    vm = actions.add_parser("vm", help="create a stand-in instance, or delete one")
    add_create_arguments(vm)
    vm.add_argument("--delete", action="store_true", help="delete it, with the port that was created for it")
    vm.add_argument("--host", help="h1 to hN (default: the one with the fewest VMs)")
    vm.add_argument("--hybrid", action="store_true", help="plug through a Linux bridge, for a hybrid firewall")
    _state(vm)

    execute = actions.add_parser("exec", help="run a command in a VM, on a host, or on the external machine")
    execute.add_argument("where", metavar="NAME|hN|external")
    execute.add_argument("argv", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="its exit status is returned")
    _state(execute)

    _state(actions.add_parser("status", help="show hosts, VMs and the API"))
    _state(actions.add_parser("down", help="remove the lab"))
    _state(actions.add_parser("demo", help="a short demonstration in a temporary lab, with the openstack client"))


def _state(parser: argparse.ArgumentParser) -> None:
    """Accepted before and after the action: users type both."""
    parser.add_argument("--state", default=argparse.SUPPRESS, help="the lab's directory")


def lab(args: argparse.Namespace) -> int:
    from neutrino.cli.preflight import check_privileges

    check_privileges("neutrino lab")
    actions = {"up": _up, "vm": _vm, "exec": _exec, "status": _status, "down": _down, "demo": _demo}
    return actions[args.action](args)


def _output(text: str) -> None:
    print(text, flush=True)


def _up(args: argparse.Namespace) -> int:
    from neutrino.cli import preflight
    from neutrino.lab import build
    from neutrino.lab.lab import Lab
    from neutrino.lab.settings import LabSettings, check

    unwind_on_sigterm()
    settings = LabSettings(
        hosts=args.hosts,
        port=args.port,
        mtu=args.mtu,
        underlay_ip_version=args.underlay_ip_version,
        datapath=args.datapath,
        central=args.central,
        server_config_files=tuple(map(os.path.abspath, args.config_file)),
        agent_config_files=tuple(map(os.path.abspath, args.agent_config_file)),
    )
    lab = Lab(args.state, settings)
    check(settings)
    build.check_unused(lab.paths)  # before the port, which the existing lab is likely to use
    preflight.check_lab(settings.port, settings.datapath)
    build.up(lab, _output)
    _output(_next_steps(lab))
    return 0


def _next_steps(lab: Lab) -> str:
    from neutrino.cli.up.next_steps import client, program

    openstack, hint = client()
    state = str(lab.paths.state)
    return NEXT_STEPS.format(
        url=lab.settings.url,
        clouds=shlex.quote(str(lab.paths.clouds)),
        openstack=openstack,
        lab=f"{program()} lab" if state == DEFAULT_STATE else f"{program()} lab --state {shlex.quote(state)}",
        hint=hint,
        other=lab.hosts[:2][-1],
    )


def _down(args: argparse.Namespace) -> int:
    from neutrino.lab import build

    build.down(args.state, _output)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from neutrino.cli import preflight
    from neutrino.lab.demo import demo
    from neutrino.lab.settings import NETDEV

    unwind_on_sigterm()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    preflight.check_lab(port, NETDEV)
    demo(port, _output)
    return 0


def _vm(args: argparse.Namespace) -> int:
    from neutrino.lab.lab import Lab

    instances = Lab.open(args.state).instances
    if args.delete:
        instances.delete(args.name)
        _output(f"{args.name} is deleted")
        return 0
    vm = instances.create(args.name, **(create_options(args) | {"host": args.host, "hybrid": args.hybrid}))
    _output(f"{vm.name} on {vm.host}: {instances.describe(vm)}")
    return 0


def _exec(args: argparse.Namespace) -> int:
    from neutrino.lab.lab import Lab

    argv = command_of(args)
    lab = Lab.open(args.state)
    command = lab.command(args.where, [*_in_this_directory(lab), *argv])
    os.execvpe(command[0], command, dict(lab.processes.environment()))


def _in_this_directory(lab: Lab) -> list[str]:
    """nsenter starts in /: change to the caller's directory, unless it is below /run, which each host has for itself."""
    here = Path.cwd()
    if here.is_relative_to("/run") and not here.is_relative_to(lab.paths.state):
        return []
    return ["env", f"--chdir={here}"]


def _status(args: argparse.Namespace) -> int:
    from neutrino.lab.lab import Lab
    from neutrino.lab.status import read_status

    lab = Lab.open(args.state)
    text, healthy = read_status(lab)
    _output(text)
    _output(_next_steps(lab))
    return 0 if healthy else 1
