"""Many writers, several feeds, hosts that lose their connections: in the end every host equals the database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from neutrino.feed.address import Address
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving
from tests.support.feed_changes import HOSTS, RandomChanges

WRITERS, CHANGES, FEEDS = 8, 40, 3


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    names = ("network", "subnet", "port", "security_group", "security_group_rule")
    unlimited = {f"quota_{name}": "-1" for name in names}
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {"quotas": unlimited})
    for i, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{i}")
    yield made
    made.close()


def test_every_host_equals_the_database(server: Server, tmp_path: Path) -> None:
    credentials = Credentials(server.db)
    keys = {host: credentials.add(host) for host in HOSTS}
    addresses = [Address(path=str(tmp_path / f"{i}.sock")) for i in range(FEEDS)]
    writers = [RandomChanges(server, seed) for seed in range(WRITERS)]
    rng = random.Random(1)

    def write(one: RandomChanges) -> None:
        for _ in range(CHANGES):
            one.step()

    async def roam(host: str, stack: AsyncExitStack, done: asyncio.Event) -> HostEnd:
        """Reconnect to another feed process with the state so far."""
        end = HostEnd(rng.choice(addresses), host, keys[host])
        while not done.is_set():
            async with end:
                await end.client.wait_synced()
                await asyncio.sleep(rng.random() * 0.3)
            state, end = end.client.state, HostEnd(rng.choice(addresses), host, keys[host])
            end.client.state = state
        return await stack.enter_async_context(end)

    async def test() -> None:
        async with asyncio.timeout(150), AsyncExitStack() as stack:
            for address in addresses:
                await stack.enter_async_context(serving(server, address))
            done = asyncio.Event()
            roaming = [asyncio.create_task(roam(host, stack, done)) for host in HOSTS]
            await asyncio.gather(*(asyncio.to_thread(write, one) for one in writers))
            done.set()
            for end in await asyncio.gather(*roaming):
                await end.equals_the_database(server)

    asyncio.run(test())
