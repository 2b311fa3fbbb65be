"""Three servers with their feeds behind HAProxy, simulated hosts and clients, on databases that fail."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neutrino.model.state import Object
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from qa.bench.workbench import progress
from qa.faults.failover import checks
from qa.faults.failover.hosts import ConnectedHosts, connected
from qa.faults.failover.ledger import Figures, figures
from qa.faults.failover.load import PROJECT, Load
from qa.faults.failover.proxy import ApiProxy
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.feed_scope import scope_in_database
from tests.support.neutrino import Neutrino

QUOTA = {"quota_port": "100000", "quota_network": "100000"}  # with a limit, usage is counted: a hot row of all writers
UNEXPECTED = ("Traceback", "500 ")


@dataclass
class Result:
    """The outcome of one scenario."""

    name: str
    figures: Figures
    recovery: float  # seconds until the node was a member again
    violations: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.violations and not self.figures.defects


@dataclass
class Cloud:
    servers: Sequence[Neutrino]
    proxy: ApiProxy
    hosts: ConnectedHosts
    network: str
    nodes: Callable[[], Mapping[str, Database]]  # the nodes to check, by name
    results: list[Result] = field(default_factory=list)
    _runs: int = 0

    def run(self, name: str, fault: Callable[[], float], settle: float) -> Result:
        """Run one fault under load, then check. `fault` returns when the node is back, with the seconds it took."""
        self._runs += 1
        progress(f"{name}: load")
        load = Load(self.proxy.port, [one.port for one in self.servers], list(self.hosts.clients))
        load.run = self._runs
        load.start(self.network)
        try:
            time.sleep(settle)
            began = time.monotonic()
            recovery = fault()
            time.sleep(settle)
            ended = time.monotonic()
        finally:
            load.stop()
        measured = figures(load.answers, began, ended, load.targets)
        progress(f"{name}: check {len(load.answers)} writes")
        result = Result(name, measured, recovery, [*map(repr, load.failures), *self._check(load)])
        self.results.append(result)
        return result

    def _check(self, load: Load) -> list[str]:
        nodes = self.nodes()
        first = next(iter(nodes.values()))
        wrong = self.hosts.differences(lambda host: _needed(first, host))
        wrong += _awaited(lambda: checks.unfinished_ports(first))
        for name, db in nodes.items():
            wrong += checks.check(db, load.entries, name)
        tables = {name: checks.contents(db) for name, db in nodes.items()}
        reference = next(iter(tables.values()))
        for name, digests in tables.items():
            wrong += [f"{name}: table {table} differs" for table in digests if digests[table] != reference[table]]
        return wrong


def _awaited(wrong: Callable[[], list[str]], seconds: float = 20.0) -> list[str]:
    """What is still wrong after a bounded time."""
    give_up = time.monotonic() + seconds
    while (found := wrong()) and time.monotonic() < give_up:
        time.sleep(0.5)
    return found


def _needed(db: Database, host: str) -> dict[tuple[str, str], Object]:
    with db.read() as connection:
        return scope_in_database(connection, host)


@contextlib.contextmanager
def cloud(
    urls: Sequence[str], nodes: Callable[[], Mapping[str, Database]], options: Mapping[str, Any], hosts: int = 6
) -> Iterator[Cloud]:
    """One server for each connection URL, with these options of [database]."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="neutrino-failover-"))
        progress("create the schema, hosts and a network")
        # In this process: it registers the hosts, which the servers then know.
        server = start(Path(place), urls[0], {"quotas": QUOTA})
        try:
            names = [f"h{n}" for n in range(1, hosts + 1)]
            for n, host in enumerate(names, 1):
                switch(server, host, tunneling_ip=f"192.0.2.{n}")
            credentials = Credentials(server.db)
            keys = {host: credentials.add(host) for host in names}
            network = _network(server)
        finally:
            server.close()
        progress(f"start {len(urls)} servers")
        running = [stack.enter_context(_server(n, {**options, "connection": url})) for n, url in enumerate(urls, 1)]
        proxy = stack.enter_context(ApiProxy([one.port for one in running]))
        agents = stack.enter_context(connected(keys, [str(one.directory / "feed.sock") for one in running]))
        agents.wait_synced()
        yield Cloud(running, proxy, agents, network, nodes)


def _network(server: Server) -> str:
    api = Api(server.app, project=PROJECT).as_admin()
    network = api.network(name="shared")
    api.subnet(network, "10.0.0.0/16", enable_dhcp=False)
    return str(network["id"])


def _server(number: int, database: Mapping[str, Any]) -> Neutrino:
    settings: dict[str, dict[str, Any]] = {
        "DEFAULT": {"host": f"server{number}"},
        "database": dict(database),
        "feed": {"run": True},
        "quotas": QUOTA,
    }
    return Neutrino(settings, workers=2)
