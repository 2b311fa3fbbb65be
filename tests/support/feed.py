"""Both ends of the feed for tests: servers in the test's own loop, hosts that record changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from neutrino.features.firewall.status import FirewallStatus
from neutrino.features.metering.traffic import TrafficReports
from neutrino.features.router.floating_ips.floating_ips import set_floating_ip_status
from neutrino.features.router.port_status import DistributedPortStatus
from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.features.vpn.status import VpnStatus
from neutrino.feed.address import Address, parse
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.state import StateChange
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.state import Object
from neutrino.server import features
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.declarations import Sources
from neutrino.server.feed.reports.reports import Reports, one_word
from neutrino.server.feed.server import FeedOptions, FeedServer
from neutrino.server.hosts.queries import OpenQueries
from neutrino.server.main import Server
from neutrino.server.services import Publish
from tests.support.feed_scope import scope_in_database

Objects = dict[tuple[str, str], Object]


async def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for what another task or thread brings about."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
    assert condition(), what


@contextlib.asynccontextmanager
async def serving(
    server: Server,
    address: Address,
    sources: Sources | None = None,
    *,
    publish: Publish = lambda event_type, payload, publisher: None,
    **settings: Any,
) -> AsyncIterator[FeedServer]:
    """The feed of a server, in this loop. `publish` gets notifications of metered traffic."""
    ports = DistributedPortStatus(server.db, server.core.provisioning)

    def settle() -> None:
        if "router" in server.service_plugins:
            server.service_plugins["router"].dvr.settle()
        ports.settle()

    delegation = PrefixDelegation(server.db, server.core.operations, server.core.subnets, server.core.ports)
    statuses = {
        "floatingip": one_word(partial(set_floating_ip_status, server.db)),
        "subnet": one_word(delegation.set_prefix),
        "firewall_group": FirewallStatus(server.db).take,
        **dict.fromkeys(("vpnservice", "ipsec_site_connection"), VpnStatus(server.db).take),
    }
    answered = OpenQueries(server.db).take_answer
    traffic = TrafficReports(server.db, publish).take
    reports = Reports(server.registry, server.scheduler.reported, ports, statuses, settle, answered, traffic)
    how = replace(FeedOptions("server-1", [address], keep_changes=3600, report_delay=0.01), **settings)
    made = FeedServer(server.db, Credentials(server.db), reports, how, sources or features.sources())
    stop = asyncio.Event()
    task = asyncio.create_task(made.run(stop))
    try:
        await until(lambda: task.done() or bool(made.listening), "the feed to listen")
        if task.done():
            task.result()
        yield made
    finally:
        stop.set()
        await task


class HostEnd:
    """A host that records the changes it received."""

    def __init__(
        self,
        address: Address | str,
        host: str,
        credential: str,
        cache: Path | None = None,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        where = parse(address) if isinstance(address, str) else address
        settings = ClientOptions(where, host, credential, first_delay=0.01, longest_delay=0.1, save_interval=0.01)
        self.host = host
        self.client = FeedClient(settings, cache=cache, kinds=kinds)
        self.changes: list[StateChange] = []
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> HostEnd:
        self._tasks = [asyncio.create_task(self.client.run()), asyncio.create_task(self._record())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _record(self) -> None:
        async for change in self.client.changes():
            self.changes.append(change)

    def objects(self) -> Objects:
        return {(kind, key): o for kind, several in self.client.state.objects.items() for key, o in several.items()}

    async def equals_the_database(self, server: Server, seconds: float = 20.0) -> None:
        def needed() -> Objects:
            with server.db.read() as connection:
                return scope_in_database(connection, self.host)

        wanted = await asyncio.to_thread(needed)
        try:
            await until(lambda: self.client.is_synced and self.objects() == wanted, f"{self.host} is right", seconds)
        except TimeoutError:
            assert self.objects() == wanted
            raise


@contextlib.asynccontextmanager
async def connected(server: Server, directory: Path, hosts: Sequence[str]) -> AsyncIterator[list[HostEnd]]:
    """The hosts, connected to the feed of a server and equal to its database."""
    keys = {host: Credentials(server.db).add(host) for host in hosts}
    address = Address(path=str(directory / "feed.sock"))
    async with serving(server, address), contextlib.AsyncExitStack() as stack:
        ends = [await stack.enter_async_context(HostEnd(address, host, keys[host])) for host in hosts]
        for end in ends:
            await end.equals_the_database(server)
        yield ends
