"""A lab that is up: its hosts, VMs and processes. What the command line and the tests do with one, they do through this."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from neutrino.feed.address import short_path
from neutrino.lab import dhcp_client, plug, vm_port
from neutrino.lab.addressing import apply_static
from neutrino.lab.api import Api
from neutrino.lab.capture import Capture
from neutrino.lab.configuration import Options, render
from neutrino.lab.dhcp_client import DhcpClient
from neutrino.lab.enter import host_command, host_network, in_network, vm_command, vm_network
from neutrino.lab.errors import LabError
from neutrino.lab.ovs import OpenVSwitch
from neutrino.lab.processes import Processes, read_namespace, read_pids
from neutrino.lab.settings import EXTERNAL, UNDERLAY, Places, Settings, check_vm_name, vm_namespace
from neutrino.lab.vms import Vm, Vms
from neutrino.lab.waiting import wait_until

RUN_SECONDS = 60.0
SERVER_SECONDS = 30.0
AGENT_SECONDS = 30.0
PORT_SECONDS = 15.0
SERVER = "server"
L2_AGENT = "Open vSwitch agent"
NEUTRINO = (sys.executable, "-m", "neutrino.cli.main")
T = TypeVar("T")


class Lab:
    """`Lab.open(state)` is the lab in a directory; `build.up` makes one."""

    def __init__(self, places: Places, settings: Settings) -> None:
        self.places = places
        self.settings = settings
        self.api = Api(settings.url)
        self.processes = Processes(places)
        self.vms = Vms(places.vms)

    @classmethod
    def open(cls, state: str | os.PathLike[str]) -> Lab:
        places = Places(Path(state).absolute())
        try:
            settings = msgspec.json.decode(places.lab.read_bytes(), type=Settings)
        except FileNotFoundError:
            raise LabError(f"there is no lab in {places.state}: neutrino lab up makes one") from None
        except (OSError, msgspec.MsgspecError) as error:
            raise LabError(f"{places.lab} cannot be read: {error}") from None
        return cls(places, settings)

    # --- hosts ----------------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.settings.host_names

    def check_host(self, host: str) -> None:
        if host not in self.hosts:
            raise LabError(f"there is no host {host}: this lab has {', '.join(self.hosts)}")

    def holder(self, name: str) -> int:
        """The process that holds the namespaces of a host, of the external machine or of the wires."""
        pid = self.processes.pid(name)
        if pid is None:
            raise LabError(f"{name} is not up: neutrino lab down, then neutrino lab up")
        return pid

    def ovs(self, host: str) -> OpenVSwitch:
        self.check_host(host)
        return OpenVSwitch(self.places, host, self.holder(host), self.hosts, self.settings.datapath)

    # --- commands inside ------------------------------------------------------------------------------------------

    def command(self, where: str, argv: Sequence[str]) -> list[str]:
        """The command, to be run in a VM, on a host or on the external machine."""
        if where in self.hosts or where == EXTERNAL:
            return host_command(self.holder(where), argv)
        vm = self.vms.find(where)
        if vm is None:
            known = ", ".join((*self.hosts, EXTERNAL, *(vm.name for vm in self.vms.all())))
            raise LabError(f"there is no {where}: this lab has {known}")
        return vm_command(self.holder(vm.host), vm_namespace(where), argv)

    def run(
        self,
        where: str,
        argv: Sequence[str],
        *,
        timeout: float = RUN_SECONDS,
        check: bool = True,
        text: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """To its end, with its output as text. With `check` a status other than 0 is a LabError."""
        try:
            done = subprocess.run(
                self.command(where, argv),
                input=text or "",
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                env=self.processes.environment(),
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"{where}: {' '.join(argv)} did not end in {timeout:.0f} s") from None
        if check and done.returncode != 0:
            raise LabError(f"{where}: {' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def popen(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """In the background, with its output in pipes; the pid is the command's own. Ends with the lab at the latest."""
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            self.command(where, argv), text=True, env=self.processes.environment(), **(pipes | options)
        )

    def inside(self, where: str, work: Callable[[], T]) -> T:
        """Do something in our own process, in the network of a VM, a host or the external machine: sockets stay there."""
        vm = self.vms.find(where)
        if vm is not None:
            return in_network(vm_network(self.holder(vm.host), vm_namespace(where)), work)
        return in_network(host_network(self.holder(where)), work)

    def capture(self, where: str, expression: str = "", device: str = UNDERLAY) -> Capture:
        """`with lab.capture("h1", "udp port 4789") as seen:` the packets on a host's uplink, or on any device."""
        return Capture(lambda argv: self.popen(where, argv), device, expression)

    # --- the server -----------------------------------------------------------------------------------------------

    def start_server(self, *, wait: bool = True) -> None:
        if self.processes.pid(SERVER) is None:
            files = [str(self.places.server / name) for name in ("neutrino.conf", "lab.conf")]
            options = _config_files([*files, *self.settings.server_config_files])
            self.processes.start_isolated(SERVER, [*NEUTRINO, "server", *options])
        if wait:
            self.wait_for_server()

    def wait_for_server(self) -> float:
        what = f"the API at {self.settings.url} does not answer"
        return self._wait_for(SERVER, self._server_serves, SERVER_SECONDS, what)

    def _server_serves(self) -> bool:
        return self._feed_serves() and self.api.answers()

    def _feed_serves(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe, short_path(str(self.places.feed_socket)) as path:
            return probe.connect_ex(path) == 0

    def stop_server(self, *, kill: bool = False) -> None:
        """Its first process ends, or is killed, and all the others with it."""
        pid = self.processes.pid(SERVER)
        if pid is None:
            return
        own = read_namespace(pid, "mnt")
        self.processes.end(SERVER, signal.SIGKILL if kill else signal.SIGTERM)
        wait_until(
            lambda: not any(read_namespace(pid, "mnt") == own for pid in read_pids()), SERVER_SECONDS, "the server runs"
        )

    # --- agents ---------------------------------------------------------------------------------------------------

    def start_agent(self, host: str, options: Options | None = None, *, wait: bool = True) -> None:
        """`options` go over the lab's, for this start and later ones; {} are none again."""
        self.check_host(host)
        since = ""
        if options is not None:
            (self.places.host(host) / "options.conf").write_text(render(options))
        if self.agent_pid(host) is None:
            since = self._time_after_last_start(host) if wait else since
            self.processes.start(f"{host}-agent", host_command(self.holder(host), self.agent_command(host)))
        if wait:
            self.wait_for_agent(host, since)

    def _time_after_last_start(self, host: str) -> str:
        """The API tells starts apart by the second: what the last one reported is not taken for the next one's word."""
        last = self.agents().get(host, {}).get("started_at")
        now = time.time()
        if _in_seconds(now) == last:
            time.sleep(1 - now % 1)
            now += 1
        return _in_seconds(now)

    def agent_command(self, host: str, *arguments: str) -> list[str]:
        """The agent's command with its configuration; `lab.run("h1", lab.agent_command("h1", "verify"))` compares."""
        directory = self.places.host(host)
        files = [str(directory / "agent.conf"), *self.settings.agent_config_files, str(directory / "options.conf")]
        return [*NEUTRINO, "agent", *arguments, *_config_files(files)]

    def stop_agent(self, host: str, *, kill: bool = False) -> None:
        self.check_host(host)
        self.processes.end(f"{host}-agent", signal.SIGKILL if kill else signal.SIGTERM)

    def agent_pid(self, host: str) -> int | None:
        return self.processes.pid(f"{host}-agent")

    def agents(self) -> dict[str, dict[str, Any]]:
        """The L2 agent of each host that has reported, as the API shows it."""
        return {agent["host"]: agent for agent in self.api.list("agent", agent_type=L2_AGENT)}

    def wait_for_agent(self, host: str, since: str = "") -> float:
        """Until the API shows it alive and its dataplane up; with `since`, as one that started at that time or later."""

        def reported() -> bool:
            agent = self.agents().get(host)
            return (
                agent is not None
                and agent["alive"]
                and agent["started_at"] >= since
                and agent["configurations"].get("dataplane") == "up"
            )

        return self._wait_for(f"{host}-agent", reported, AGENT_SECONDS, f"the agent of {host} did not report")

    def _wait_for(self, name: str, ready: Callable[[], bool], timeout: float, what: str) -> float:
        """Wait for a process to do something: not longer than it lives. If it does not, it may have said why."""

        def lives_and_ready() -> bool:
            if self.processes.pid(name) is None:
                raise LabError(f"{name} ended")
            return ready()

        try:
            return wait_until(lives_and_ready, timeout, what)
        except LabError as error:
            said = self.log_tail(name)
            raise LabError(f"{error}; the last words in {self.places.log(name)}:\n{said}") from None

    # --- Nova's metadata service ----------------------------------------------------------------------------------

    def start_nova(self, host: str) -> None:
        """The stand-in for Nova's metadata service, on the host itself, as hosts reach nothing outside the lab."""
        self.check_host(host)
        if self.nova_pid(host) is None:
            argv = [sys.executable, "-m", "neutrino.lab.metadata", "--secret-file", str(self.places.metadata_secret)]
            self.processes.start(f"{host}-nova", host_command(self.holder(host), argv))

    def stop_nova(self, host: str) -> None:
        self.processes.end(f"{host}-nova", signal.SIGKILL)

    def nova_pid(self, host: str) -> int | None:
        return self.processes.pid(f"{host}-nova")

    # --- Open vSwitch ---------------------------------------------------------------------------------------------

    def start_ovs(self, host: str) -> None:
        """What of it does not run."""
        self.ovs(host).start()

    def stop_ovs(self, host: str, *, kill: bool = False, database: bool = True) -> None:
        """The switch and its database; or the switch alone."""
        self.ovs(host).stop(kill=kill, database=database)

    # --- VMs ------------------------------------------------------------------------------------------------------

    def vm(
        self,
        name: str,
        *,
        network: str | None = None,
        port: str | None = None,
        host: str | None = None,
        security_groups: Sequence[str] | None = None,
        dhcp: bool = True,
        hybrid: bool = False,
        wait: bool = True,
    ) -> Vm:
        """A VM on a network, or with a port that is there already: bound, plugged, ACTIVE and addressed.

        With `wait` false it is only bound and plugged. What fails half-way is undone.
        """
        vm = self.define_vm(
            name,
            network=network,
            port=port,
            host=host,
            security_groups=security_groups,
            dhcp=dhcp,
            hybrid=hybrid,
        )
        try:
            self.plug(name, vm.host)
            if wait:
                self.wait_for_port(vm)
                self.address(name)
        except BaseException:
            _quietly(lambda: self.unplug(name, vm.host))
            _quietly(lambda: self._forget(vm))
            raise
        return vm

    def define_vm(
        self,
        name: str,
        *,
        network: str | None = None,
        port: str | None = None,
        host: str | None = None,
        security_groups: Sequence[str] | None = None,
        dhcp: bool = True,
        hybrid: bool = False,
    ) -> Vm:
        """Its port, bound, and its name; not plugged yet."""
        check_vm_name(name)
        if self.vms.find(name) is not None:
            raise LabError(f"there is a VM {name} already")
        host = host or self._emptiest_host()
        self.check_host(host)
        device_id = str(uuid.uuid4())
        if port is not None:
            bound = vm_port.take(self.api, port, host, device_id)
        else:
            bound = vm_port.make(self.api, name, network, host, device_id, security_groups)
        try:
            vm = Vm(
                name=name,
                host=host,
                port_id=bound["id"],
                device_id=device_id,
                mac=bound["mac_address"],
                mtu=vm_port.check_bound(self.api, bound, host),
                owns_port=port is None,
                hybrid=hybrid or vm_port.is_hybrid(bound),
                dhcp=dhcp,
            )
            self.vms.add(vm)
        except BaseException:
            _quietly(lambda: vm_port.release(self.api, bound["id"], port is None))
            raise
        return vm

    def delete_vm(self, name: str) -> None:
        """With the port, if the lab made it; another one is left unbound."""
        vm = self.vms.get(name)
        self.unplug(name, vm.host)
        self._forget(vm)

    def _forget(self, vm: Vm) -> None:
        vm_port.release(self.api, vm.port_id, vm.owns_port)
        self.dhcp(vm.name).forget()
        self.vms.remove(vm.name)

    def move_vm(self, name: str, host: str) -> Vm:
        """To another host, switched off meanwhile: unplugged, bound anew, plugged there."""
        self.check_host(host)
        vm = self.vms.get(name)
        self.unplug(name, vm.host)
        bound = self.api.update("port", vm.port_id, **{"binding:host_id": host})
        vm_port.check_bound(self.api, bound, host)
        moved = self.settle_vm(name, host)
        self.plug(name, host)
        self.wait_for_port(moved)
        self.address(name)
        return moved

    def settle_vm(self, name: str, host: str) -> Vm:
        """From now on the VM is on this host, as at the end of a live migration: `run` and the like go there."""
        moved = replace(self.vms.get(name), host=host)
        self.vms.replace(moved)
        return moved

    def plug(self, name: str, host: str) -> None:
        """The VM's namespace and device on a host, plugged; its own host, or one that it is to migrate to."""
        self.plug_all([name], host)

    def plug_all(self, names: Sequence[str], host: str) -> None:
        """Many VMs at once, on one host."""
        plug.plug(self.ovs(host), self.holder(host), [self.vms.get(name).nic for name in names])

    def unplug(self, name: str, host: str) -> None:
        plug.unplug(self.ovs(host), self.holder(host), [self.vms.get(name).nic])

    def wait_for_port(self, vm: Vm, status: str = "ACTIVE", timeout: float = PORT_SECONDS) -> float:
        """Until the VM's port has the status; the seconds that it took."""
        if status == "ACTIVE" and not self.api.show("port", vm.port_id)["admin_state_up"]:
            return 0.0  # it never will
        return wait_until(
            lambda: bool(self.api.show("port", vm.port_id)["status"] == status),
            timeout,
            f"port {vm.port_id} of {vm.name} on {vm.host} is not {status} "
            f"(what the agent says is in {self.places.log(f'{vm.host}-agent')})",
        )

    def address(self, name: str) -> None:
        """Give the VM the addresses and routes of its port: by DHCP where it is served, from the port where not."""
        vm = self.vms.get(name)
        port = self.api.show("port", vm.port_id)
        subnets = self.api.list("subnet", network_id=port["network_id"])
        given, ipv6_prefix = frozenset[str](), None
        if vm.dhcp and self.settings.serves_dhcp and port["admin_state_up"]:
            given, ipv6_prefix = dhcp_client.asks(port, subnets)
        apply_static(vm_network(self.holder(vm.host), vm_namespace(name)), port, subnets, given)
        if given:
            ipv4 = any(s["id"] in given and s["ip_version"] == 4 for s in subnets)
            self.dhcp(name).lease(ipv4=ipv4, ipv6_prefix=ipv6_prefix)

    def dhcp(self, name: str) -> DhcpClient:
        """The VM's DHCP clients."""
        return DhcpClient(self.places.dhcp_clients / name, lambda argv: self.run(name, argv).stdout)

    def _emptiest_host(self) -> str:
        counts = Counter(vm.host for vm in self.vms.all())
        return min(self.hosts, key=lambda host: counts[host])

    # --- logs -----------------------------------------------------------------------------------------------------

    def log_tail(self, name: str, size: int = 2000, after: int = 0) -> str:
        """The end of a process' log: `h1-agent`, `server`, `h1-ovs-vswitchd`, …"""
        try:
            with self.places.log(name).open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(after, end - size))
                return log.read().decode(errors="replace")
        except OSError:
            return ""


def _quietly(undo: Callable[[], None]) -> None:
    """What was wrong first is what is told."""
    with contextlib.suppress(LabError):
        undo()


def _in_seconds(at: float) -> str:
    """As the API writes the times of agents."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _config_files(names: Sequence[str]) -> list[str]:
    return [part for name in names for part in ("--config-file", os.path.abspath(name))]
