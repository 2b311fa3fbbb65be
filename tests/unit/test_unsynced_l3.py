"""The L3 role before the first `synced`: nothing is deleted, whatever the cache lacks; afterwards it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from neutrino.dataplane.netlink.api import NetlinkError, SetVeth
from neutrino.dataplane.nft.api import NftError
from neutrino.feed.state import StateChange
from neutrino.model.routing import Delegation, FloatingIp, Router, RouterInterface, RouterRoute
from tests.support.l3_host import Host
from tests.support.routing import GATEWAY, address, floating, interface, membership, router
from tests.support.unsynced import Taken, eventually, files_below

SUBNET = "00000000-0000-4000-8000-000000000001"
OTHER = router(interface(9), id="r2", gateway=None)  # untouched; that the agent has worked on it shows that it works
ANNOUNCED = interface(2, address("2001:db8:2::1", "2001:db8:2::/64", "2001:db8:2::1", ra_mode="slaac"))
SILENT = interface(2, address("2001:db8:2::1", "2001:db8:2::/64", "2001:db8:2::1"))
AGENT_GATEWAY = RouterInterface(
    id="dddddddd-aaaa-bbbb-cccc-dddddddddddd",
    network_id="outside",
    mac_address="fa:16:3e:00:06:01",
    addresses=(address("203.0.113.77", "203.0.113.0/24", "203.0.113.1"),),
)
SNAT = msgspec.structs.replace(
    interface(1, address("10.0.1.7", "10.0.1.0/24")), id="50000001-aaaa-bbbb-cccc-dddddddddddd"
)
HERE = FloatingIp(id="fip-9", floating_ip_address="203.0.113.9", fixed_ip_address="10.0.1.9", host="h1")


def distributed(*floating_ips: FloatingIp, centralized: bool = True) -> Router:
    return router(
        interface(1),
        distributed=True,
        centralized=centralized,
        snat_interfaces=(SNAT,),
        floating_ips=floating_ips,
        agent_gateway=AGENT_GATEWAY if floating_ips else None,
    )


def asking(gateway: RouterInterface | None = GATEWAY) -> Router:
    return router(gateway=gateway, delegations=(Delegation(SUBNET),))


ELSEWHERE = msgspec.structs.replace(GATEWAY, id="e0000000-aaaa-bbbb-cccc-dddddddddddd", network_id="outside-2")


@dataclass(frozen=True)
class Cause:
    """`made` was applied by a synced agent; `cached` is in the cache of the next one, and on the server."""

    name: str
    made: Router
    cached: Router | None
    refused: str = ""
    before: Callable[[Host], None] = field(default=lambda host: None)


def add_stale_device(host: Host) -> None:
    host.netlink.apply("qrouter-r1", [SetVeth("qr-stale", "tap-stale")])


CAUSES = (
    Cause("gone from the cache", router(), None),
    Cause("admin state down", router(), router(admin_state_up=False)),
    Cause("refused by this host", router(), router(), refused="it has no gateway"),
    Cause("changed to distributed", router(interface(1)), distributed()),
    Cause("changed to centralized", distributed(HERE), router(interface(1))),
    Cause("gateway removed", router(), router(gateway=None)),
    Cause("gateway moved", router(), router(gateway=ELSEWHERE)),
    Cause("interface removed", router(), router(interface(1))),
    Cause("route removed", router(routes=(RouterRoute("10.9.0.0/24", "10.0.1.9"),)), router()),
    Cause(
        "route replaced",
        router(routes=(RouterRoute("10.9.0.0/24", "10.0.1.9"),)),
        router(routes=(RouterRoute("10.9.0.0/24", "10.0.1.8"),)),
    ),
    Cause("floating IP removed", router(floating_ips=(floating(9, "10.0.1.9"),)), router()),
    Cause("SNAT turned off", router(), router(enable_snat=False)),
    Cause("advertisements off", router(interface(1), ANNOUNCED), router(interface(1), SILENT)),
    Cause(
        "advertised prefix removed",
        router(ANNOUNCED, interface(3, address("2001:db8:3::1", "2001:db8:3::/64", ra_mode="slaac"))),
        router(ANNOUNCED),
    ),
    Cause("no HA router any more", router(ha=membership()), router()),
    Cause("interface of an HA router removed", router(ha=membership()), router(interface(1), ha=membership())),
    Cause("an HA router is gone", router(ha=membership()), None),
    Cause("prefix delegation removed", asking(), router()),
    Cause("prefix asked for elsewhere", asking(), asking(ELSEWHERE)),
    Cause("prefix delegation without a gateway", asking(), asking(None)),
    Cause("prefix delegation, router gone", asking(), None),
    Cause("last distributed floating IP removed", distributed(HERE), distributed()),
    Cause("central part moved to another host", distributed(HERE), distributed(HERE, centralized=False)),
    Cause("a distributed router is gone", distributed(HERE), None),
    Cause("stale device", router(), router(), before=add_stale_device),
)


def in_namespace(host: Host, name: str) -> set[str]:
    state = host.netlink.read(name)
    found = {f"{name} device {each}" for each in state.devices}
    found |= {f"{name} address {each.device} {each.address}" for each in state.addresses}
    found |= {f"{name} {each}" for each in (*state.routes, *state.rules, *state.neighbours)}
    for path in ("ip neutrino", "ip6 neutrino", "inet neutrino"):
        table = host.nft.table(name, path)
        if table is not None:
            found |= {f"{name} {rule}" for chain in table.chains for rule in chain.rules}
            found |= {f"{name} {each.name} {element}" for each in table.sets for element in each.elements}
    return found


def there(host: Host) -> set[str]:
    """All state on the host, a line for each object."""
    found = {f"process {each}" for each in host.processes.running().values()}
    for name in host.netlink.namespaces():
        with contextlib.suppress(NetlinkError, NftError):  # the agent may remove it while it is read
            found |= in_namespace(host, name)
    found |= {f"plugged {name}" for bridge in host.ovsdb.read().bridges.values() for name in bridge.ports}
    files = files_below(host.state_path).items()
    return found | {f"file {path.relative_to(host.state_path)} {text}" for path, text in files if path.suffix != ".log"}


async def served(host: Host, *routers: Router | None, synced: bool) -> Taken:
    """Runs an agent with these routers, and `r2`, in its cache until each was reconciled."""
    host.restart()
    host.feed.is_synced = synced
    known = {each.id: each for each in (*routers, OTHER) if each is not None}
    host.feed.state.objects["router"] = dict(known)  # type: ignore[assignment]
    taken = Taken(host.role._loop.queue)
    if synced:
        host.role.synced()
    running.append(asyncio.create_task(host.role.run()))
    await taken.settled(*known)
    return taken


running: list[asyncio.Task[None]] = []


async def end() -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    running.clear()


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_nothing_is_deleted_before_the_first_sync(cause: Cause, tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def scenario() -> None:
        try:
            await served(host, cause.made, synced=True)
            await end()
            cause.before(host)
            before, host.processes.signals = there(host), []
            if cause.refused:
                host.refusals["r1"] = cause.refused
            taken = await served(host, cause.cached, synced=False)
            assert before - there(host) == set()
            assert host.processes.signals == [], "a daemon was signalled to load an older configuration, or to exit"
            assert len(taken) == len(set(taken)), "it works again and again on what it may not change"
            host.feed.is_synced = True
            host.role.synced()
            await eventually(lambda: before - there(host), "what the server does not want stays after the sync")
        finally:
            await end()

    asyncio.run(scenario())


def test_a_server_that_is_lost_after_the_sync_changes_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def scenario() -> None:
        try:
            await served(host, distributed(HERE), synced=True)
            before = there(host)
            host.feed.state.disconnected()
            host.feed.is_synced = False
            host.role.changed(StateChange("router", "r1", None, host.feed.state.get("router", "r1")))
            await host.role._loop.queue.empty()
            assert there(host) == before
        finally:
            await end()

    asyncio.run(scenario())


def test_what_is_missing_is_added_before_the_first_sync(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def scenario() -> None:
        try:
            await served(host, router(interface(1), ANNOUNCED, ha=membership()), synced=False)
            assert "qrouter-r1" in host.netlink.namespaces()
            assert "keepalived r1" in host.processes.running()
            host.role.synced()
            await host.role._loop.queue.empty()
        finally:
            await end()

    asyncio.run(scenario())
