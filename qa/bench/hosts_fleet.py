"""The simulated hosts of a benchmark: credentials, processes, waiting for them, and the comparison with the database."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from qa.bench import processor
from qa.bench.client import LoadError
from qa.bench.fleet import Process, Simulated
from qa.bench.hosts_check import Expected, are_equal, records_of, wanted_objects
from qa.bench.hosts_cloud import SECONDS
from qa.bench.layout import Sizes, host_names, tunneling_ip
from tests.support import memory

STARTED = time.monotonic()


def progress(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


class Hosts:
    def __init__(self, sizes: Sizes, connection: str, directory: Path) -> None:
        self._sizes = sizes
        self._connection = connection
        self._address = f"unix:{directory.absolute() / 'feed.sock'}"
        self._whos: list[Simulated] = []
        self.names = host_names(sizes.hosts)
        self.full = frozenset(random.Random(3).sample(self.names, min(sizes.full, sizes.hosts)))
        self.fleet: list[Process] = []

    def admit(self) -> Sequence[Simulated]:
        """Issue every host a credential, as `neutrino host add` does."""
        progress(f"{self._sizes.hosts} hosts, {self._sizes.all_ports} ports")
        db = Database(self._connection, sqlite_durable=False)
        schema.ensure(db)
        credentials = Credentials(db)
        self._whos = [
            Simulated(name, credentials.add(name), tunneling_ip(i), name in self.full)
            for i, name in enumerate(self.names)
        ]
        db.close()
        return self._whos

    def start(self, some: slice = slice(None)) -> None:
        """Start hosts, without any state."""
        count, whos = self._sizes.processes, self._whos[some]
        self.fleet += [Process(whos[i::count], self._address, self._sizes.interval) for i in range(count)]

    def stop(self) -> None:
        while self.fleet:
            self.fleet.pop().stop()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.fleet]

    @property
    def processor_seconds(self) -> float:
        """Processor time of the processes that simulate them."""
        return sum(processor.of_process(pid)[0] for pid in self.pids)

    def ask(self, what: str) -> int:
        return sum(process.ask(what) for process in self.fleet)

    def status(self, what: str) -> int:
        return sum(process.ask("status")[what] for process in self.fleet)

    def are_synced(self) -> bool:
        return self.ask("synced") == self._sizes.hosts

    def settle(self, what: str) -> None:
        """Wait until no messages are pending in either direction."""
        before: dict[str, int] = {}

        def settled() -> bool:
            nonlocal before
            answers = [process.ask("status") for process in self.fleet]
            found = {name: sum(answer[name] for answer in answers) for name in answers[0]}
            known, before = before, found
            quiet = not found["unacknowledged"] and not found["waiting"]
            return quiet and found == known and found["synced"] == self._sizes.hosts

        until(settled, what, every=1.0)
        progress(f"  {before['objects']:,} objects on the hosts")

    def compare(self) -> int:
        """Compare all hosts with the database; their number."""
        progress(f"{len(self.full)} hosts compared with the database by objects, the others by digests")
        records = records_of(self._connection)
        for name in sorted(self.full):
            has = next(found for process in self.fleet if (found := process.ask("objects", name)) is not None)
            if not are_equal(has, wanted_objects(records, name)):
                raise LoadError(f"the objects of host {name} differ from the database")
        expected, compared = Expected(records), len(self.full)
        for process in self.fleet:
            for name, has_digests in process.ask("summaries", seconds=300).items():
                wanted = expected.of(name)
                if has_digests != wanted:
                    kinds = [kind for kind in wanted if has_digests.get(kind) != wanted[kind]]
                    raise LoadError(f"digests of host {name} differ from the database: {kinds}")
                compared += 1
        return compared


def until(condition: Callable[[], bool], what: str, every: float = 0.1) -> None:
    progress(f"waiting for {what}")
    give_up = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not within {SECONDS:.0f} s")
        time.sleep(every)


def feed_pid(server: int) -> int:
    for pid in memory.tree(server):
        if b"server feed" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise LoadError("the server has no feed beside it")


def feed_mb(server: int) -> float:
    return megabytes([feed_pid(server)])


def megabytes(pids: Sequence[int]) -> float:
    """The memory of processes, PSS."""
    return round(sum(memory.pss_kb(pid) for pid in pids) / 1024, 2)


class Spent:
    """Processor time since a moment: of the feed, of the server's other processes, and of the simulated hosts."""

    def __init__(self, hosts: Hosts, server: int, feed: int) -> None:
        self._hosts, self._server, self._feed = hosts, server, feed
        self._before = self._now()
        self._began = time.monotonic()

    def _now(self) -> dict[str, float]:
        feed = processor.of_process(self._feed)[0]
        server = processor.seconds([self._server])
        return {"feed": feed, "server": server - feed, "hosts": self._hosts.processor_seconds}

    def figures(self) -> dict[str, Any]:
        seconds = round(time.monotonic() - self._began, 2)
        now = self._now()
        return {"s": seconds, **{f"{name}_cpu_s": round(now[name] - self._before[name], 2) for name in now}}
