"""The lab that tests use: a lab whose processes can be stopped and restarted, and whose instances can be moved."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import in_host, in_network, vm_network
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.hosts.processes import (
    STOP_SECONDS,
    has_mark,
    is_alive,
    mark,
    read_namespace,
    read_pids,
    wait_for_end,
)
from neutrino.lab.instances.addressing import DhcpClient
from neutrino.lab.instances.instances import PORT_SECONDS
from neutrino.lab.instances.plug import Vm
from neutrino.lab.lab import NEUTRINO, SERVER, START_SECONDS
from neutrino.lab.lab import Lab as BaseLab
from neutrino.lab.settings import UNDERLAY
from tests.support.capture import Capture
from tests.support.launcher import launch
from tests.support.neutrino import Settings, configuration

T = TypeVar("T")


class Lab(BaseLab):
    # -P: without it the script's directory precedes, where neutrino.py would be imported as the package.
    nova_metadata = ("-P", str(Path(__file__).with_name("nova_metadata.py")))

    def inside(self, where: str, work: Callable[[], T]) -> T:
        """Call a function in the network namespace of an instance, a host or the external machine: sockets stay there."""
        vm = self.vms.find(where)
        if vm is not None:
            return in_network(vm_network(self.holder(vm.host), vm.namespace), work)
        return in_host(self.holder(where), work)

    def capture(self, where: str, expression: str = "", device: str = UNDERLAY) -> Capture:
        """`with lab.capture("h1", "udp port 4789") as seen:` captures packets on a host's uplink, or on any device."""
        return Capture(lambda argv: self.popen(where, argv), device, expression)

    # --- server ---------------------------------------------------------------------------------------------------

    def spawn_server(self) -> None:
        if self.processes.pid(SERVER) is None:
            options = [word for file in self.server_config_files() for word in ("--config-file", str(file))]
            self._launch(SERVER, ["server", *options], mark=(mark(self.paths.state), str(self.paths.mark)))

    def _launch(self, name: str, argv: Sequence[str], **namespaces: Any) -> None:
        """Start the server or an agent: quickly, as labs restart them a hundred times."""
        with self.paths.log(name).open("ab") as log:
            environment = self.processes.environment()
            pid = launch(argv, log.fileno(), environment=environment, directory="/", **namespaces).pid
        (self.paths.pids / name).write_text(f"{pid}\n")
        state = self.paths.state
        what = f"{name} has not entered its namespaces"
        wait_until(lambda: has_mark(pid, state) or not is_alive(pid), START_SECONDS, what)

    def start_server(self, *, wait: bool = True) -> None:
        self.spawn_server()
        if wait:
            self.wait_for_server()

    def stop_server(self, *, kill: bool = False) -> None:
        """Stop the server's first process, and wait until its children have ended too."""
        pid = self.processes.pid(SERVER)
        if pid is None:
            return
        own = read_namespace(pid, "mnt")
        end(pid, kill=kill)
        wait_until(
            lambda: not any(read_namespace(pid, "mnt") == own for pid in read_pids()), START_SECONDS, "the server runs"
        )

    # --- agents ---------------------------------------------------------------------------------------------------

    def start_agent(self, host: str, options: Settings | None = None, *, wait: bool = True) -> None:
        """Start the agent unless it runs. `options` override the configuration, also in later starts; {} removes them."""
        since = ""
        if options is not None:
            self.options_file(host).write_text(configuration(options))
        if self.agent_pid(host) is None:
            since = self._time_after_last_start(host) if wait else since
            self.spawn_agent(host)
        if wait:
            self.wait_for_agent(host, since)

    def spawn_agent(self, host: str) -> None:
        self.check_host(host)
        if self.agent_pid(host) is None:
            self._launch(f"{host}-agent", self.agent_command(host)[len(NEUTRINO) :], inside=self.holder(host))

    def _time_after_last_start(self, host: str) -> str:
        """The API shows start times in seconds: a restart within the same second could not be distinguished."""
        last = self.agents().get(host, {}).get("started_at")
        now = time.time()
        if _in_seconds(now) == last:
            time.sleep(1 - now % 1)
            now += 1
        return _in_seconds(now)

    def options_file(self, host: str) -> Path:
        return self.paths.host(host) / "options.conf"

    def agent_config_files(self, host: str) -> list[str | os.PathLike[str]]:
        own = self.options_file(host)
        return [*super().agent_config_files(host), *([own] if own.exists() else [])]

    def stop_agent(self, host: str, *, kill: bool = False) -> None:
        self.check_host(host)
        end(self.agent_pid(host), kill=kill)

    @contextlib.contextmanager
    def suspended_agent(self, host: str) -> Iterator[None]:
        """The agent of a host does not run on, and is not gone either."""
        pid = self.agent_pid(host)
        assert pid is not None, f"{host} has no agent"
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop_nova(self, host: str) -> None:
        end(self.processes.pid(f"{host}-nova"), kill=True)

    def start_ovs(self, host: str) -> None:
        self.ovs(host).start()

    def stop_ovs(self, host: str, *, kill: bool = False, database: bool = True) -> None:
        """Stop the switch and its database, or the switch alone."""
        for program in (SWITCH, DATABASE) if database else (SWITCH,):
            end(self.ovs(host).pid(program), kill=kill)

    # --- instances ------------------------------------------------------------------------------------------------

    def vm(self, name: str, *, wait: bool = True, **options: Any) -> Vm:
        """Create an instance; with `wait` false, do not wait until its port is ACTIVE, and leave it without addresses."""
        if wait:
            return self.instances.create(name, **options)
        vm = self.define_vm(name, **options)
        self.plug(name, vm.host)
        return vm

    def define_vm(self, name: str, **options: Any) -> Vm:
        return self.instances.define(name, **options)

    def delete_vm(self, name: str) -> None:
        self.instances.delete(name)

    def move_vm(self, name: str, host: str) -> Vm:
        """Cold migration: unplug the instance, bind its port to the other host, plug it there."""
        self.check_host(host)
        vm = self.vms.get(name)
        self.unplug(name, vm.host)
        bound = self.api.update("port", vm.port_id, **{"binding:host_id": host})
        self.instances.check_bound(bound, host)
        moved = self.settle_vm(name, host)
        self.plug(name, host)
        self.wait_for_port(moved)
        self.address(name)
        return moved

    def settle_vm(self, name: str, host: str) -> Vm:
        """Record the instance's new host, as at the end of a live migration."""
        moved = replace(self.vms.get(name), host=host)
        self.vms.remove(name)
        self.vms.add(moved)
        return moved

    def plug(self, name: str, host: str, *, silent: bool = False) -> None:
        self.instances.plug([name], host, silent=silent)

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


def end(pid: int | None, *, kill: bool = False) -> None:
    """Signal a process, if there is one, and wait for its end; SIGKILL after a timeout."""
    for number in (signal.SIGKILL if kill else signal.SIGTERM, signal.SIGKILL):
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if pid is None or wait_for_end(pid, STOP_SECONDS):
            return
    raise LabError(f"process {pid} does not end")


def dhcp_options(client: DhcpClient) -> dict[str, str]:
    """The variables of dhclient's last event: new_ip_address, new_domain_name_servers, …"""
    try:
        text = (client.directory / "events").read_text()
    except OSError:
        return {}
    last = text.split("===\n")[-2]
    return {name: value for name, equals, value in (line.partition("=") for line in last.splitlines()) if equals}


def _in_seconds(at: float) -> str:
    """As the API shows the start times of agents."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
