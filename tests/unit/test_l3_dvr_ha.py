"""Routers that are distributed and HA: the part that fails over, and what every host has."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions.distributed import render_neighbours
from neutrino.agent.l3.role import L3Role
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.l3.services.api import RouterService, in_order
from neutrino.agent.l3.services.bfd.supervision import BfdSessions
from neutrino.agent.l3.services.dibbler.service import SUBNET, Delegations
from neutrino.agent.l3.services.keepalived.render import primary_address, render_keepalived
from neutrino.agent.l3.services.keepalived.service import Keepalived
from neutrino.agent.l3.services.radvd.service import Radvd
from neutrino.agent.runtime.context import PortHolds
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.netlink.api import SetItem
from neutrino.dataplane.netlink.values import address as on_device
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.feed.state import StateChange
from neutrino.model.agents import L3, AgentState
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import AddressPair
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.fakes.process import FakeProcesses
from tests.support import routing
from tests.support.l3_host import Feed
from tests.support.routing import QG, address, interface, membership, rendered, router
from tests.unit.test_l3_dvr import OPTIONS, QR1, Quiet, distributed, floating, port

HA, SG1 = "ha-ffffffff-aa", "sg-50000001-aa"


def both(*floating_ips: object, **values: object) -> Router:
    return distributed("r1", *floating_ips, **{"centralized": True, "ha": membership(), **values})  # type: ignore[arg-type]


# --- rendering --------------------------------------------------------------------------------------------------------


def test_only_the_snat_part_is_left_to_keepalived() -> None:
    whole = both(floating(9, "10.0.1.9"), floating(10, "10.0.1.10", ""))
    central = rendered(whole, OPTIONS, kind="snat")
    assert {(each.device, each.address) for each in central.namespace.addresses} == {(HA, "169.254.192.7/18")}
    assert central.namespace.routes == frozenset()
    assert {SG1, QG} <= central.namespace.others_addresses
    assert central.namespace.sysctls[f"net/ipv6/conf/{SG1}/addr_gen_mode"] == "1"
    assert "tapffffffff-aa" in {plug.name for plug in central.namespace.plugs}
    local = rendered(whole, OPTIONS).namespace
    assert (QR1, "10.0.1.1/24") in {(each.device, each.address) for each in local.addresses}
    assert HA not in {each.name for each in local.devices}
    failover = routing.failover(whole, OPTIONS)
    assert failover is not None
    assert failover.namespace == "snat-r1"
    text = render_keepalived(failover, OPTIONS, "/fifo")
    for line in (
        "169.254.0.7/24 dev ha-ffffffff-aa",
        f"10.0.1.7/24 dev {SG1}",
        f"203.0.113.5/24 dev {QG}",
        f"203.0.113.10/32 dev {QG}",
        f"fe80::f816:3eff:fe00:501/64 dev {SG1} scope link",
        f"0.0.0.0/0 via 203.0.113.1 dev {QG}",
    ):
        assert line in text, text
    assert "qr-" not in text
    assert "203.0.113.9/32" not in text  # which has a host of its own


def test_without_a_gateway_or_snat_part_nothing_fails_over() -> None:
    assert routing.failover(both(centralized=False), OPTIONS) is None
    assert routing.failover(both(gateway=None), OPTIONS) is None
    assert routing.failover(distributed(centralized=True), OPTIONS) is None


def test_routes_to_further_external_subnets_fail_over() -> None:
    outside = msgspec.structs.replace(both().gateway, other_subnets=("198.51.100.0/24",))
    for kind in (both(gateway=outside), router(gateway=outside, ha=membership())):
        failover = routing.failover(kind, OPTIONS)
        assert failover is not None
        assert f"198.51.100.0/24 dev {QG} scope link" in render_keepalived(failover, OPTIONS, "/fifo")


# --- neighbours -------------------------------------------------------------------------------------------------------


def known(key: str, ip: str, mac: str, *pairs: str, host: str = "h2", pair_mac: str = "") -> DhcpPort:
    several = tuple(AddressPair(pair_mac or mac, pair) for pair in pairs)
    return msgspec.structs.replace(port(key, ip, mac=mac), host=host, allowed_address_pairs=several)


A, B, C = "fa:16:3e:00:0a:01", "fa:16:3e:00:0a:02", "fa:16:3e:00:0a:03"


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ([known("a", "10.0.1.9", A, "10.0.1.50")], {"10.0.1.9": A, "10.0.1.50": A}),
        ([known("a", "10.0.1.9", A, "10.0.1.50/32")], {"10.0.1.9": A, "10.0.1.50": A}),
        ([known("a", "10.0.1.9", A, "10.0.1.48/28", "10.9.9.9")], {"10.0.1.9": A}),
        ([known("a", "10.0.1.9", A, "10.0.1.8"), known("b", "10.0.1.8", B)], {"10.0.1.9": A, "10.0.1.8": B}),
        # A port that is not bound reserves the address for those that have it as a pair.
        ([known("a", "10.0.1.9", A, "10.0.1.8"), known("b", "10.0.1.8", B, host="")], {"10.0.1.9": A, "10.0.1.8": A}),
        ([known("b", "10.0.1.8", B, "10.0.1.50", host="")], {"10.0.1.8": B}),
        # In turns, each with its own MAC: left to ARP.
        (
            [known("a", "10.0.1.9", A, "10.0.1.50"), known("b", "10.0.1.8", B, "10.0.1.50")],
            {"10.0.1.9": A, "10.0.1.8": B},
        ),
        # In turns, with one MAC.
        (
            [
                known("a", "10.0.1.9", A, "10.0.1.50", pair_mac=C),
                known("b", "10.0.1.8", B, "10.0.1.50", pair_mac=C),
            ],
            {"10.0.1.9": A, "10.0.1.8": B, "10.0.1.50": C},
        ),
    ],
)
def test_addresses_of_pairs_are_known(ports: list[DhcpPort], found: dict[str, str]) -> None:
    for order in (ports, ports[::-1]):
        assert {
            each.address: each.mac for each in render_neighbours(distributed(), {each.id: each for each in order})
        } == found


# --- on a host --------------------------------------------------------------------------------------------------------


class Host:
    """With `before`, the same machine with a new agent."""

    def __init__(self, state_path: Path, before: Host | None = None) -> None:
        self.feed = Feed()
        self.netlink = before.netlink if before is not None else FakeNetlink()
        self.ovsdb = before.ovsdb if before is not None else FakeOvsdb()
        self.nft = before.nft if before is not None else FakeNft(self.netlink)
        self.processes = before.processes if before is not None else FakeProcesses()
        self.ovsdb.apply([SetBridge("br-int")])
        options = L3Options(host="h1", state_path=str(state_path), veth=True)
        services = ServiceNamespaces(self.netlink, lambda: self.ovsdb, self.nft)
        desired = DesiredRouters(self.feed)
        self.dataplane = Routers(services, lambda name: Quiet(), options, desired)
        watch = Supervisor(self.processes)
        self.keepalived = Keepalived(watch, options)
        description = AgentState(L3, "neutron-l3-agent", "h1", "l3_agent")
        ordered = in_order(
            meters=RouterService(),
            keepalived=self.keepalived,
            conntrackd=RouterService(),
            radvd=Radvd(watch, options),
            bfd=BfdSessions(watch, options),
            charon=RouterService(),
            firewall_logs=RouterService(),
            dibbler=Delegations(watch, options, functools.partial(self.feed.status, SUBNET), PortHolds()),
        )
        self.role = L3Role(self.dataplane, self.keepalived, ordered, description)

    def send(self, new: Router | None) -> None:
        known = self.feed.state.objects["router"]
        old = known.pop("r1", None)
        if new is not None:
            known["r1"] = new
        self.role.changed(StateChange("router", "r1", old, new))

    def become_active(self) -> None:
        """Sets the addresses that keepalived sets on the active host."""
        shown = on_device(HA, primary_address(membership()))
        self.netlink.apply("snat-r1", [SetItem(shown), SetItem(on_device(SG1, "10.0.1.7/24"))])

    def addresses(self, namespace: str) -> set[str]:
        """Except link-local addresses of the kernel and those of lo."""
        there = self.netlink.read(namespace).addresses
        return {each.address for each in there if each.device != "lo" and not each.by_kernel}

    def namespace_of(self, daemon: str) -> str:
        """The namespace that a daemon runs in."""
        started = (each.namespace for each in reversed(self.processes.started) if each.name == daemon)
        return next(started, "") if daemon in self.processes.running() else ""

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(30):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(what) from None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the agent."""
        task = asyncio.create_task(self.role.run())
        try:
            self.role.synced()
            async with asyncio.timeout(30):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with self.running():
                await test()

        asyncio.run(bounded())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_addresses_of_keepalived_stay_and_show_the_active_host(host: Host) -> None:
    whole = both()
    assert not host.dataplane.apply(whole).active
    host.become_active()
    again = host.dataplane.apply(whole)
    assert (again.changes, again.active, host.dataplane.is_active(whole)) == (0, True, True)
    assert host.dataplane.find(whole) == []
    host.netlink.announced.clear()
    host.dataplane.announce(whole)
    assert {("snat-r1", SG1, "10.0.1.7"), ("qrouter-r1", QR1, "10.0.1.1")} <= set(host.netlink.announced)
    # A host that comes back removes the addresses that failed over, and only those.
    host.dataplane.deactivate("r1")
    assert host.addresses("snat-r1") == set()
    assert "10.0.1.1/24" in host.addresses("qrouter-r1")
    host.netlink.announced.clear()
    host.dataplane.announce(whole)
    assert {name for name, *_ in host.netlink.announced} == {"qrouter-r1"}


def test_keepalived_runs_in_the_snat_namespace_and_radvd_on_every_host(host: Host) -> None:
    six = interface(3, address("fd00:3::1", "fd00:3::/64", "fd00:3::1", ra_mode="slaac"))

    async def test() -> None:
        host.send(both(interfaces=(interface(1), six)))
        await host.until(lambda: "keepalived r1" in host.processes.running(), "it does not run")
        await host.until(lambda: "radvd r1" in host.processes.running(), "a standby host sends no RAs")
        assert host.namespace_of("keepalived r1") == "snat-r1"
        assert host.namespace_of("radvd r1") == "qrouter-r1"
        await host.until(lambda: ("router", "r1", "standby") in host.feed.statuses, "its state is not reported")
        host.send(both(interfaces=(interface(1), six), gateway=None, ha=None))
        await host.until(lambda: "keepalived r1" not in host.processes.running(), "it still runs")
        await host.until(lambda: "snat-r1" not in host.netlink.namespaces(), "snat-r1 is still there")
        host.send(None)
        await host.until(lambda: not host.netlink.namespaces() and not host.processes.running(), "something stays")

    host.run(test)


def test_a_standby_host_reports_its_own_floating_ips(host: Host) -> None:
    async def test() -> None:
        host.send(both(floating(9, "10.0.1.9"), floating(10, "10.0.1.10", "")))
        await host.until(lambda: ("floatingip", "fip-9", "ACTIVE") in host.feed.statuses, "not reported")
        assert ("floatingip", "fip-10", "ACTIVE") not in host.feed.statuses
        host.become_active()
        fifo = host.keepalived.fifo("r1")
        await host.until(fifo.exists, "there is no fifo")
        with fifo.open("w") as writer:
            writer.write('INSTANCE "VR_7" MASTER 150\n')
        await host.until(lambda: ("router", "r1", "active") in host.feed.statuses, "its state is not reported")
        await host.until(lambda: ("floatingip", "fip-10", "ACTIVE") in host.feed.statuses, "not reported when active")

    host.run(test)


@pytest.mark.parametrize("centralized_first", [False, True])
def test_a_router_that_changed_its_kind_while_the_agent_was_down(tmp_path: Path, centralized_first: bool) -> None:
    kinds = [both(), router(ha=membership())]
    first, second = reversed(kinds) if centralized_first else kinds
    namespaces = ("qrouter-r1", "snat-r1") if centralized_first else ("snat-r1", "qrouter-r1")

    async def test() -> Host:
        host = None
        for wanted, namespace in zip((first, second), namespaces, strict=True):
            host = Host(tmp_path, host)
            host.feed.state.objects["router"]["r1"] = wanted  # before the start, as from its cache
            async with host.running():
                await host.until(lambda: host.namespace_of("keepalived r1") == namespace, "it is not applied")  # noqa: B023
                await host.role.finish()
        assert host is not None
        return host

    host = asyncio.run(test())
    assert set(host.netlink.namespaces()) == {"qrouter-r1", *(["snat-r1"] if centralized_first else [])}
    assert host.dataplane.find(second) == []
