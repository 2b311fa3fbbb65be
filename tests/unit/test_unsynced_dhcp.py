"""The DHCP role before the first `synced`: whatever the cache lacks, nothing is deleted; after it, the same is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
import pytest

from neutrino.dataplane.netlink.api import SetVeth
from neutrino.dataplane.ovsdb.api import SetPort
from neutrino.model.dhcp import DhcpNetwork, DhcpPort
from tests.support.dhcp import NETWORK, Network
from tests.support.dhcp_fakes import DhcpHost
from tests.support.unsynced import Taken, eventually

THIS = Network()
V4, V6 = THIS.subnet(1), THIS.subnet(2, "2001:db8::/64", ipv6_address_mode="dhcpv6-stateful", gateway_ip="2001:db8::1")
OFF = msgspec.structs.replace(V4, enable_dhcp=False)
BOTH = (V4, V6)
OWN = THIS.dhcp_port(1, "10.0.0.2", "2001:db8::2", on=BOTH)
VM = THIS.port(5, "10.0.0.5", "2001:db8::5", on=BOTH)
FIRST = THIS.port(6, "10.0.0.6", on=(V4,))
OTHER = Network(
    "5c0fd3b1-1111-4444-8888-000000000002", mark="b"
)  # untouched; that it is served shows that the agent works
OTHER_SUBNET = OTHER.subnet(3, "10.1.0.0/24")
OTHER_OWN = OTHER.dhcp_port(2, "10.1.0.2", on=(OTHER_SUBNET,))


def network(*subnets: object, **more: object) -> DhcpNetwork:
    return DhcpNetwork(id=NETWORK, subnets=subnets, **more)  # type: ignore[arg-type]


MADE = network(*BOTH), (OWN, VM, FIRST)


@dataclass(frozen=True)
class Cause:
    """The next agent's cache, which differs from the actual state; `dead`: dnsmasq has exited meanwhile."""

    name: str
    network: DhcpNetwork | None
    ports: tuple[DhcpPort, ...] = (OWN, VM, FIRST)
    dead: bool = False
    stale: bool = False


CAUSES = (
    Cause("gone from the cache", None, ()),
    Cause("network gone, ports not", None),
    Cause("admin state down", network(*BOTH, admin_state_up=False)),
    Cause("DHCP off on every subnet", network(OFF)),
    Cause("no subnet", network()),
    Cause("no port of this host", network(*BOTH), (VM, FIRST)),
    Cause(
        "the network moved to another host", network(*BOTH), (THIS.dhcp_port(9, "10.0.0.9", on=(V4,), host="h2"), VM)
    ),
    Cause("another DHCP port", network(*BOTH), (THIS.dhcp_port(7, "10.0.0.7", on=(V4,)), VM, FIRST)),
    Cause("port gone", network(*BOTH), (OWN, VM)),
    Cause("subnet gone", network(V4)),
    Cause("subnet gone, dnsmasq dead", network(V4), dead=True),
    Cause("DHCP off on one subnet, dnsmasq dead", network(OFF, V6), dead=True),
    Cause("gateway removed, dnsmasq dead", network(msgspec.structs.replace(V4, gateway_ip=None), V6), dead=True),
    Cause("gateway moved, dnsmasq dead", network(msgspec.structs.replace(V4, gateway_ip="10.0.0.254"), V6), dead=True),
    Cause("port gone, dnsmasq dead", network(*BOTH), (OWN, VM), dead=True),
    Cause("gone from the cache, dnsmasq dead", None, (), dead=True),
    Cause("another DHCP port, dnsmasq dead", network(*BOTH), (THIS.dhcp_port(7, "10.0.0.7", on=(V4,)), VM), dead=True),
    Cause("stale devices", network(*BOTH), stale=True, dead=True),
)


async def serve(host: DhcpHost, net: DhcpNetwork | None, ports: tuple[DhcpPort, ...], *, synced: bool) -> Taken:
    host.restart()
    others = DhcpNetwork(id=OTHER.id, subnets=(OTHER_SUBNET,))
    host.cache("dhcp_network", *((net, others) if net is not None else (others,)))
    host.cache("dhcp_port", *ports, OTHER_OWN)
    taken = Taken(host.role._loop.queue)
    if synced:
        host.feed.is_synced = True
        host.role.synced()
    tasks.append(asyncio.create_task(host.role.run()))
    await taken.settled(OTHER.id)
    return taken


tasks: list[asyncio.Task[None]] = []


async def end() -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()


def lost(before: set[str], host: DhcpHost) -> set[str]:
    """But for the notes on how a dnsmasq was started, which follow the one that runs."""
    return {line for line in before - host.actual() if not line.startswith(f"{NETWORK} interface ")}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_nothing_is_deleted_before_the_first_sync(cause: Cause) -> None:
    host = DhcpHost()

    async def scenario() -> None:
        try:
            await serve(host, *MADE, synced=True)
            await end()
            assert host.is_running(NETWORK)
            if cause.stale:
                host.netlink.apply(f"qdhcp-{NETWORK}", [SetVeth("ns-stale", "tap-stale")])
                mark = {"neutrino": f"dhcp:{NETWORK}", "iface-id": "stale"}
                host.ovsdb.apply([SetPort("br-int", "tap-stale", external_ids=mark)])
            if cause.dead:
                host.processes.end(f"dnsmasq {NETWORK}")
            before, host.processes.signals = host.actual(), []
            await serve(host, cause.network, cause.ports, synced=False)
            assert lost(before, host) == set()
            assert host.reloads() == []
            host.feed.is_synced = True
            host.role.synced()
            await eventually(
                lambda: lost(before, host),
                "what the server does not want stays after the sync",
            )
        finally:
            await end()

    asyncio.run(scenario())


def test_what_nothing_serves_is_served_from_the_cache() -> None:
    host = DhcpHost()

    async def scenario() -> None:
        try:
            await serve(host, *MADE, synced=False)
            assert host.is_running(NETWORK)
            assert VM.mac_address in host.file(NETWORK, "host")
        finally:
            await end()

    asyncio.run(scenario())
