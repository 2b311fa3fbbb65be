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
from neutrino.cli.lab_arguments import DEFAULT_LAB
from neutrino.cli.tables import table
from neutrino.cli.up.machine import RUN_FILE, find_running
from neutrino.cli.up.next_steps import client, find_client, program
from neutrino.lab import build, faults
from neutrino.lab.api_client import ApiError
from neutrino.lab.demo import demo
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.instances.instances import Instances, VmOptions
from neutrino.lab.keystone import USERS, find_python
from neutrino.lab.lab import KEYSTONE, SERVER, Lab
from neutrino.lab.settings import NETDEV, LabSettings, check, underlay_address
from neutrino.model.objects import Object

HOST_COLUMNS = ("HOST", "UNDERLAY", "AGENT", "PROCESS", "OPEN VSWITCH", "VMS")
VM_COLUMNS = ("VM", "HOST", "PORT", "ADDRESSES", "STATUS")
_output = partial(print, flush=True)
NEXT_STEPS = """
The API is on {url}, {authentication}. In this or another terminal:

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
        "agent": _agent,
        "server": _server,
        "link": _link,
        "host": _host,
    }
    return actions[args.action](args)


def _up(args: argparse.Namespace) -> None:
    unwind_on_sigterm()
    python = find_python(args.keystone) if args.keystone is not None else ""
    settings = msgspec.convert({**vars(args), "keystone": python}, LabSettings)
    lab = Lab(args.state, settings)
    check(settings)
    preflight.check_files([*settings.server_config_files, *settings.agent_config_files])
    build.check_unused(lab.paths)  # before the port, which the existing lab is likely to use
    preflight.check_lab(settings.port, settings.datapath)
    if python:
        preflight.check_port("127.0.0.1", settings.keystone_port, "stop what listens there, or use another --port")
    build.up(lab, _output)
    _output(_next_steps(lab))


def _next_steps(lab: Lab) -> str:
    openstack, hint = client()
    state = str(lab.paths.state)
    return NEXT_STEPS.format(
        url=lab.settings.url,
        authentication=f"with Keystone: OS_CLOUD is one of {', '.join(u.name for u in USERS)}"
        if lab.settings.keystone
        else "without authentication",
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
    """The words of `neutrino vm`."""
    instances = Lab.open(args.state).instances
    if args.vm_action == "create":
        vm = instances.create(args.name, **_create_options(args))
        _output(f"{vm.name} on {vm.host}: {instances.describe(vm)}")
    elif args.vm_action == "exec":
        args.where = args.name
        _exec(args)
    elif args.vm_action == "delete":
        instances.delete(args.name)
        _output(f"{args.name} is deleted")
    else:
        for vm in instances.vms.all():
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


# --- faults on purpose ------------------------------------------------------------------------------------------------


def _agent(args: argparse.Namespace) -> None:
    lab = Lab.open(args.state)
    if args.what != "start":
        ran = faults.stop_agent(lab, args.host, kill=args.kill)
        _output(f"the agent of {args.host} {'has ended' if ran else 'did not run'}")
    if args.what != "stop":
        seconds = faults.start_agent(lab, args.host)
        _output(f"the agent of {args.host} {f'is alive after {seconds:.1f} s' if seconds else 'runs already'}")


def _server(args: argparse.Namespace) -> None:
    lab = Lab.open(args.state)
    if args.what != "start":
        ran = faults.stop_server(lab, kill=args.kill)
        _output(f"the server {'has ended' if ran else 'did not run'}")
    if args.what != "stop":
        seconds = faults.start_server(lab)
        _output(f"the server {f'responds after {seconds:.1f} s' if seconds else 'runs already'}")


def _link(args: argparse.Namespace) -> None:
    faults.set_link(Lab.open(args.state), args.host, args.uplink, args.what)
    _output(f"the link of {args.host} to the network {args.uplink} is {'cut' if args.what == 'down' else 'restored'}")


def _host(args: argparse.Namespace) -> None:
    lab = Lab.open(args.state)
    if args.what == "kill":
        _output(f"{args.host} is dead: {faults.kill_host(lab, args.host)} processes are killed, its links are cut")
    else:
        _output(f"{args.host} is back: its agent is alive after {faults.start_host(lab, args.host):.1f} s")


# --- status -----------------------------------------------------------------------------------------------------------


def _status(args: argparse.Namespace) -> int:
    lab = Lab.open(args.state)
    if args.json:
        found = describe(lab)
        _output(msgspec.json.format(msgspec.json.encode(found)).decode())
        return 0 if found["healthy"] else 1
    text, healthy = read_status(lab)
    _output(text)
    _output(_next_steps(lab))
    return 0 if healthy else 1


def describe(lab: Lab) -> Object:
    """The API, hosts with their processes, and VMs; healthy: the API responds and all processes of all hosts run."""
    responds, keystone = _responds(lab), lab.processes.pid(KEYSTONE)
    agents = lab.agents() if responds else {}
    hosts: list[Object] = []
    for host in lab.hosts:
        switch, database = _switch_pids(lab, host)
        hosts.append(
            {
                "name": host,
                "underlay": underlay_address(host, lab.settings.underlay_ip_version),
                "alive": bool(agents.get(host, {}).get("alive")),
                "agent": lab.agent_pid(host),
                "ovs_vswitchd": switch,
                "ovsdb_server": database,
                "vms": sum(vm.host == host for vm in lab.vms.all()),
            }
        )
    vms: list[Object] = []
    for vm in lab.vms.all():
        addresses, status = _port(lab, vm.port_id, responds)
        vms.append({"name": vm.name, "host": vm.host, "port": vm.port_id, "addresses": addresses, "status": status})
    processes = [(host["agent"], host["ovs_vswitchd"], host["ovsdb_server"]) for host in hosts]
    return {
        "state": str(lab.paths.state),
        "url": lab.settings.url,
        "responds": responds,
        "server": lab.processes.pid(SERVER),
        "keystone": {"url": lab.settings.keystone_url, "process": keystone} if lab.settings.keystone else None,
        "healthy": responds
        and (not lab.settings.keystone or keystone is not None)
        and all(host["alive"] for host in hosts)
        and not any(None in pids for pids in processes),
        "hosts": hosts,
        "vms": vms,
    }


def _responds(lab: Lab) -> bool:
    """Whether the API answers the lab's own requests: with Keystone, they need a token."""
    try:
        lab.agents()
    except LabError:
        return False
    return True


def read_status(lab: Lab) -> tuple[str, bool]:
    """The text, and whether the lab is healthy."""
    found = describe(lab)
    server = f"{'responds' if found['responds'] else 'does not respond'}, server process {found['server'] or 'none'}"
    hosts = [
        (
            *(host["name"], host["underlay"], "alive" if host["alive"] else "not alive", str(host["agent"] or "none")),
            f"{host['ovs_vswitchd'] or 'none'}, {host['ovsdb_server'] or 'none'}",
            str(host["vms"]),
        )
        for host in found["hosts"]
    ]
    lines = [f"API {found['url']} {server}, files in {found['state']}"]
    if found["keystone"] is not None:
        lines.append(f"Keystone {found['keystone']['url']}, process {found['keystone']['process'] or 'none'}")
    lines += ["", *table(HOST_COLUMNS, hosts)]
    if found["vms"]:
        vms = [
            (vm["name"], vm["host"], vm["port"], ",".join(vm["addresses"]) or "-", vm["status"]) for vm in found["vms"]
        ]
        lines += ["", *table(VM_COLUMNS, vms)]
    return "\n".join(lines), found["healthy"]


def _switch_pids(lab: Lab, host: str) -> tuple[int | None, int | None]:
    try:
        switch = lab.ovs(host)
        return switch.pid(SWITCH), switch.pid(DATABASE)
    except LabError:  # the host's namespaces are gone
        return None, None


def _port(lab: Lab, port_id: str, responds: bool) -> tuple[list[str], str]:
    """Addresses and status."""
    if not responds:
        return [], "unknown"
    try:
        port = lab.api.show("port", port_id)
    except ApiError:
        return [], "port deleted"
    return [fixed["ip_address"] for fixed in port["fixed_ips"]], port["status"]


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
