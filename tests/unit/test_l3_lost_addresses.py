"""Connections that leave under an address which their router has lost: the kernel would go on translating them, under an
address that may be another project's by then."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.conntrack.api import TCP, Connection, ConntrackError
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.model.routing import PortForwarding, Router
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed, Flushes
from tests.support.routing import GATEWAY, address, floating, interface, membership, router

MOVED = msgspec.structs.replace(GATEWAY, addresses=(address("203.0.113.6", "203.0.113.0/24", "203.0.113.1"),))
OLD, NEW, FLOATING = "203.0.113.5", "203.0.113.6", "203.0.113.20"


def connection(source: str, shown_as: str) -> Connection:
    family = 6 if ":" in source else 4
    remote = "2001:db8:9::9" if family == 6 else "198.51.100.9"
    return Connection(0, family, TCP, source, remote, 40000, 443, reply_destination=shown_as)


class Host:
    def __init__(self, state_path: Path) -> None:
        self.netlink, self.ovsdb = FakeNetlink(), FakeOvsdb()
        self.ovsdb.apply([SetBridge("br-int")])
        self.nft = FakeNft(self.netlink)
        self.trackers: defaultdict[str, Flushes] = defaultdict(Flushes)
        self.state_path = state_path
        self.restart()

    def restart(self) -> None:
        """An agent that remembers nothing."""
        feed = Feed()
        self.routers = feed.state.objects["router"]
        options = L3Options(host="h1", state_path=str(self.state_path), veth=True)
        services = ServiceNamespaces(self.netlink, lambda: self.ovsdb, self.nft)
        self.dataplane = Routers(services, self.trackers.__getitem__, options, DesiredRouters(feed))

    def apply(self, new: Router, *, complete: bool = True) -> None:
        self.routers[new.id] = new
        self.dataplane.apply(new, complete=complete)


KINDS = {
    "legacy": (router(), "qrouter-r1"),
    "HA": (router(ha=membership()), "qrouter-r1"),
    "distributed": (
        router(distributed=True, centralized=True, snat_interfaces=(interface(7),)),
        "snat-r1",
    ),
    "distributed HA": (
        router(distributed=True, centralized=True, snat_interfaces=(interface(7),), ha=membership()),
        "snat-r1",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Router, str]:
    return KINDS[request.param]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_connections_under_a_former_gateway_address_are_flushed(
    host: Host, kind: tuple[Router, str], restarted: bool
) -> None:
    before, namespace = kind
    tracker = host.trackers[namespace]
    old, untranslated = connection("10.0.1.9", OLD), connection("10.0.1.7", "10.0.1.7")
    unknown = connection("10.0.1.8", "")
    host.apply(before)
    tracker.connections |= {old, untranslated, unknown}
    host.apply(before)
    assert tracker.connections == {old, untranslated, unknown}
    if restarted:
        host.restart()
    host.apply(msgspec.structs.replace(before, gateway=MOVED))
    assert tracker.connections == {untranslated, unknown}
    new = connection("10.0.1.9", NEW)
    tracker.connections.add(new)
    host.apply(msgspec.structs.replace(before, gateway=MOVED))
    assert new in tracker.connections


def test_the_address_changed_and_the_agent_was_killed_before_the_flush(host: Host, kind: tuple[Router, str]) -> None:
    """Tables and addresses are as desired then: only the connections show it."""
    before, namespace = kind
    moved = msgspec.structs.replace(before, gateway=MOVED)
    host.apply(moved)
    kept = connection("10.0.1.9", NEW)
    host.trackers[namespace].connections |= {connection("10.0.1.8", OLD), kept}
    host.restart()
    host.apply(moved)
    assert host.trackers[namespace].connections == {kept}


def test_a_gateway_that_is_removed_or_down(host: Host) -> None:
    tracker = host.trackers["qrouter-r1"]
    for after in (router(gateway=None), router(gateway=msgspec.structs.replace(GATEWAY, admin_state_up=False))):
        host.apply(router())
        tracker.connections.add(connection("10.0.1.9", OLD))
        host.apply(after)
        assert tracker.connections == set()


def test_a_router_that_becomes_distributed(host: Host) -> None:
    """Its SNAT is in another namespace from then on, or on another host."""
    tracker = host.trackers["qrouter-r1"]
    host.apply(router())
    tracker.connections.add(connection("10.0.1.9", OLD))
    host.apply(router(distributed=True))
    assert tracker.connections == set()


def test_addresses_of_floating_ips_forwardings_and_further_gateways_are_kept(host: Host) -> None:
    forwarding = PortForwarding(
        id="pf", external_ip_address="203.0.113.21", protocol="tcp", external_port_first=80, external_port_last=80,
        internal_ip_address="10.0.1.9", internal_port_first=80, internal_port_last=80,
    )  # fmt: skip
    further = msgspec.structs.replace(
        GATEWAY,
        id="dddddddd-aaaa-bbbb-cccc-dddddddddddd",
        addresses=(address("192.0.2.5", "192.0.2.0/24", "192.0.2.1"),),
    )
    whole = router(floating_ips=(floating(20, "10.0.1.9"),), port_forwardings=(forwarding,), extra_gateways=(further,))
    shown = {connection(f"10.0.1.{n}", each) for n, each in enumerate((FLOATING, "203.0.113.21", "192.0.2.5", OLD), 9)}
    tracker = host.trackers["qrouter-r1"]
    tracker.connections |= shown
    host.apply(whole)
    assert tracker.connections == shown
    host.apply(msgspec.structs.replace(whole, extra_gateways=(), floating_ips=()))
    assert {each.reply_destination for each in tracker.connections} == {"203.0.113.21", OLD}


def test_ipv6_in_any_spelling(host: Host) -> None:
    own = msgspec.structs.replace(
        GATEWAY, addresses=(*GATEWAY.addresses, address("2001:DB8::0:5", "2001:db8::/64", "2001:db8::1"))
    )
    tracker = host.trackers["qrouter-r1"]
    kept = connection("fd00::9", "2001:db8::5")
    tracker.connections |= {kept, connection("fd00::8", "2001:db8::6")}
    host.apply(router(gateway=own))
    assert tracker.connections == {kept}
    host.apply(router())
    assert tracker.connections == set()


def test_nothing_is_flushed_by_the_cache(host: Host) -> None:
    """Before the first sync the cached address may be older than that of the host."""
    host.apply(router(gateway=MOVED))
    host.restart()
    new = connection("10.0.1.9", NEW)
    host.trackers["qrouter-r1"].connections.add(new)
    host.apply(router(), complete=False)
    assert host.trackers["qrouter-r1"].connections == {new}


def test_connections_are_read_only_if_an_address_was_lost(host: Host) -> None:
    tracker = host.trackers["qrouter-r1"]
    for _ in range(3):
        host.apply(router())
    host.apply(router(floating_ips=(floating(20, "10.0.1.9"),)))
    assert tracker.reads == 1, "at the start alone"


def test_a_flush_that_failed_is_repeated(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = host.trackers["qrouter-r1"]
    host.apply(router())
    tracker.connections.add(connection("10.0.1.9", OLD))

    def fail(kept: object) -> int:
        raise ConntrackError("no netlink")

    with monkeypatch.context() as patched:
        patched.setattr(tracker, "flush_translated", fail)
        host.apply(router(gateway=MOVED))
    assert tracker.connections
    host.apply(router(gateway=MOVED))
    assert tracker.connections == set()
