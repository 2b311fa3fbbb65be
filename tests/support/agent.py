"""The host agent under test, started as a user does, on an Open vSwitch of its own and a server's feed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence

from tests.support.commands import run_neutrino
from tests.support.launcher import PROGRAM
from tests.support.neutrino import Caller, Neutrino, Settings, configuration
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import Process, TemporaryServer, wait_until

LOCAL_IP = "192.0.2.1"
UP = "the dataplane is up"


class Agent(TemporaryServer):
    """`with Agent(server, switch, "h1") as agent:` runs `neutrino agent`; it is ready when the server knows it."""

    name = "agent"

    def __init__(self, server: Neutrino, switch: OpenVSwitch, host: str, settings: Settings | None = None) -> None:
        super().__init__()
        self.server, self.switch, self.host = server, switch, host
        self.write("credential", add_host(server, host))
        # Named namespaces are the machine's, and so other tests': leftovers are removed in labs, which have their own.
        defaults: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": host, "state_path": self.directory / "state"},
            "feed": {
                "server": f"unix:{server.directory}/feed.sock",
                "credential_file": self.directory / "credential",
                "longest_delay": 0.2,
            },
            "ovs": {
                "ovsdb_connection": switch.database,
                "run_directory": switch.run_directory,
                "datapath_type": "dummy",
                "local_ip": LOCAL_IP,
                "bridge_mappings": "physnet1:br-phys",
            },
            "agent": {"tunnel_types": "vxlan,gre,geneve", "check_interval": 1, "remove_stale_namespaces": False},
        }
        given: Mapping[str, Mapping[str, object]] = settings or {}
        self.settings = {
            section: {**defaults.get(section, {}), **given.get(section, {})}
            for section in dict.fromkeys([*defaults, *given])
        }
        self.config = self.write("agent.conf", configuration(self.settings))

    def start(self) -> None:
        for path in self.directory.glob("*.log"):
            path.unlink()  # what it and the server say may be of an agent before this one
        self.spawn(
            [self.server.program, "agent", "--config-file", self.config],
            ready=lambda: UP in self.log and self.is_alive(),
        )

    def is_alive(self) -> bool:
        caller = Caller(self.server.url)
        try:
            agents = caller("GET", f"/v2.0/agents?host={self.host}").json()["agents"]
        finally:
            caller.close()
        return any(agent["alive"] and agent["configurations"].get("dataplane") == "up" for agent in agents)

    @property
    def process(self) -> Process:
        return self._processes[-1][0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        process, _ = self._processes.pop()
        process.send_signal(number)
        return process.wait(timeout=20)

    def look(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`neutrino agent` for a question, such as `verify`."""
        return run_command(self.server, ["agent", *arguments, "--config-file", str(self.config)])

    @property
    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))


def add_host(server: Neutrino, host: str) -> str:
    roles = ["--roles", "l2,dhcp,l3,metadata"]  # each test says in its configuration which it has
    done = run_command(server, ["host", "add", host, *roles, "--config-file", str(server.config)])
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_command(server: Neutrino, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """In a process that has loaded the code, as that takes a second; unless the server is of another installation."""
    if server.program != PROGRAM:
        command = [str(server.program), *argv]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    done = run_neutrino(argv)
    return subprocess.CompletedProcess(argv, done.status, done.out, done.error)


def wait_for_status(caller: Caller, port_id: str, status: str, timeout: float = 60) -> None:
    def has_it() -> bool:
        return bool(caller("GET", f"/v2.0/ports/{port_id}").json()["port"]["status"] == status)

    wait_until(has_it, timeout=timeout, what=f"port {port_id} {status}", failed=lambda: None)
