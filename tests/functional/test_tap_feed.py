"""Taps in the feed: both hosts of a tap flow learn where the other port is, and each other's tunnel address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neutrino.model.objects import Object
from neutrino.model.state import Port
from neutrino.model.taps import Tap, TapMirror, TapOrigin, Taps
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_sqlite
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2", "h3")


async def doing(call: Callable[..., Any], *args: Any, **values: Any) -> Any:
    return await asyncio.to_thread(lambda: call(*args, **values))


def taps(end: HostEnd, port: Object) -> Taps | None:
    held = end.client.state.get("port", port["id"])
    return held.taps if isinstance(held, Port) else None


def peers(end: HostEnd) -> set[str]:
    return {*end.client.state.objects["host"]}


def test_both_hosts_follow_a_tap_flow(tmp_path: Path) -> None:
    server = start(tmp_path, prepared_sqlite(tmp_path / "taps.sqlite"), {})
    for number, host in enumerate(HOSTS, 1):
        switch(server, host, tunneling_ip=f"192.0.2.{number}")
    api = Api(server.app)
    admin = api.as_admin()
    networks = [api.network() for _ in range(2)]
    source, sink = (
        admin.port(network, binding__host_id=host, project_id=api.project)
        for network, host in zip(networks, HOSTS, strict=False)
    )

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as (h1, h2, h3):
            assert peers(h1) == set()  # they have no network in common
            service = (await doing(api.make, "tap_service", port_id=sink["id"]))["id"]
            about = {"tap_service_id": service, "source_port": source["id"], "direction": "IN", "vlan_filter": "5,7-9"}
            flow = (await doing(api.make, "tap_flow", **about))["id"]
            await until(lambda: taps(h1, source) is not None, "h1 has the flow")
            sent = taps(h1, source)
            assert sent is not None
            number = sent.flows[0].tunnel_id
            ends = {"id": flow, "tunnel_id": number}
            tap = Tap(**ends, port_id=sink["id"], host="h2", direction="IN", vlans=((5, 5), (7, 9)))
            assert sent == Taps(flows=(tap,))
            wanted = Taps(services=(service,), origins=(TapOrigin(**ends, host="h1"),))
            await until(lambda: taps(h2, sink) == wanted, "h2 has its end")
            await until(lambda: (peers(h1), peers(h2)) == ({"h2"}, {"h1"}), "they have each other's tunnel address")
            await doing(admin.put, f"/ports/{sink['id']}", {"port": {"binding:host_id": "h3"}})
            await until(lambda: taps(h3, sink) == wanted, "the monitor has moved")
            await until(lambda: getattr(taps(h1, source), "flows", ())[0].host == "h3", "h1 knows it")
            await until(lambda: (peers(h1), peers(h2)) == ({"h3"}, set()), "h2 has nothing to do with it any more")
            await doing(api.delete, f"/ports/{source['id']}")
            await until(lambda: taps(h3, sink) == Taps(services=(service,)), "the flow is gone with its source")
            for end in (h1, h2, h3):
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))
    server.close()


def test_a_host_gets_the_mirrors_of_its_ports(tmp_path: Path) -> None:
    server = start(tmp_path, prepared_sqlite(tmp_path / "taps.sqlite"), {})
    switch(server, "h1", tunneling_ip="192.0.2.1")
    api = Api(server.app)
    port = api.as_admin().port(api.network(), binding__host_id="h1", project_id=api.project)

    async def run() -> None:
        async with connected(server, tmp_path, ("h1",)) as (h1,):
            tunnels = {"directions": {"OUT": 2, "IN": 1}, "remote_ip": "198.51.100.9", "mirror_type": "erspanv1"}
            mirror = (await doing(api.make, "tap_mirror", port_id=port["id"], **tunnels))["id"]
            same = {"id": mirror, "remote_ip": "198.51.100.9", "mirror_type": "erspanv1"}
            both = TapMirror(**same, direction="IN", tunnel_id=1), TapMirror(**same, direction="OUT", tunnel_id=2)
            await until(lambda: taps(h1, port) == Taps(mirrors=both), "h1 has the mirror")
            await doing(api.delete, f"/taas/tap_mirrors/{mirror}")
            await until(lambda: taps(h1, port) is None, "h1 has lost it")
            await h1.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))
    server.close()
