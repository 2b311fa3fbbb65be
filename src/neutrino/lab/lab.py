"""A lab that is up: its hosts, VMs and processes. What the command line and the tests do with one, they do through this."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from neutrino.feed.address import short_path
from neutrino.lab.api import Api
from neutrino.lab.capture import Capture
from neutrino.lab.configuration import Options, render
from neutrino.lab.dhcp_client import DhcpClient
from neutrino.lab.enter import RUN_SECONDS, host_command, host_network, in_network, run, vm_command, vm_network
from neutrino.lab.errors import LabError
from neutrino.lab.instances import PORT_SECONDS, Instances
from neutrino.lab.ovs import OpenVSwitch
from neutrino.lab.processes import Processes, read_namespace, read_pids
from neutrino.lab.settings import EXTERNAL, UNDERLAY, Places, Settings, vm_namespace
from neutrino.lab.vms import Vm, Vms
from neutrino.lab.waiting import wait_until

SERVER_SECONDS = 30.0
AGENT_SECONDS = 30.0
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
        self.instances = Instances(
            self.api,
            self.vms,
            self.hosts,
            self.ovs,
            places.dhcp_clients,
            settings.serves_dhcp,
            lambda host: str(places.log(f"{host}-agent")),
            self.processes.environment(),
        )

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
        environment = self.processes.environment()
        return run(where, argv, self.command(where, argv), environment, timeout=timeout, check=check, text=text)

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

    def vm(self, name: str, **options: Any) -> Vm:
        """A VM, as `Instances.create` makes it."""
        return self.instances.create(name, **options)

    def define_vm(self, name: str, **options: Any) -> Vm:
        return self.instances.define(name, **options)

    def delete_vm(self, name: str) -> None:
        self.instances.delete(name)

    def move_vm(self, name: str, host: str) -> Vm:
        return self.instances.move(name, host)

    def settle_vm(self, name: str, host: str) -> Vm:
        return self.instances.settle(name, host)

    def plug(self, name: str, host: str) -> None:
        self.instances.plug([name], host)

    def plug_all(self, names: Sequence[str], host: str) -> None:
        self.instances.plug(names, host)

    def unplug(self, name: str, host: str) -> None:
        self.instances.unplug([name], host)

    def wait_for_port(self, vm: Vm, status: str = "ACTIVE", timeout: float = PORT_SECONDS) -> float:
        return self.instances.wait_for_port(vm, status, timeout)

    def address(self, name: str) -> None:
        self.instances.address(name)

    def dhcp(self, name: str) -> DhcpClient:
        return self.instances.dhcp(name)

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


def _in_seconds(at: float) -> str:
    """As the API writes the times of agents."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _config_files(names: Sequence[str]) -> list[str]:
    return [part for name in names for part in ("--config-file", os.path.abspath(name))]
