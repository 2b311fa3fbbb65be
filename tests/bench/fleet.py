"""Many hosts in one process: each with the real feed client, and a dataplane that only stores the state.

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

from neutrino.feed.address import parse
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.state import StateChange
from neutrino.model.agents import DATAPLANE, OVS, AgentState

OTHER_DESCRIPTORS = 100  # open descriptors of a process other than connections


@dataclass(frozen=True)
class Simulated:
    """A host to simulate."""

    name: str
    credential: str
    tunneling_ip: str


class Host:
    def __init__(self, who: Simulated, address: str, interval: float, seen: Callable[[str], None]) -> None:
        self._who = who
        self._interval = interval
        self._seen = seen
        self._first = True
        self.client = FeedClient(ClientOptions(parse(address), who.name, who.credential, roles=("l2",)))

    async def run(self) -> None:
        work = (self.client.run(), self._apply(), self._report())
        await asyncio.gather(*(asyncio.create_task(one) for one in work))

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

    async def _report(self) -> None:
        """Report as an agent does: at once, then at its interval, at a different time for each host."""
        delay = random.random() * self._interval
        while True:
            state = AgentState(
                OVS,
                "neutrino-agent",
                self._who.name,
                "N/A",
                configurations={
                    "tunneling_ip": self._who.tunneling_ip,
                    "tunnel_types": ["vxlan"],
                    "bridge_mappings": {},
                    DATAPLANE: "up",
                },
                start_flag=self._first,
            )
            self.client.report([state])
            self._first = False
            await asyncio.sleep(delay)
            delay = self._interval


class Fleet:
    """The hosts of one process, and queries on them."""

    def __init__(self, whos: Sequence[Simulated], address: str, interval: float) -> None:
        self._times: dict[str, tuple[int, float]] = {}  # by port: number of hosts that have it, time of the last one
        self._hosts = {who.name: Host(who, address, interval, self._saw) for who in whos}

    def _saw(self, port_id: str) -> None:
        self._times[port_id] = self._times.get(port_id, (0, 0.0))[0] + 1, time.monotonic()

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(host.run()) for host in self._hosts.values()]

    def status(self) -> dict[str, Any]:
        clients = [host.client for host in self._hosts.values()]
        return {
            "synced": sum(client.is_synced for client in clients),
            "unacknowledged": sum(client.unacknowledged for client in clients),
            "objects": sum(len(objects) for client in clients for objects in client.state.objects.values()),
            "waiting": sum(client.state.has_changes for client in clients),
        }

    def seen(self, port_ids: Sequence[str]) -> dict[str, tuple[int, float]]:
        return {key: self._times.get(key, (0, 0.0)) for key in port_ids}

    def forget(self) -> None:
        self._times.clear()

    def objects(self, name: str) -> dict[str, list[bytes]] | None:
        """The objects of a host, by kind; None if it is not simulated here."""
        if name not in self._hosts:
            return None
        known = self._hosts[name].client.state.objects
        return {kind: sorted(map(msgspec.json.encode, several.values())) for kind, several in known.items() if several}


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
