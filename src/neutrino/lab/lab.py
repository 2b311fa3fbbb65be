"""A lab: its server, hosts, agents and stand-in instances."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from neutrino.feed.address import short_path
from neutrino.lab import keystone
from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import host_command, run
from neutrino.lab.hosts.ovs import OpenVSwitch
from neutrino.lab.hosts.processes import Processes
from neutrino.lab.instances.instances import Instances, VmRecords
from neutrino.lab.settings import EXTERNAL, LabPaths, LabSettings
from neutrino.model import agents
from neutrino.model.objects import Object

START_SECONDS = 30.0
KEYSTONE_SECONDS = 90.0  # its import and its migrations take most of it
SERVER = "server"
KEYSTONE = "keystone"
AGENT_NICE = 10  # of `neutrino up` too
NEUTRINO = (sys.executable, "-m", "neutrino.cli.main")


class Lab:
    """`Lab.open(state)` is an existing lab; `build.up(Lab(state, settings))` creates one."""

    nova_metadata: Sequence[str] = ("-m", "neutrino.lab.nova_metadata")  # arguments of Python

    def __init__(self, state: str | os.PathLike[str], settings: LabSettings) -> None:
        self.paths = LabPaths(Path(state).absolute())
        self.settings = settings
        self.hosts = settings.host_names
        read = partial(keystone.read_passwords, self.paths.passwords)
        token = keystone.token_source(settings.keystone_url, read) if settings.keystone else None
        self.api = ApiClient(settings.url, token=token)
        self.processes = Processes(self.paths)
        self.vms = VmRecords(self.paths.vms)
        self.instances = Instances(
            self.api,
            self.vms,
            self.hosts,
            self.ovs,
            self.paths.dhcp_clients,
            "dhcp" in settings.roles,
            lambda host: str(self.paths.log(f"{host}-agent")),
            self.processes.environment(),
            partial(keystone.project_id, settings.keystone_url, read) if settings.keystone else str,
        )

    @classmethod
    def open(cls, state: str | os.PathLike[str]) -> Self:
        file = LabPaths(Path(state).absolute()).settings
        try:
            return cls(state, msgspec.json.decode(file.read_bytes(), type=LabSettings))
        except FileNotFoundError:
            raise LabError(f"there is no lab in {file.parent}: create one with neutrino lab up") from None
        except (OSError, msgspec.MsgspecError) as error:
            raise LabError(f"cannot read {file}: {error}") from None

    # --- hosts ----------------------------------------------------------------------------------------------------

    def check_host(self, host: str) -> None:
        if host not in self.hosts:
            raise LabError(f"there is no host {host}: this lab has {', '.join(self.hosts)}")

    def holder(self, name: str) -> int:
        """The pid of the process that holds the namespaces of a host, of the external machine or of the fabric."""
        pid = self.processes.pid(name)
        if pid is None:
            raise LabError(f"{name} is not running: run neutrino lab down, then neutrino lab up")
        return pid

    def ovs(self, host: str) -> OpenVSwitch:
        self.check_host(host)
        return OpenVSwitch(self.paths, host, self.holder(host), self.hosts, self.settings.datapath)

    # --- commands in the lab --------------------------------------------------------------------------------------

    def command(self, where: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in an instance, on a host or on the external machine."""
        if where in self.hosts or where == EXTERNAL:
            return host_command(self.holder(where), argv)
        if self.vms.find(where) is None:
            known = ", ".join((*self.hosts, EXTERNAL, *(vm.name for vm in self.vms.all())))
            raise LabError(f"there is no {where}: this lab has {known}")
        return self.instances.command(where, argv)

    def run(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with the options of `namespaces.run`."""
        shown = f"{where}: {' '.join(argv)}"
        return run(self.command(where, argv), env=self.processes.environment(), shown=shown, **options)

    def popen(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command in the background; `neutrino lab down` ends it at the latest."""
        pipes: Object = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command, environment = self.command(where, argv), self.processes.environment()
        return subprocess.Popen(command, text=True, env=environment, **(pipes | options))

    # --- processes ------------------------------------------------------------------------------------------------

    def spawn_server(self) -> None:
        """Start the server's process unless it runs; `wait_for_server` waits until it is ready. Agents likewise."""
        if self.processes.pid(SERVER) is None:
            options = _config_files(self.server_config_files())
            self.processes.start_isolated(SERVER, [*NEUTRINO, "server", *options])

    def server_config_files(self) -> list[str | os.PathLike[str]]:
        own = [self.paths.server / "neutrino.conf", *([self.paths.server_keystone] if self.settings.keystone else [])]
        return [*own, *self.settings.server_config_files]

    def spawn_keystone(self) -> None:
        """Start the lab's Keystone, if it has one, unless it runs."""
        python, port, url = self.settings.keystone, self.settings.keystone_port, self.settings.keystone_url
        if python and self.processes.pid(KEYSTONE) is None:
            argv = [python, "-P", str(keystone.PROGRAM), str(self.paths.keystone / "keystone.conf"), "127.0.0.1"]
            password = keystone.read_passwords(self.paths.passwords)[keystone.ADMIN.name]
            environment = keystone.bootstrap_environment(url, password)  # not in its arguments, which others can read
            self.processes.start_isolated(KEYSTONE, [*argv, str(port)], environment)

    def wait_for_keystone(self) -> float:
        url, passwords = self.settings.keystone_url, keystone.read_passwords(self.paths.passwords)
        what = f"Keystone at {url} does not respond"
        return self._wait_for(KEYSTONE, lambda: keystone.responds(url, passwords), what, KEYSTONE_SECONDS)

    def wait_for_server(self) -> float:
        return self._wait_for(SERVER, self._server_responds, f"the API at {self.settings.url} does not respond")

    def _server_responds(self) -> bool:
        # By a short path: the kernel limits the path of a Unix socket to 108 bytes.
        with socket.socket(socket.AF_UNIX) as probe, short_path(str(self.paths.feed_socket)) as path:
            return probe.connect_ex(path) == 0 and self.api.responds()  # agents need the feed, commands the API

    def spawn_agent(self, host: str) -> None:
        self.check_host(host)
        if self.agent_pid(host) is None:
            # Hosts share the machine with the server: requests of clients come before the work that they cause.
            command = ["nice", "-n", str(AGENT_NICE), *self.agent_command(host)]
            self.processes.start(f"{host}-agent", host_command(self.holder(host), command))

    def agent_command(self, host: str, *arguments: str) -> list[str]:
        """The agent's command line with its configuration; `agent_command("h1", "verify")` checks for drift."""
        return [*NEUTRINO, "agent", *arguments, *_config_files(self.agent_config_files(host))]

    def agent_config_files(self, host: str) -> list[str | os.PathLike[str]]:
        return [self.paths.host(host) / "agent.conf", *self.settings.agent_config_files]

    def agent_pid(self, host: str) -> int | None:
        return self.processes.pid(f"{host}-agent")

    def agents(self) -> dict[str, Object]:
        """By host, the L2 agent as the API shows it."""
        return {agent["host"]: agent for agent in self.api.list("agent", agent_type=agents.OVS)}

    def wait_for_agent(self, host: str, since: str = "") -> float:
        """Wait until the API shows the agent alive and its dataplane up; `since`: the earliest accepted start time."""

        def is_up() -> bool:
            agent = self.agents().get(host)
            return (
                agent is not None
                and agent["alive"]
                and agent["started_at"] >= since  # an agent that was killed stays alive in the API for the down time
                and agent["configurations"].get("dataplane") == "up"
            )

        return self._wait_for(f"{host}-agent", is_up, f"the agent of {host} has not reported")

    def start_nova(self, host: str) -> None:
        """Start the stand-in for Nova's metadata service on a host."""
        self.check_host(host)
        if self.processes.pid(f"{host}-nova") is None:
            argv = [sys.executable, *self.nova_metadata, "--secret-file", str(self.paths.metadata_secret)]
            self.processes.start(f"{host}-nova", host_command(self.holder(host), argv))

    def _wait_for(self, name: str, ready: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> float:
        """Wait for a condition while a process runs; its log is part of the error."""

        def runs_and_ready() -> bool:
            if self.processes.pid(name) is None:
                raise LabError(f"{name} ended")
            return ready()

        try:
            return wait_until(runs_and_ready, seconds, what)
        except LabError as error:
            raise LabError(f"{error}; end of {self.paths.log(name)}:\n{self.log_tail(name)}") from None

    def log_tail(self, name: str, size: int = 2000, after: int = 0) -> str:
        """The end of a process' log: `h1-agent`, `server`, `h1-ovs-vswitchd`, …"""
        path = self.paths.log(name)
        content = path.read_bytes() if path.exists() else b""
        return content[max(after, len(content) - size) :].decode(errors="replace")


def _config_files(names: Sequence[str | os.PathLike[str]]) -> list[str]:
    return [part for name in names for part in ("--config-file", os.path.abspath(name))]
