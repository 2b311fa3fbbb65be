"""Simulated hosts with the real feed client, connected to the feeds of all servers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.model.agents import DATAPLANE, OVS, AgentState
from neutrino.model.state import Object
from qa.faults.storm import difference, known

REPORT_SECONDS = 10.0
SETTLE_SECONDS = 120.0


class Host:
    """One host, which reports what an agent would: its state at intervals, and each port as wired."""

    def __init__(self, name: str, tunneling_ip: str, client: FeedClient) -> None:
        self.client = client
        self._name = name
        self._tunneling_ip = tunneling_ip

    async def run(self) -> None:
        await asyncio.gather(*map(asyncio.create_task, (self.client.run(), self._apply(), self._report())))

    async def _apply(self) -> None:
        async for change in self.client.changes():
            if change.kind == "port" and change.new is not None:
                self.client.port_up(change.id, change.new.revision)

    async def _report(self) -> None:
        configurations = {
            "tunneling_ip": self._tunneling_ip,
            "tunnel_types": ["vxlan"],
            "bridge_mappings": {},
            DATAPLANE: "up",
        }
        start = True
        while True:
            state = AgentState(
                OVS, "neutrino-agent", self._name, "N/A", configurations=configurations, start_flag=start
            )
            self.client.report([state])
            start = False
            await asyncio.sleep(REPORT_SECONDS)


class ConnectedHosts:
    """Hosts in a thread of their own: each reports itself, and its ports as wired."""

    def __init__(self, keys: Mapping[str, str], sockets: Sequence[str]) -> None:
        self._keys = keys
        self._addresses = [Address(path=path) for path in sockets]
        self._hosts: dict[str, Host] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def clients(self) -> dict[str, FeedClient]:
        return {name: host.client for name, host in self._hosts.items()}

    def _make(self, number: int, name: str) -> Host:
        at = number % len(self._addresses)  # the hosts begin with different servers
        first, *others = self._addresses[at:] + self._addresses[:at]
        how: Any = {"others": tuple(others), "first_delay": 0.1, "longest_delay": 2.0}
        return Host(name, f"192.0.2.{number}", FeedClient(ClientOptions(first, name, self._keys[name], ("l2",), **how)))

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._hosts = {name: self._make(number, name) for number, name in enumerate(sorted(self._keys), 1)}
        tasks = [asyncio.create_task(host.run()) for host in self._hosts.values()]
        self._ready.set()
        await self._over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    def wait_synced(self, seconds: float = 60.0) -> None:
        give_up = time.monotonic() + seconds
        while not all(client.is_synced for client in self.clients.values()):
            if time.monotonic() > give_up:
                raise TimeoutError(
                    "hosts are not synced: " + ", ".join(n for n, c in self.clients.items() if not c.is_synced)
                )
            time.sleep(0.1)

    def differences(self, needed: Callable[[str], dict[tuple[str, str], Object]]) -> list[str]:
        """The hosts whose state does not become that of the database, within a bounded time."""
        give_up = time.monotonic() + SETTLE_SECONDS
        while True:
            wrong = []
            for name, client in self.clients.items():
                wanted = needed(name)
                if not (client.is_synced and not client.unacknowledged and known(client) == wanted):
                    wrong.append(f"host {name}: {_why(client) or difference(known(client), wanted)}")
            if not wrong or time.monotonic() > give_up:
                return wrong
            time.sleep(0.5 + random.random() * 0.2)


def _why(client: FeedClient) -> str:
    if not client.is_synced:
        return "is not synced"
    return f"has {client.unacknowledged} reports that no server acknowledged" if client.unacknowledged else ""


@contextlib.contextmanager
def connected(keys: Mapping[str, str], sockets: Sequence[str]) -> Iterator[ConnectedHosts]:
    hosts = ConnectedHosts(keys, sockets)
    hosts.start()
    try:
        yield hosts
    finally:
        hosts.stop()
