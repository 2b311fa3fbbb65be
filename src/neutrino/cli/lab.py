"""`neutrino lab`: several hosts on this machine, for trying the service out; `neutrino vm`: stand-in instances on the
machine of `neutrino up`, or of an installed agent.
"""

import argparse
import os
import shlex
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from neutrino.cli import installed, installed_host, preflight
from neutrino.cli.errors import INVALID, CommandError, unwind_on_sigterm
from neutrino.cli.main import DEFAULT_LAB
from neutrino.cli.tables import table
from neutrino.cli.up.machine import RUN_FILE, find_running
from neutrino.cli.up.next_steps import client, find_client, program
from neutrino.lab import build
from neutrino.lab.api_client import ApiError
from neutrino.lab.demo import demo
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.instances.instances import Instances, VmOptions
from neutrino.lab.lab import SERVER, Lab
from neutrino.lab.settings import NETDEV, LabSettings, check, underlay_address

HOST_COLUMNS = ("HOST", "UNDERLAY", "AGENT", "PROCESS", "OPEN VSWITCH", "VMS")
VM_COLUMNS = ("VM", "HOST", "PORT", "ADDRESSES", "STATUS")
_output = partial(print, flush=True)
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


def lab(args: argparse.Namespace) -> int | None:
    preflight.check_privileges("neutrino lab")
    actions: dict[str, Callable[[argparse.Namespace], int | None]] = {
        "up": _up,
        "vm": _vm,
        "exec": _exec,
        "status": _status,
        "down": lambda args: build.down(args.state, _output),
        "demo": _demo,
    }
    return actions[args.action](args)


def _up(args: argparse.Namespace) -> None:
    unwind_on_sigterm()
    settings = msgspec.convert(vars(args), LabSettings)
    lab = Lab(args.state, settings)
    check(settings)
    preflight.check_files([*settings.server_config_files, *settings.agent_config_files])
    build.check_unused(lab.paths)  # before the port, which the existing lab is likely to use
    preflight.check_lab(settings.port, settings.datapath)
    build.up(lab, _output)
    _output(_next_steps(lab))


def _next_steps(lab: Lab) -> str:
    openstack, hint = client()
    state = str(lab.paths.state)
    return NEXT_STEPS.format(
        url=lab.settings.url,
        clouds=shlex.quote(str(lab.paths.clouds)),
        openstack=openstack,
        lab=f"{program()} lab" if state == DEFAULT_LAB else f"{program()} lab --state {shlex.quote(state)}",
        hint=hint,
        other=lab.hosts[:2][-1],
    )


def _demo(args: argparse.Namespace) -> None:
    unwind_on_sigterm()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    preflight.check_lab(port, NETDEV)
    if (openstack := find_client()) is None:
        raise LabError("the demo needs the openstack client: pip install python-openstackclient")
    demo(port, openstack, _output)


def _vm(args: argparse.Namespace) -> None:
    instances = Lab.open(args.state).instances
    if args.delete:
        instances.delete(args.name)
        _output(f"{args.name} is deleted")
    else:
        vm = instances.create(args.name, **_create_options(args))
        _output(f"{vm.name} on {vm.host}: {instances.describe(vm)}")


def _exec(args: argparse.Namespace) -> None:
    argv = _command_of(args)
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
    lab = Lab.open(args.state)
    text, healthy = read_status(lab)
    _output(text)
    _output(_next_steps(lab))
    return 0 if healthy else 1


def read_status(lab: Lab) -> tuple[str, bool]:
    """The text, and whether the API responds and all processes of all hosts run."""
    responds = lab.api.responds()
    agents = lab.agents() if responds else {}
    healthy = responds
    hosts = []
    for host in lab.hosts:
        alive = bool(agents.get(host, {}).get("alive"))
        pids = (lab.agent_pid(host), *_switch_pids(lab, host))
        healthy = healthy and alive and None not in pids
        agent, switch, database = (str(pid or "none") for pid in pids)
        underlay = underlay_address(host, lab.settings.underlay_ip_version)
        vms = str(sum(vm.host == host for vm in lab.vms.all()))
        hosts.append((host, underlay, "alive" if alive else "not alive", agent, f"{switch}, {database}", vms))
    server = f"{'responds' if responds else 'does not respond'}, server process {lab.processes.pid(SERVER) or 'none'}"
    lines = [f"API {lab.settings.url} {server}, files in {lab.paths.state}", "", *table(HOST_COLUMNS, hosts)]
    if vms_shown := [(vm.name, vm.host, vm.port_id, *_port(lab, vm.port_id, responds)) for vm in lab.vms.all()]:
        lines += ["", *table(VM_COLUMNS, vms_shown)]
    return "\n".join(lines), healthy


def _switch_pids(lab: Lab, host: str) -> tuple[int | None, int | None]:
    try:
        switch = lab.ovs(host)
        return switch.pid(SWITCH), switch.pid(DATABASE)
    except LabError:  # the host's namespaces are gone
        return None, None


def _port(lab: Lab, port_id: str, responds: bool) -> tuple[str, str]:
    """Addresses and status."""
    if not responds:
        return "-", "unknown"
    try:
        port = lab.api.show("port", port_id)
    except ApiError:
        return "-", "port deleted"
    return ",".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "-", port["status"]


# --- neutrino vm ------------------------------------------------------------------------------------------------------


def vm(args: argparse.Namespace) -> None:
    preflight.check_privileges("neutrino vm")
    instances = _instances(Path(args.state).absolute())
    if args.action == "create":
        vm = instances.create(args.name, **_create_options(args))
        print(f"{vm.name}: {instances.describe(vm)}")
    elif args.action == "exec":
        command = instances.command(args.name, _command_of(args))
        os.execvp(command[0], command)
    elif args.action == "delete":
        instances.delete(args.name)
        print(f"{args.name} is deleted")
    else:
        for vm in instances.vms.all():
            print(f"{vm.name}: {instances.describe(vm)}")


def _instances(state: Path) -> Instances:
    """Of `neutrino up` with this state directory; where none runs, of the agent that packages have installed."""
    if not (state / RUN_FILE).exists() and (files := installed.default_files([], installed.AGENT_FILE)):
        return installed_host.instances(files)
    run = find_running(state)
    if not run.host:
        raise CommandError("networks are not wired on this machine; neutrino up printed the reason when it started")
    if not run.no_auth:
        raise CommandError("neutrino vm has no Keystone credentials: it needs auth_strategy=noauth")
    return run.instances()


def _create_options(args: argparse.Namespace) -> VmOptions:
    if (args.network is None) == (args.port is None):
        raise CommandError(f"VM {args.name} needs either --network or --port", INVALID)
    address: str | None = getattr(args, "address", None)
    if args.port is not None and (args.security_groups is not None or address is not None):
        raise CommandError("--security-group and --address apply to a new port only, not with --port", INVALID)
    return msgspec.convert(vars(args), VmOptions)


def _command_of(args: argparse.Namespace) -> list[str]:
    """The command after `--`."""
    argv: list[str] = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise CommandError(f"no command given: neutrino {args.command} exec NAME -- COMMAND", INVALID)
    return argv
