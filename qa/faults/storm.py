"""Load test with faults: many writers, several servers that are killed at random, hosts that reconnect to other servers. In
the end the state of every host equals that of the database.

  python -m qa.faults.storm [--changes 100000] [--writers 8] [--servers 3] [--hosts 12] [--seconds 7200] [--seed 1]

The servers are `neutrino server` with its feed, on one PostgreSQL that is started for the purpose. Changes are counted as
positions of the change log: one for each object that a transaction changed. Hosts report on their ports as an agent would,
so they write too. The exit status is 1 if the state of a host differs in the end, 2 if time ran out before all changes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.model.state import Object
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from qa.bench.workbench import progress
from qa.faults.forward import Forward
from tests.api.agents import switch
from tests.api.conftest import start
from tests.support.feed_changes import RandomChanges
from tests.support.feed_scope import scope_in_database
from tests.support.memory import alive, tree
from tests.support.neutrino import Neutrino
from tests.support.postgres import Postgres
from tests.support.process import wait_until

UNLIMITED = {f"quota_{name}": "-1" for name in ("network", "subnet", "port", "security_group", "security_group_rule")}
MOST_PORTS = 80  # of one writer: its subnets have room for some more
STAY_SECONDS = (2.0, 15.0)  # how long a host stays with a server before it connects to another
KILL_SECONDS = (8.0, 20.0)  # between two kills
SETTLE_SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    changes: int
    writers: int
    servers: int
    hosts: int
    seconds: float
    seed: int


@dataclass
class Tally:
    kills: int = 0
    feeds_killed: int = 0
    moves: int = 0
    failures: list[BaseException] = field(default_factory=list)


class Storm:
    def __init__(self, plan: Plan, server: Server, running: Sequence[Neutrino]) -> None:
        self._plan = plan
        self._running = running
        self._forward = Forward([one.port for one in running])
        self._server = replace(server, app=self._forward)
        self._names = [f"h{i}" for i in range(1, plan.hosts + 1)]
        self._rng = random.Random(plan.seed)
        self._over = threading.Event()  # no more changes
        self._done = threading.Event()  # and no more servers
        self._log = ChangeLog(server.db)
        self._give_up = time.monotonic() + plan.seconds
        self.tally = Tally()

    # --- writers --------------------------------------------------------------------------------------------------

    def _write(self, number: int) -> None:
        try:
            changes = RandomChanges(self._server, self._plan.seed * 1000 + number, self._names)
            while not self._over.is_set():
                if len(changes.ports) > MOST_PORTS:
                    changes._delete()
                changes.step()
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        progress(f"{type(error).__name__}: {error}")
        self.tally.failures.append(error)
        self._over.set()

    def _watch(self) -> None:
        """Wait until there are as many changes as wanted, or the time is over."""
        printed = time.monotonic()
        while not self._over.is_set():
            position = self._log.head().position
            if position >= self._plan.changes or time.monotonic() > self._give_up:
                self._over.set()
            if time.monotonic() - printed > 30:
                printed = time.monotonic()
                progress(f"{position} changes, {self.tally.kills} servers killed, {self.tally.moves} moves")
            self._over.wait(0.5)

    # --- kills ----------------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        try:
            while not self._over.wait(self._rng.uniform(*KILL_SECONDS)):
                victim = self._rng.choice(self._running)
                if self._rng.random() < 0.3:
                    self._kill_feed(victim)
                else:
                    self._kill_server(victim)
        except BaseException as error:
            self._failed(error)
        self._done.wait()  # a process that was started by a thread ends with it

    def _kill_feed(self, victim: Neutrino) -> None:
        for pid in tree(victim.pids[-1]):
            with contextlib.suppress(OSError):
                if b"server feed" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    self.tally.feeds_killed += 1

    def _kill_server(self, victim: Neutrino) -> None:
        family = tree(victim.pids[-1])
        os.kill(victim.pids[-1], signal.SIGKILL)
        self.tally.kills += 1
        wait_until(lambda: not any(map(alive, family)), timeout=30, what="a killed server", failed=lambda: None)
        victim.start()

    # --- hosts ----------------------------------------------------------------------------------------------------

    async def _roam(self, client: FeedClient, make: Any, over: asyncio.Event) -> FeedClient:
        """Connect to one server after the other, each time with the state received so far."""
        rng = random.Random(f"{self._plan.seed} {client._options.host}")
        while True:
            async with living(client):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), rng.uniform(*STAY_SECONDS))
                if over.is_set():
                    return await self._right(client)
            self.tally.moves += 1
            known, reports = client.state, client._reports
            client = make()
            client.state, client._reports = known, reports

    async def _right(self, client: FeedClient) -> FeedClient:
        """Wait until the state of the host equals that of the database, or for far too long."""
        host, give_up = client._options.host, time.monotonic() + SETTLE_SECONDS
        while True:
            wanted = await asyncio.to_thread(self._needed, host)
            if client.is_synced and not client.unacknowledged and known(client) == wanted:
                return client
            if time.monotonic() > give_up:
                raise AssertionError(f"host {host} is not right: {difference(known(client), wanted)}")
            await asyncio.sleep(0.5)

    def _needed(self, host: str) -> dict[tuple[str, str], Object]:
        with self._server.db.read() as connection:
            return scope_in_database(connection, host)

    async def _hosts(self, keys: dict[str, str]) -> int:
        """Run the hosts until the writers are done and all states are equal; gives the number of their objects."""
        addresses = [Address(path=str(one.directory / "feed.sock")) for one in self._running]
        over = asyncio.Event()

        def client(host: str) -> FeedClient:
            first, *others = random.sample(addresses, len(addresses))
            how = ClientOptions(first, host, keys[host], others=tuple(others), first_delay=0.05, longest_delay=1.0)
            return FeedClient(how)

        async def until_over() -> None:
            while not self._over.is_set():  # set by a thread; not set after Ctrl-C
                await asyncio.sleep(0.2)
            over.set()

        roaming = [self._roam(client(host), partial(client, host), over) for host in self._names]
        clients = (await asyncio.gather(asyncio.gather(*roaming), until_over()))[0]
        return sum(len(objects) for one in clients for objects in one.state.objects.values())

    # --- all of it ------------------------------------------------------------------------------------------------

    def run(self) -> int:
        for i, host in enumerate(self._names):
            switch(self._server, host, tunneling_ip=f"192.0.2.{i}")
        credentials = Credentials(self._server.db)
        keys = {host: credentials.add(host) for host in self._names}
        started = time.monotonic()
        work = [threading.Thread(target=self._write, args=(number,)) for number in range(self._plan.writers)]
        work += [threading.Thread(target=self._watch), threading.Thread(target=self._kill)]
        for thread in work:
            thread.start()
        try:
            objects = asyncio.run(self._hosts(keys))
        finally:
            self._over.set()
            self._done.set()
            for thread in work:
                thread.join()
        self._tell(time.monotonic() - started, objects)
        for failure in self.tally.failures:
            raise failure
        return 0 if self._log.head().position >= self._plan.changes else 2

    def _tell(self, seconds: float, objects: int) -> None:
        counts, tally, position = self._forward.counts, self.tally, self._log.head().position
        print(f"{position:,} changes in {seconds:.0f} s: {position / seconds:.0f}/s, by {self._plan.writers} writers")
        print(f"{counts.requests:,} requests, {counts.tried_again} tried again, the slowest {counts.slowest:.1f} s")
        print(f"{tally.kills} servers and {tally.feeds_killed} feeds killed, hosts moved {tally.moves} times")
        print(f"{self._plan.hosts} hosts with {objects:,} objects: every one equals the database")


@contextlib.asynccontextmanager
async def living(client: FeedClient) -> Any:
    """A connected host that reports its ports as wired as soon as it receives them."""

    async def wire() -> None:
        async for change in client.changes():
            if change.kind == "port" and change.new is not None:
                client.port_up(change.id, change.new.revision)

    tasks = [asyncio.create_task(client.run()), asyncio.create_task(wire())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def known(client: FeedClient) -> dict[tuple[str, str], Object]:
    return {(kind, key): o for kind, several in client.state.objects.items() for key, o in several.items()}


def difference(has: dict[tuple[str, str], Object], wanted: dict[tuple[str, str], Object]) -> str:
    lacks = [key for key in wanted if key not in has]
    more = [key for key in has if key not in wanted]
    other = [(has[key], wanted[key]) for key in has if key in wanted and has[key] != wanted[key]]
    return f"it lacks {lacks[:5]}, has {more[:5]} too many, and has others: {other[:3]}"


@contextlib.contextmanager
def servers(count: int, url: str) -> Iterator[list[Neutrino]]:
    settings: dict[str, dict[str, Any]] = {"database": {"connection": url}, "feed": {"run": True}, "quotas": UNLIMITED}
    with contextlib.ExitStack() as stack:
        made = []
        for number in range(count):
            one = Neutrino({**settings, "DEFAULT": {"host": f"server-{number}"}})
            made.append(stack.enter_context(one))
            stack.callback(setattr, one, "_ready", False)  # one that is killed has not ended by itself
        yield made


def run(plan: Plan) -> int:
    with Postgres() as postgres, tempfile.TemporaryDirectory(prefix="neutrino-storm-") as place:
        url = postgres.create_database("storm")
        server = start(Path(place), url, {"quotas": UNLIMITED})
        try:
            with servers(plan.servers, url) as running:
                return Storm(plan, server, running).run()
        finally:
            server.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=7200.0, help="the most that the writers have")
    parser.add_argument("--seed", type=int, default=1)
    logging.getLogger("neutrino").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: what was started is ended
    try:
        return run(Plan(**vars(parser.parse_args(arguments))))
    except (AssertionError, RuntimeError, TimeoutError) as error:
        print(f"the storm was lost: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
