"""Hosts that receive the feed and apply nothing.

They report as agents would that have applied everything: firewall groups as ACTIVE, DHCP as ready for every port, and the
ports that agents plug themselves, those of routers and DHCP servers, as wired. No instance exists, so its port stays DOWN.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.model.dhcp import DhcpPort
from neutrino.model.firewall import FirewallGroup
from neutrino.model.state import Port
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from tests.support.neutrino import Neutrino


@contextlib.contextmanager
def reporting(server: Neutrino, hosts: Sequence[str]) -> Iterator[None]:
    """These hosts, connected to the feed of a server from a thread of their own."""
    database = Database(server.database)
    try:
        keys = {host: Credentials(database).add(host) for host in hosts}
    finally:
        database.close()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        address = Address(path=str(server.directory / "feed.sock"))
        clients = [FeedClient(ClientOptions(address, host, key)) for host, key in keys.items()]
        tasks = [asyncio.create_task(each) for client in clients for each in (client.run(), _report(client))]
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="reporting hosts")
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _report(client: FeedClient) -> None:
    async for change in client.changes():
        match client.state.get(change.kind, change.id):
            case FirewallGroup() as group:
                client.status("firewall_group", group.id, "ACTIVE", group.revision)
            case DhcpPort() as port:
                client.port_ready(port.id, port.revision)
            case Port() as port if port.device_owner.startswith("network:"):
                if port.admin_state_up:
                    client.port_up(port.id, port.revision, inactive=not port.active)
                else:
                    client.port_down(port.id)
            case _:
                pass
