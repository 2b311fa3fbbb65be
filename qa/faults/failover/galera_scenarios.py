"""Faults of a Galera cluster with writes to all nodes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from neutrino.server.db.session import Database
from qa.bench.workbench import progress
from qa.faults.failover import galera_schema
from qa.faults.failover.cloud import Result, cloud
from qa.faults.failover.galera import Cluster, Node, cluster
from qa.faults.failover.proxy import GaleraProxy

SCENARIOS = {
    "galera-schema": "the schema is created by three servers on three nodes at once",
    "galera-calm": "no fault: writes to all nodes at once, which conflict",
    "galera-kill": "one node is killed and rejoins by incremental state transfer",
    "galera-sst": "one node is killed, loses its data and rejoins by a full state transfer",
    "galera-freeze": "one node is stopped (SIGSTOP), is evicted, and continues",
    "galera-hiccup": "one node is stopped for two seconds, less than the cluster's timeout",
    "galera-partition": "one node loses the others; clients still reach it",
    "galera-isolate": "one node loses the others and its clients, without any answer",
    "galera-stop": "one node is stopped in order, as for maintenance",
    "galera-two": "two nodes are killed: the last one is not in the primary component, until they rejoin",
}
SETTLE = 4.0
OPTIONS = {"mysql_wsrep_sync_wait": 1}  # of [database]: several nodes are written to


def run(names: Sequence[str], seconds: float) -> Iterator[Result]:
    with contextlib.ExitStack() as stack:
        progress("start a Galera cluster of three nodes")
        galera = stack.enter_context(cluster())
        if "galera-schema" in names:
            yield galera_schema.run("galera-schema", galera)
        under_load = [name for name in names if name != "galera-schema"]
        if not under_load:
            return
        addresses = [node.address for node in galera.nodes]
        urls = []
        for n, node in enumerate(galera.nodes):
            proxy = stack.enter_context(GaleraProxy([*addresses[n:], *addresses[:n]]))
            urls.append(node.url("127.0.0.1", proxy.port))
        nodes = _Databases(galera)
        stack.callback(nodes.close)
        faults = Faults(galera, seconds)
        made = stack.enter_context(cloud(urls, nodes, OPTIONS))
        for name in under_load:
            yield made.run(name, getattr(faults, name.removeprefix("galera-")), SETTLE)


class _Databases:
    """Connections to each node itself, for the checks."""

    def __init__(self, galera: Cluster) -> None:
        self._galera = galera
        self._made: dict[str, Database] = {}

    def __call__(self) -> Mapping[str, Database]:
        self.close()
        self._galera.wait_synced()
        self._made = {f"node{node.number}": Database(node.url()) for node in self._galera.nodes}
        return self._made

    def close(self) -> None:
        for db in self._made.values():
            db.close()


class Faults:
    """Each method makes one fault, repairs it, and gives the seconds that the node took to rejoin."""

    def __init__(self, galera: Cluster, seconds: float) -> None:
        self._galera = galera
        self._seconds = seconds
        self._turn = 0

    def _victim(self) -> Node:
        """Another node each time."""
        self._turn += 1
        node: Node = self._galera.nodes[self._turn % len(self._galera.nodes)]
        progress(f"    fault on node{node.number}")
        return node

    def _rejoin(self, repair: Callable[[], object]) -> float:
        progress("    repair")
        began = time.monotonic()
        repair()
        self._galera.wait_synced()
        return time.monotonic() - began

    def calm(self) -> float:
        time.sleep(self._seconds)
        return 0.0

    def kill(self) -> float:
        node = self._victim()
        node.kill()
        time.sleep(self._seconds)
        return self._rejoin(node.start)

    def sst(self) -> float:
        node = self._victim()
        node.kill()
        time.sleep(self._seconds)
        node.lose_data()
        return self._rejoin(node.start)

    def freeze(self) -> float:
        node = self._victim()
        node.freeze()
        time.sleep(self._seconds)
        return self._rejoin(node.thaw)

    def hiccup(self) -> float:
        node = self._victim()
        node.freeze()
        time.sleep(2.0)
        return self._rejoin(node.thaw)

    def partition(self) -> float:
        node = self._victim()
        node.network.partition()
        time.sleep(self._seconds)
        return self._rejoin(node.network.heal)

    def isolate(self) -> float:
        node = self._victim()
        node.network.isolate()
        time.sleep(self._seconds)
        return self._rejoin(node.network.heal)

    def stop(self) -> float:
        node = self._victim()
        node.shut_down()
        time.sleep(self._seconds)
        return self._rejoin(node.start)

    def two(self) -> float:
        """Galera does not accept writes without a majority: requests get 503 until an operator starts the nodes again."""
        last, *others = self._galera.nodes
        for node in others:
            node.kill()
        time.sleep(self._seconds)
        progress("    a new primary component from the last node, as an operator decides")
        last.query("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")

        def start() -> None:
            for node in others:
                node.start()

        return self._rejoin(start)
