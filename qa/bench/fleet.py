"""Many hosts in one process: full ones with the agent's feed client, and lean ones that keep digests (`lean_host.py`).

A host reports what an agent would: its state at its start and at intervals, and each port as wired, with every revision
that it receives. The process is driven through a pipe, by the questions below.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from neutrino.feed.address import Address, parse
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.state import StateChange
from neutrino.model.agents import DATAPLANE, OVS, AgentState
from qa.bench.lean_host import LeanHost
from qa.bench.lean_state import Tables

OTHER_DESCRIPTORS = 100  # open descriptors of a process other than connections


@dataclass(frozen=True)
class Simulated:
    """A host to simulate."""

    name: str
    credential: str
    tunneling_ip: str
    is_full: bool = True  # with the agent's own client, which keeps all objects


class FullHost:
    """The agent's feed client, and a dataplane that only stores the state."""

    def __init__(self, options: ClientOptions, seen: Callable[[str], None]) -> None:
        self._seen = seen
        self.client = FeedClient(options)

    @property
    def is_synced(self) -> bool:
        return self.client.is_synced

    @property
    def unacknowledged(self) -> int:
        return max(self.client.unacknowledged - 1, 0)  # a heartbeat may wait at any time, to be written with others

    @property
    def count(self) -> int:
        return sum(map(len, self.client.state.objects.values()))

    @property
    def is_busy(self) -> bool:
        return self.client.state.has_changes

    def report(self, state: AgentState) -> None:
        self.client.report([state])

    async def run(self) -> None:
        await asyncio.gather(self.client.run(), self._apply())

    async def _apply(self) -> None:
        async for change in self.client.changes():
            self._take(change)

    def _take(self, change: StateChange) -> None:
        if change.new is None:
            return
        if change.kind == "port":
            self.client.port_up(change.id, change.new.revision)
        if change.old is None and change.kind in ("port", "forwarding"):
            self._seen(change.id)


def agent_state(who: Simulated, *, first: bool) -> AgentState:
    return AgentState(
        OVS,
        "neutrino-agent",
        who.name,
        "N/A",
        configurations={
            "tunneling_ip": who.tunneling_ip,
            "tunnel_types": ["vxlan"],
            "bridge_mappings": {},
            DATAPLANE: "up",
        },
        start_flag=first,
    )


class Fleet:
    """The hosts of one process, and queries on them."""

    def __init__(self, whos: Sequence[Simulated], address: str, interval: float) -> None:
        # By port, or address of a member with the sign of its change: number of hosts that have it, time of the last one.
        self._times: dict[str, tuple[int, float]] = {}
        self._interval = interval
        self._tables = Tables()
        self._whos = whos
        self._hosts = {who.name: self._host(who, parse(address)) for who in whos}

    def _host(self, who: Simulated, address: Address) -> FullHost | LeanHost:
        options = ClientOptions(address, who.name, who.credential, roles=("l2",))
        return FullHost(options, self._saw) if who.is_full else LeanHost(options, self._tables, self._saw)

    def _saw(self, port_id: str) -> None:
        if self._tables.times_puts:  # a first snapshot has millions of them
            self._times[port_id] = self._times.get(port_id, (0, 0.0))[0] + 1, time.monotonic()

    def start(self) -> list[asyncio.Task[None]]:
        work = [*(host.run() for host in self._hosts.values()), *map(self._report, self._whos)]
        return [asyncio.create_task(one) for one in work]

    async def _report(self, who: Simulated) -> None:
        """Report as an agent does: at once, then at its interval, at a different time for each host."""
        host, delay = self._hosts[who.name], random.random() * self._interval
        host.report(agent_state(who, first=True))
        while True:
            await asyncio.sleep(delay)
            delay = self._interval
            host.report(agent_state(who, first=False))

    def status(self) -> dict[str, Any]:
        hosts = self._hosts.values()
        return {
            "synced": sum(host.is_synced for host in hosts),
            "unacknowledged": sum(host.unacknowledged for host in hosts),
            "objects": sum(host.count for host in hosts),
            "waiting": sum(host.is_busy for host in hosts),
        }

    def synced(self) -> int:
        return sum(host.is_synced for host in self._hosts.values())

    def record(self) -> None:
        """Keep the times of new ports and of changes of members from now on, and none from before."""
        self._tables.times_puts = True
        self._times.clear()

    def received(self) -> tuple[int, int]:
        """Messages and bytes that lean hosts have received; messages since `record`."""
        lean = [host for host in self._hosts.values() if isinstance(host, LeanHost)]
        return sum(host.messages for host in lean), sum(host.received for host in lean)

    def seen(self, port_ids: Sequence[str]) -> dict[str, tuple[int, float]]:
        return {key: self._times.get(key, (0, 0.0)) for key in port_ids}

    def stick(self, names: Sequence[str]) -> None:
        """Let these hosts read nothing any more; only lean ones."""
        for name in names:
            if isinstance(host := self._hosts.get(name), LeanHost):
                host.stick()

    def unstick(self) -> None:
        for host in self._hosts.values():
            if isinstance(host, LeanHost):
                host.unstick()

    def objects(self, name: str) -> dict[str, list[bytes]] | None:
        """The objects of a full host, by kind; None if it is not simulated here."""
        host = self._hosts.get(name)
        if not isinstance(host, FullHost):
            return None
        known = host.client.state.objects
        return {kind: sorted(map(msgspec.json.encode, several.values())) for kind, several in known.items() if several}

    def summaries(self) -> dict[str, dict[str, dict[str, str]]]:
        """The digests of the objects of all lean hosts; peers as their number and the sum of their digests."""
        return {name: host.state.summary() for name, host in self._hosts.items() if isinstance(host, LeanHost)}


async def _serve(fleet: Fleet, asked: Connection) -> None:
    running = fleet.start()
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def answer() -> None:
        try:
            name, *arguments = asked.recv()
        except EOFError:
            stop.set()
            return
        if name == "stop":
            stop.set()
        else:
            asked.send(getattr(fleet, name)(*arguments))

    loop.add_reader(asked.fileno(), answer)
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
    loop.remove_reader(asked.fileno())
    for task in done:
        task.result()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _main(whos: Sequence[Simulated], address: str, interval: float, asked: Connection) -> None:
    logging.getLogger("neutrino").setLevel(logging.ERROR)  # a thousand hosts lose their server at once, as intended
    raise_descriptors(len(whos))
    asyncio.run(_serve(Fleet(whos, address, interval), asked))


def raise_descriptors(connections: int) -> None:
    """Raise the limit of descriptors, one per connection, or fail before anything is measured."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_DESCRIPTORS
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise RuntimeError(f"{wanted} open files are needed and {hard} allowed: ulimit -n")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Process:
    """Controls a process of simulated hosts."""

    def __init__(self, whos: Sequence[Simulated], address: str, interval: float) -> None:
        context = multiprocessing.get_context("spawn")  # no memory shared with this process
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_main, args=(whos, address, interval, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def ask(self, name: str, *arguments: Any, seconds: float = 60.0) -> Any:
        self._pipe.send((name, *arguments))
        if not self._pipe.poll(seconds):
            raise TimeoutError(f"the simulated hosts do not answer {name} within {seconds:.0f} s")
        return self._pipe.recv()

    def stop(self) -> None:
        if self._process.is_alive():
            self._pipe.send(("stop",))
            self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
