"""Neutron's server on this machine, and its agents on lab hosts, each with its own Open vSwitch.

By default there are three: h1 and h2 are network nodes, whose L3 agents host routers of every kind; h3 has the distributed
parts only. All three run instances. MariaDB, RabbitMQ and the server end with this process; hosts are found by the lab's
mark (`neutrino lab down`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from neutrino.lab import build
from neutrino.lab.api_client import ApiClient
from neutrino.lab.errors import LabError, locked, wait_until
from neutrino.lab.hosts.namespaces import host_command, in_host, write_sysctls
from neutrino.lab.hosts.ovs import SWITCH
from neutrino.lab.instances.instances import Instances
from neutrino.lab.lab import Lab
from neutrino.lab.settings import LabSettings, underlay_address
from qa.bench.neutron import processes as neutron_processes
from qa.bench.neutron.configuration import Place
from qa.takeover.lab import configuration
from qa.takeover.lab.configuration import L3, AgentHost, Shape
from qa.takeover.lab.relay import Relay
from tests.support.mariadb import MariaDB
from tests.support.ports import free_port
from tests.support.rabbitmq import RabbitMQ

PROJECT = "0a" * 16
HEADERS = {"X-Project-Id": PROJECT, "X-User-Id": "takeover", "X-Roles": "admin,member,reader,service"}
DATABASE = "neutron"
ENDPOINTS = "endpoints.json"
SWITCH_PRIORITY = -10
AGENT_SECONDS = 180.0
# Neutron's agents leave IPv6 alone where new devices have none. Without link-local addresses the host's own kernel is
# silent on taps and uplinks all the same.
_HOST_SYSCTLS = {"ipv6/conf/default/addr_gen_mode": 1, "ipv6/conf/default/disable_ipv6": 0}


@dataclass(frozen=True)
class Endpoints:
    """Where Neutron's server is, kept in the lab's directory for commands that attach to it. URLs have passwords."""

    api: str
    database: str
    broker: str


@dataclass
class NeutronServer:
    """The processes of Neutron's server, which an operator stops when it is not needed any more."""

    place: Place
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> str:
        """The URL of its API, which is the same each time."""
        server, _ = self._running.enter_context(neutron_processes.running(self.place))
        return server.url

    def stop(self) -> None:
        self._running.close()


@dataclass
class NeutronLab:
    """A lab whose networking service is Neutron."""

    lab: Lab
    endpoints: Endpoints
    output: build.Output
    shape: Shape = field(default_factory=Shape)
    own_server: NeutronServer | None = None  # None: another process runs it

    @property
    def api(self) -> ApiClient:
        return ApiClient(self.endpoints.api, headers=HEADERS)

    @property
    def instances(self) -> Instances:
        return self.instances_of(self.api)

    @property
    def ours(self) -> ApiClient:
        """The API of our server, once it runs."""
        return ApiClient(self.lab.settings.url, headers=HEADERS)

    def instances_of(self, api: ApiClient) -> Instances:
        lab = self.lab
        return Instances(
            api, lab.vms, lab.hosts, lab.ovs, lab.paths.dhcp_clients, environment=lab.processes.environment()
        )

    @property
    def server(self) -> NeutronServer:
        if self.own_server is None:
            raise LabError("Neutron's server belongs to the process that keeps the lab running")
        return self.own_server

    def directory(self, host: str) -> Path:
        """The state_path of Neutron's agents on the host."""
        return self.lab.paths.host(host) / "neutron"

    def start_agent(self, host: str, program: str) -> None:
        """Start an agent of Neutron unless it runs."""
        name = f"{host}-{program}"
        if self.lab.processes.pid(name) is None:
            binaries = neutron_processes.VENV / "bin"
            # Agents start helpers by name: privsep-helper, neutron-keepalived-state-change.
            environment = ["env", f"PATH={binaries}:{os.environ['PATH']}", "LANG=C.UTF-8"]
            files = ("agent.conf", "l3_agent.conf") if program == L3 else ("agent.conf",)
            options = [f"--config-file={self.directory(host) / file}" for file in files]
            argv = [*environment, str(binaries / program), *options]
            self.lab.processes.start(name, host_command(self.lab.holder(host), argv))

    def agent_pid(self, host: str, program: str) -> int | None:
        return self.lab.processes.pid(f"{host}-{program}")

    def write_agent_files(self, host: str) -> None:
        directory = self.directory(host)
        directory.mkdir(exist_ok=True)
        settings = self.lab.settings
        text = configuration.agent_conf(
            AgentHost(
                host,
                directory,
                underlay_address(host, settings.underlay_ip_version),
                settings.agent_mode(host),
                self.endpoints.broker.replace("amqp://", "rabbit://", 1),
                self.lab.paths.metadata_secret.read_text().strip(),
                self.shape.use_veth,
                self.shape.firewall_driver(host),
            )
        )
        _write_private(directory / "agent.conf", text)
        (directory / "l3_agent.conf").write_text(configuration.L3_AGENT, encoding="utf-8")

    def missing_agents(self) -> list[str]:
        """Agents that the API does not show alive."""
        alive = {(agent["host"], agent["binary"]) for agent in self.api.list("agent") if agent["alive"]}
        return [f"{host}: {name}" for host in self.lab.hosts for name in self.shape.agents if (host, name) not in alive]

    def check_agents(self) -> None:
        """Raise LabError with the end of its log if an agent has ended."""
        for host in self.lab.hosts:
            for program in self.shape.agents:
                if self.agent_pid(host, program) is None:
                    raise LabError(f"{program} of {host} ended:\n{self.lab.log_tail(f'{host}-{program}')}")


@contextmanager
def running(state: Path, output: build.Output, *, shape: Shape) -> Iterator[NeutronLab]:
    """Neutron with its hosts for the duration of the block; a lab that an earlier run left in `state` is removed."""
    started = time.monotonic()

    def progress(text: str) -> None:
        output(f"{time.monotonic() - started:6.1f} s  {text}")

    with ExitStack() as stack, ThreadPoolExecutor(8, thread_name_prefix="takeover") as pool:
        state.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(state.with_suffix(".lock"), f"another run uses {state}"))
        if state.exists():
            build.down(state)
        lab = Lab(state, LabSettings(hosts=shape.hosts, port=free_port()))
        mariadb, broker = MariaDB(), RabbitMQ()
        stack.enter_context(_stopped(mariadb, broker))
        database = pool.submit(mariadb.start)
        messages = pool.submit(broker.start)
        build.make_directory(lab.paths)
        stack.callback(build.down, state)
        build.write_files(lab)
        build.make_namespaces(lab, pool)
        switches = [pool.submit(lab.ovs(host).start) for host in lab.hosts]
        place = _write_server_files(lab, mariadb, broker, shape)
        endpoints = Endpoints(f"http://127.0.0.1:{place.port}", mariadb.url(DATABASE), broker.url)
        _write_private(state / ENDPOINTS, msgspec.json.encode(endpoints).decode())
        neutron = NeutronLab(lab, endpoints, progress, shape, NeutronServer(place))
        database.result()
        mariadb.create_database(DATABASE)
        progress("MariaDB")
        migration = pool.submit(neutron_processes.migrate, place)
        for switch in switches:
            switch.result()
        for host in lab.hosts:
            in_host(lab.holder(host), lambda: write_sysctls(_HOST_SYSCTLS))
            _prefer_switch(lab, host)
            lab.start_nova(host)
            neutron.write_agent_files(host)
        messages.result()
        progress("hosts with Open vSwitch; RabbitMQ")
        stack.enter_context(Relay([lab.holder(host) for host in lab.hosts], broker.port))
        migration.result()
        progress("schema of Neutron's database")
        stack.callback(neutron.server.stop)
        progress(f"Neutron's API on {neutron.server.start()}")
        for program in shape.agents:
            for host in lab.hosts:
                neutron.start_agent(host, program)
        _wait_for_agents(neutron)
        progress("agents of Neutron")
        yield neutron


def attach(state: Path, output: build.Output) -> NeutronLab:
    """The lab that another process keeps running."""
    lab = Lab.open(state)
    return NeutronLab(lab, msgspec.json.decode((state / ENDPOINTS).read_bytes(), type=Endpoints), output)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _prefer_switch(lab: Lab, host: str) -> None:
    """Let the userspace datapath run before agents: the kernel's would not compete with them for processors either."""
    for thread in Path(f"/proc/{lab.ovs(host).pid(SWITCH)}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), SWITCH_PRIORITY)


def _write_server_files(lab: Lab, mariadb: MariaDB, broker: RabbitMQ, shape: Shape) -> Place:
    place = neutron_processes.write_files(lab.paths.state / "neutron", mariadb.url(DATABASE), broker.url)
    lines = place.neutron_conf.read_text(encoding="utf-8").splitlines()
    plugins = f"service_plugins = {','.join(configuration.SERVICE_PLUGINS)}"
    lines = [plugins if line.startswith("service_plugins") else line for line in lines]
    place.neutron_conf.write_text("\n".join(lines) + configuration.SERVER + shape.server, encoding="utf-8")
    place.ml2_conf.write_text(configuration.ML2, encoding="utf-8")
    return place


def _wait_for_agents(neutron: NeutronLab) -> None:
    def ready() -> bool:
        neutron.check_agents()
        return not neutron.missing_agents()

    try:
        wait_until(ready, AGENT_SECONDS, "agents of Neutron do not report")
    except LabError as error:
        raise LabError(f"{error}: {', '.join(neutron.missing_agents())}") from None


@contextmanager
def _stopped(*servers: MariaDB | RabbitMQ) -> Iterator[None]:
    """End the servers at the end of the block, both at once."""
    try:
        yield
    finally:
        threads = [threading.Thread(target=server.stop) for server in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
