"""Distributed routers: what each host gets, their namespaces, and that nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extensions.distributed import FLOATING_PRIORITY, FLOATING_TABLE, DistributedRouting, snat_table
from neutrino.agent.l3.fip import LINKS_FILE, LinkLocals, render_fip
from neutrino.agent.l3.router import DesiredRouters
from neutrino.agent.l3.routers import Routers
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.dataplane.netlink.values import neighbour, route, rule
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.features.router.feed import render_for_hosts
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import FloatingIp, Router, RouterInterface, RouterRoute
from neutrino.model.state import FixedIp
from tests.fakes.netlink import FakeNetlink
from tests.fakes.nft import FakeNft
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l3_host import Feed
from tests.support.routing import GATEWAY, address, find_rendered, interface, rendered, router

QR1, QR2 = "qr-00000001-aa", "qr-00000002-aa"
FG = "fg-dddddddd-aa"
OPTIONS = L3Options(host="h1", veth=True)


def snat(number: int) -> RouterInterface:
    return msgspec.structs.replace(
        interface(number, address(f"10.0.{number}.7", f"10.0.{number}.0/24")),
        id=f"5{number:07x}-aaaa-bbbb-cccc-dddddddddddd",
        mac_address=f"fa:16:3e:00:05:{number:02x}",
    )


AGENT_GATEWAY = RouterInterface(
    id="dddddddd-aaaa-bbbb-cccc-dddddddddddd",
    network_id="outside",
    mac_address="fa:16:3e:00:06:01",
    addresses=(address("203.0.113.77", "203.0.113.0/24", "203.0.113.1"),),
)


def floating(number: int, fixed: str, host: str = "h1") -> FloatingIp:
    outer = f"203.0.113.{number}"
    return FloatingIp(id=f"fip-{number}", floating_ip_address=outer, fixed_ip_address=fixed, host=host)


def distributed(key: str = "r1", *floating_ips: FloatingIp, **values: object) -> Router:
    local = any(each.host for each in floating_ips)
    number = int(key.removeprefix("r"))
    own = tuple(msgspec.structs.replace(each, id=f"{number - 1}{each.id[1:]}") for each in (interface(1), interface(2)))
    whole: dict[str, object] = {
        "distributed": True,
        "interfaces": own,
        "centralized": False,
        "snat_interfaces": (snat(1), snat(2)),
        "floating_ips": floating_ips,
        "agent_gateway": AGENT_GATEWAY if local else None,
    }
    return Router(**{"id": key, "gateway": GATEWAY, **whole, **values})  # type: ignore[arg-type]


def port(key: str, ip: str, number: int = 1, mac: str = "fa:16:3e:00:09:09") -> DhcpPort:
    fixed = (FixedIp(f"subnet-10.0.{number}.0/24", ip),)
    return DhcpPort(id=key, network_id=f"net-{number}", mac_address=mac, fixed_ips=fixed)


# --- what hosts get ---------------------------------------------------------------------------------------------------


def test_each_host_has_its_own_floating_ips_and_the_snat_host_the_rest() -> None:
    fips = (floating(8, "10.0.1.8", "h2"), floating(9, "10.0.1.9", "h3"), floating(10, "10.0.1.10", ""))
    base = router(distributed=True, floating_ips=fips)
    modes = {"h1": "dvr_snat", "h2": "dvr", "h3": "dvr_no_external"}
    local = frozenset({"h2", "h3"})
    given = dict(render_for_hosts(base, local, frozenset({"h1"}), modes, {"h2": AGENT_GATEWAY}))
    assert {host: [each.id for each in each.floating_ips] for host, each in given.items()} == {
        "h1": ["fip-9", "fip-10"],
        "h2": ["fip-8"],
        "h3": [],
    }
    assert {host: each.centralized for host, each in given.items()} == {"h1": True, "h2": False, "h3": False}
    assert {host: each.agent_gateway for host, each in given.items()} == {"h1": None, "h2": AGENT_GATEWAY, "h3": None}
    waiting = dict(render_for_hosts(base, local, frozenset({"h1"}), modes, {}))
    assert waiting["h2"].floating_ips == ()


def test_announced_subnets_leave_by_hosts_that_reach_the_outside() -> None:
    base = router(distributed=True, direct_prefixes=("10.0.1.0/24",))
    modes = {"h1": "dvr_snat", "h2": "dvr", "h3": "dvr_no_external", "h4": "dvr"}
    gateways = {"h1": AGENT_GATEWAY, "h2": AGENT_GATEWAY, "h3": AGENT_GATEWAY}
    local = frozenset({"h2", "h3", "h4"})
    given = dict(render_for_hosts(base, local, frozenset({"h1"}), modes, gateways))
    assert {host: bool(each.direct_prefixes) for host, each in given.items()} == {
        **dict.fromkeys(("h1", "h3", "h4"), False),
        "h2": True,
    }
    assert {host for host, each in given.items() if each.agent_gateway is not None} == {"h2"}


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_addresses_without_a_floating_ip_are_routed_to_the_snat_host_and_neighbours_are_permanent() -> None:
    known = [port("p1", "10.0.1.9"), port("p2", "10.0.2.9", 2, "fa:16:3e:00:09:0a"), port(interface(1).id, "10.0.1.1")]
    namespace = rendered(distributed(), OPTIONS, ports=known).namespace
    first, second = snat_table("10.0.1.0/24"), snat_table("10.0.2.0/24")
    assert namespace.rules == {
        rule(first, source="10.0.1.0/24", table=first),
        rule(second, source="10.0.2.0/24", table=second),
    }
    assert namespace.routes == {
        route("0.0.0.0/0", QR1, "10.0.1.7", table=first),
        route("0.0.0.0/0", QR2, "10.0.2.7", table=second),
    }
    assert namespace.neighbours == {
        neighbour(QR1, "10.0.1.9", "fa:16:3e:00:09:09"),
        neighbour(QR2, "10.0.2.9", "fa:16:3e:00:09:0a"),
    }
    assert {each.name for each in namespace.devices} == {"lo", QR1, QR2}


def test_without_a_gateway_only_its_subnets_are_reached() -> None:
    namespace = rendered(distributed(gateway=None, snat_interfaces=()), OPTIONS).namespace
    assert (namespace.rules, namespace.routes) == (frozenset(), frozenset())


def test_the_rule_of_a_floating_ip_precedes_those_of_subnets(tmp_path: Path) -> None:
    link = LinkLocals(str(tmp_path)).allocate("r1")
    made = rendered(distributed("r1", floating(9, "10.0.1.9")), OPTIONS, link=link)
    assert rule(FLOATING_PRIORITY, source="10.0.1.9/32", table=FLOATING_TABLE) in made.namespace.rules
    assert route("0.0.0.0/0", "rfp-r1", "169.254.64.1", table=FLOATING_TABLE) in made.namespace.routes
    assert min(each.priority for each in made.namespace.rules) == FLOATING_PRIORITY
    (nat,) = made.namespace.tables
    text = nat.text()
    assert 'iifname "rfp-r1" dnat ip to ip daddr map @floating_to_fixed' in text
    assert text.count("@floating_to_fixed") == 1


def test_an_announced_subnet_takes_the_way_of_floating_ips_without_translation(tmp_path: Path) -> None:
    links = LinkLocals(str(tmp_path))
    direct = {"direct_prefixes": ("10.0.1.0/24",), "agent_gateway": AGENT_GATEWAY}
    one, two = (distributed(key, **direct) for key in ("r1", "r2"))
    made = rendered(one, OPTIONS, link=links.allocate("r1")).namespace
    first, second = snat_table("10.0.1.0/24"), snat_table("10.0.2.0/24")
    assert made.rules == {
        rule(first, source="10.0.1.0/24", table=FLOATING_TABLE),
        rule(second, source="10.0.2.0/24", table=second),
    }
    assert route("0.0.0.0/0", "rfp-r1", "169.254.64.1", table=FLOATING_TABLE) in made.routes
    assert "rfp-r1" in {each.name for each in made.devices}
    waiting = rendered(one, OPTIONS).namespace  # until it has its veth pair, it leaves by the SNAT host
    assert rule(first, source="10.0.1.0/24", table=first) in waiting.rules
    members = [(each, links.allocate(each.id) or ("", "")) for each in (one, two)]
    fip = render_fip(AGENT_GATEWAY, members, OPTIONS)
    found = [each for each in fip.routes if each.destination == "10.0.1.0/24"]
    assert found == [route("10.0.1.0/24", "fpr-r1", "169.254.64.0")], "a subnet of two routers is reached by one"


def test_snat_namespace_translates_the_other_floating_ips() -> None:
    central = rendered(distributed("r1", floating(9, "10.0.1.9", ""), centralized=True), OPTIONS, kind="snat")
    assert central.namespace.name == "snat-r1"
    assert {each.name for each in central.namespace.devices} == {
        "lo",
        "qg-eeeeeeee-aa",
        "sg-50000001-aa",
        "sg-50000002-aa",
    }
    assert "203.0.113.9/32" in {each.address for each in central.namespace.addresses}
    assert "203.0.113.9 : 10.0.1.9" in central.namespace.tables[0].text()
    assert {plug.name for plug in central.namespace.plugs} == {"tapeeeeeeee-aa", "tap50000001-aa", "tap50000002-aa"}
    assert find_rendered(distributed(), OPTIONS, kind="snat") is None
    assert find_rendered(distributed(gateway=None, centralized=True), OPTIONS, kind="snat") is None


def test_an_extra_route_is_where_its_next_hop_is() -> None:
    routes = (RouterRoute("10.9.0.0/16", "10.0.1.9"), RouterRoute("10.8.0.0/16", "203.0.113.8"))
    both = distributed(routes=routes, centralized=True)
    local = {each.destination for each in rendered(both, OPTIONS).namespace.routes}
    central = rendered(both, OPTIONS, kind="snat")
    assert {"10.9.0.0/16", "10.8.0.0/16"} & local == {"10.9.0.0/16"}
    assert {"10.9.0.0/16", "10.8.0.0/16"} <= {each.destination for each in central.namespace.routes}


def test_a_port_that_is_created_moved_or_deleted_requeues_the_routers_on_its_network() -> None:
    routers = [distributed("r1"), msgspec.structs.replace(router(), id="plain")]
    old, new = port("p", "10.0.1.9"), port("p", "10.0.1.10")
    for change in (StateChange("dhcp_port", "p", None, new), StateChange("dhcp_port", "p", old, new)):
        assert list(DistributedRouting().routers_affected(change, routers)) == ["r1"]
    named = msgspec.structs.replace(old, revision=5)
    assert list(DistributedRouting().routers_affected(StateChange("dhcp_port", "p", old, named), routers)) == []
    assert (
        list(
            DistributedRouting().routers_affected(
                StateChange("dhcp_port", "p", None, port("p", "10.0.7.9", 7)), routers
            )
        )
        == []
    )


def test_link_local_pairs_are_kept_and_unique(tmp_path: Path) -> None:
    first = LinkLocals(str(tmp_path))
    pairs = {key: first.allocate(key) for key in ("r1", "r2", "r3")}
    assert len(set(pairs.values())) == 3
    again = LinkLocals(str(tmp_path))
    assert {key: again.allocate(key) for key in pairs} == pairs
    again.release("r2")
    assert again.find("r2") is None
    assert again.allocate("r4") == pairs["r2"]


# --- applied and removed ----------------------------------------------------------------------------------------------


class Quiet:
    def flush(self, entries: object) -> None: ...

    def flush_translated(self, kept: object) -> int:
        return 0


class Host:
    def __init__(self, state_path: Path) -> None:
        self.netlink, self.ovsdb = FakeNetlink(), FakeOvsdb()
        self.ovsdb.apply([SetBridge("br-int")])
        self.feed = Feed()
        self.routers = self.feed.state.objects["router"]
        self.feed.state.objects["dhcp_port"]["p1"] = port("p1", "10.0.1.9")
        self.nft = FakeNft(self.netlink)
        self.dataplane = self.routers_of(state_path)

    def routers_of(self, state_path: Path) -> Routers:
        """Those of an agent that is started now."""
        options = L3Options(host="h1", state_path=str(state_path), veth=True)
        services = ServiceNamespaces(self.netlink, lambda: self.ovsdb, self.nft)
        desired = DesiredRouters(self.feed, kinds=frozenset({"dhcp_port"}))
        return Routers(services, lambda name: Quiet(), options, desired)

    def apply(self, new: Router) -> int:
        self.routers[new.id] = new
        return self.dataplane.apply(new).changes

    def remove(self, key: str) -> None:
        del self.routers[key]
        self.dataplane.remove(key)

    @property
    def namespaces(self) -> set[str]:
        return set(self.netlink.namespaces())

    @property
    def plugged(self) -> set[str]:
        return set(self.ovsdb.read().bridges["br-int"].ports) - {"br-int"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_second_time_nothing_is_changed(host: Host) -> None:
    whole = distributed("r1", floating(9, "10.0.1.9"), floating(10, "10.0.1.10", ""), centralized=True)
    assert host.apply(whole)
    assert host.namespaces == {"qrouter-r1", "snat-r1", "fip-outside"}
    assert host.dataplane.find(whole) == []
    assert host.apply(whole) == 0
    assert ("fip-outside", FG, "203.0.113.9") in host.netlink.announced


def test_namespaces_that_are_not_needed_any_more_are_removed(host: Host) -> None:
    host.apply(distributed("r1", floating(9, "10.0.1.9"), centralized=True))
    host.apply(distributed("r1", centralized=True))
    assert host.namespaces == {"qrouter-r1", "snat-r1"}
    host.apply(distributed("r1", gateway=None, snat_interfaces=()))
    assert host.namespaces == {"qrouter-r1"}
    host.remove("r1")
    assert host.namespaces == set()
    assert host.plugged == set()
    assert host.dataplane.known() == frozenset()


def test_routers_share_a_fip_namespace_until_the_last_is_removed(host: Host) -> None:
    host.apply(distributed("r1", floating(9, "10.0.1.9")))
    host.apply(distributed("r2", floating(10, "10.0.1.10")))
    assert {"fpr-r1", "fpr-r2", FG} <= host.netlink.read("fip-outside").devices.keys()
    host.remove("r1")
    assert "fpr-r1" not in host.netlink.read("fip-outside").devices
    assert {"203.0.113.10/32"} == {
        each.destination for each in host.netlink.read("fip-outside").routes if each.destination.endswith("/32")
    }
    host.remove("r2")
    assert (host.namespaces, host.plugged) == (set(), set())


def test_a_link_that_is_in_no_file_stays_while_another_router_is_reconciled(host: Host, tmp_path: Path) -> None:
    """As those of a Neutron agent, whose file has another place."""
    first, second = distributed("r1", floating(9, "10.0.1.9")), distributed("r2", floating(10, "10.0.1.10"))
    host.apply(first)
    host.apply(second)
    before = host.netlink.read("fip-outside")
    (tmp_path / LINKS_FILE).unlink()
    host.dataplane = host.routers_of(tmp_path)
    host.apply(second)
    assert host.dataplane.find(first) == []
    assert host.netlink.read("fip-outside").addresses == before.addresses
    assert host.netlink.read("fip-outside").devices == before.devices


def test_before_synced_other_routers_stay_in_the_fip_namespace(host: Host) -> None:
    host.apply(distributed("r1", floating(9, "10.0.1.9")))
    second = distributed("r2", floating(10, "10.0.1.10"))
    host.apply(second)
    first, host.feed.is_synced = host.routers.pop("r1"), False  # an agent that has just started and knows one only
    host.dataplane.apply(second)
    assert "fpr-r1" in host.netlink.read("fip-outside").devices
    host.routers["r1"], host.feed.is_synced = first, True
    assert host.dataplane.apply(first).changes == 0


def test_a_centralized_router_has_one_namespace(host: Host) -> None:
    host.apply(router())
    assert host.namespaces == {"qrouter-r1"}
    assert GATEWAY.id[:11] in {name.removeprefix("tap") for name in host.plugged}
