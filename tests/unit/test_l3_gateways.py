"""Rendering of routers with several gateways: devices, default routes, policy routing, translation, keepalived."""

from __future__ import annotations

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import FORWARD, INPUT, MARK, SNAT
from neutrino.agent.l3.router import DesiredRouterNamespace
from neutrino.agent.l3.services.keepalived.render import render_keepalived
from neutrino.dataplane.netlink.values import MAIN_TABLE, NextHop, Route, multipath_route, route, rule
from neutrino.model.routing import FloatingIp, PortForwarding, Router, RouterInterface
from tests.support.routing import (
    GATEWAY,
    QG,
    address,
    failover,
    floating,
    interface,
    membership,
    rendered,
    router,
    rules,
    table,
)

OPTIONS = L3Options(host="h1", veth=True)
SECOND, OTHER, SAME = "qg-dddddddd-aa", "qg-cccccccc-aa", "qg-bbbbbbbb-aa"


def gateway(letter: str, network: str, *addresses: tuple[str, str, str], **values: object) -> RouterInterface:
    return RouterInterface(
        id=f"{letter * 8}-aaaa-bbbb-cccc-dddddddddddd",
        network_id=network,
        mac_address=f"fa:16:3e:00:04:0{letter}",
        addresses=tuple(address(*each) for each in addresses),
        **values,  # type: ignore[arg-type]
    )


TWO = gateway("d", "second", ("198.51.100.5", "198.51.100.0/24", "198.51.100.1"))


def by_second(number: int, fixed: str) -> FloatingIp:
    return FloatingIp(
        id=f"second-{number}",
        floating_ip_address=f"198.51.100.{number}",
        fixed_ip_address=fixed,
        network_id="second",
    )


def several(*further: RouterInterface, **values: object) -> Router:
    return router(extra_gateways=further or (TWO,), **values)


def in_main(desired: DesiredRouterNamespace) -> set[Route]:
    return {each for each in desired.namespace.routes if each.table == MAIN_TABLE}


def elements(desired: DesiredRouterNamespace) -> dict[str, set[str]]:
    found = table(desired)
    assert found is not None
    return {each.name: set(each.elements) for each in found.sets}


def test_a_router_with_one_gateway_has_nothing_of_it() -> None:
    namespace = rendered(router(floating_ips=(floating(9, "10.0.1.9"),)), OPTIONS).namespace
    assert namespace.rules == frozenset()
    assert not [name for name in namespace.sysctls if "multipath" in name or "rp_filter" in name]
    assert not [each.name for each in namespace.tables[0].sets if each.name.startswith("gateway")]


def test_every_gateway_has_a_device_with_its_addresses() -> None:
    wanted = several(floating_ips=(floating(9, "10.0.1.9"), by_second(8, "10.0.1.8")))
    forwarded = PortForwarding(
        id="pf",
        protocol="tcp",
        external_ip_address="198.51.100.7",
        external_port_first=80,
        external_port_last=80,
        internal_ip_address="10.0.1.7",
        internal_port_first=80,
        internal_port_last=80,
        network_id="second",
    )
    namespace = rendered(msgspec.structs.replace(wanted, port_forwardings=(forwarded,)), OPTIONS).namespace
    assert {each.name for each in namespace.devices} >= {QG, SECOND}
    assert {each.name for each in namespace.plugs} >= {"tapeeeeeeee-aa", "tapdddddddd-aa"}
    assert {each.address for each in namespace.addresses if each.device == QG} == {"203.0.113.5/24", "203.0.113.9/32"}
    found = {each.address for each in namespace.addresses if each.device == SECOND}
    assert found == {"198.51.100.5/24", "198.51.100.8/32", "198.51.100.7/32"}
    assert namespace.sysctls[f"net/ipv4/conf/{SECOND}/rp_filter"] == "2"


def test_default_routes_are_those_of_the_first_gateway() -> None:
    desired = rendered(several(), OPTIONS)
    assert in_main(desired) == {route("0.0.0.0/0", QG, "203.0.113.1")}
    assert {each for each in desired.namespace.routes if each.table != MAIN_TABLE} == {
        route("0.0.0.0/0", QG, "203.0.113.1", table=32),
        route("0.0.0.0/0", SECOND, "198.51.100.1", table=33),
    }


def test_with_ecmp_default_routes_are_over_all_next_hops() -> None:
    one = msgspec.structs.replace(
        GATEWAY, addresses=(*GATEWAY.addresses, address("2001:db8:1::5", "2001:db8:1::/64", "2001:db8:1::1"))
    )
    two = gateway(
        "d",
        "second",
        ("198.51.100.5", "198.51.100.0/28", "198.51.100.99"),
        ("2001:db8:2::5", "2001:db8:2::/64", "2001:db8:2::1"),
    )
    desired = rendered(several(two, gateway=one, enable_default_route_ecmp=True), OPTIONS)
    assert in_main(desired) == {
        multipath_route("0.0.0.0/0", [NextHop(QG, "203.0.113.1"), NextHop(SECOND, "198.51.100.99", onlink=True)]),
        multipath_route("::/0", [NextHop(QG, "2001:db8:1::1"), NextHop(SECOND, "2001:db8:2::1")]),
    }
    assert desired.namespace.sysctls["net/ipv4/fib_multipath_hash_policy"] == "1"
    assert desired.namespace.sysctls["net/ipv6/fib_multipath_hash_policy"] == "1"
    alone = rendered(router(gateway=one, enable_default_route_ecmp=True), OPTIONS)
    assert {each.next_hops for each in in_main(alone)} == {()}


def test_one_next_hop_of_a_version_is_a_plain_route() -> None:
    two = gateway("d", "second", ("2001:db8:2::5", "2001:db8:2::/64", "2001:db8:2::1"))
    desired = rendered(several(two, enable_default_route_ecmp=True), OPTIONS)
    assert in_main(desired) == {route("0.0.0.0/0", QG, "203.0.113.1"), route("::/0", SECOND, "2001:db8:2::1")}


def test_a_gateway_that_is_down_is_left_out() -> None:
    down = msgspec.structs.replace(TWO, admin_state_up=False)
    desired = rendered(several(down, enable_default_route_ecmp=True), OPTIONS)
    assert SECOND not in {each.name for each in desired.namespace.devices}
    assert in_main(desired) == {route("0.0.0.0/0", QG, "203.0.113.1")}
    assert not [each for each in rules(desired, SNAT) if SECOND in each]


def test_marked_packets_leave_by_their_gateway() -> None:
    mask = 0x0FF00000
    assert rendered(several(), OPTIONS).namespace.rules == {
        rule(20000, table=MAIN_TABLE, suppressed=0),
        rule(20001, mark=0x100000, mask=mask, table=32),
        rule(20002, mark=0x200000, mask=mask, table=33),
        # Also to the network of the other one, which the main table knows as connected.
        rule(19999, destination="198.51.100.0/24", mark=0x100000, mask=mask, table=32),
        rule(19999, destination="203.0.113.0/24", mark=0x200000, mask=mask, table=33),
    }


def test_connections_are_marked_by_their_external_address() -> None:
    wanted = several(floating_ips=(floating(9, "10.0.1.9"), by_second(8, "10.0.1.8"), by_second(9, "10.0.1.9")))
    desired = rendered(wanted, OPTIONS)
    found = elements(desired)
    assert found["gateway_1"] == {"203.0.113.5", "203.0.113.9"}
    assert found["gateway_2"] == {"198.51.100.5", "198.51.100.8", "198.51.100.9"}
    # New connections: an instance with floating IPs of both leaves under that of the first.
    assert found["gateway_1_fixed"] == {"10.0.1.9"}
    assert found["gateway_2_fixed"] == {"10.0.1.8"}
    inside = f'iifname != {{ "{QG}", "{SECOND}" }}'
    mark = "meta mark set meta mark & 0xf00fffff | 0x200000"
    assert {each for each in rules(desired, MARK) if "0x200000" in each} == {
        f"{inside} ct direction reply ct original ip daddr @gateway_2 {mark}",
        f"{inside} ct direction original ct reply ip daddr @gateway_2 {mark}",
        f"{inside} ct state new ip saddr @gateway_2_fixed {mark}",
    }
    assert f'iifname {{ "{QG}", "{SECOND}" }} meta mark set meta mark & 0xffff0000 | 0x2' in rules(desired, MARK)


def test_sources_are_translated_to_the_network_that_they_leave_by() -> None:
    desired = rendered(several(floating_ips=(floating(9, "10.0.1.9"), by_second(8, "10.0.1.8"))), OPTIONS)
    found = elements(desired)
    assert found["floating_to_fixed"] == {"203.0.113.9 : 10.0.1.9", "198.51.100.8 : 10.0.1.8"}
    assert found["fixed_to_floating"] == {"10.0.1.9 : 203.0.113.9"}
    assert found["fixed_to_floating_2"] == {"10.0.1.8 : 198.51.100.8"}
    assert rules(desired, SNAT)[1:] == (
        f'oifname != {{ "{QG}", "{SECOND}" }} ct status & dnat == 0 accept',
        f'oifname "{SECOND}" snat ip to ip saddr map @fixed_to_floating_2',
        f'oifname "{SECOND}" snat ip to 198.51.100.5 fully-random',
        f'oifname "{SECOND}" accept',
        "snat ip to ip saddr map @fixed_to_floating",
        f'oifname != "{QG}" snat ip to ip saddr map @fixed_to_floating_2',
        "snat ip to 203.0.113.5 fully-random",
    )


def test_without_snat_only_floating_ips_are_translated() -> None:
    found = rules(rendered(several(enable_snat=False), OPTIONS), SNAT)
    assert not [each for each in found if "snat ip to 1" in each or "snat ip to 2" in each]
    assert f'oifname "{SECOND}" accept' in found


def test_address_scopes_hold_by_every_gateway() -> None:
    scoped = gateway("d", "second")
    scoped = msgspec.structs.replace(
        scoped, addresses=(address("198.51.100.5", "198.51.100.0/24", "198.51.100.1", address_scope_id="scope"),)
    )
    desired = rendered(router(interface(1), extra_gateways=(scoped,), enable_snat=False), OPTIONS)
    found = rules(desired, FORWARD)
    outward = f'iifname {{ "qr-00000001-aa" }} oifname "{SECOND}"'
    assert f"{outward} ip saddr != @fixed_to_floating_2 drop" in found
    assert f'iifname "{SECOND}" oifname {{ "qr-00000001-aa" }} drop' in found
    assert not [each for each in found if QG in each]


def test_two_gateways_on_one_network() -> None:
    """Floating IPs are on the first of them; each subnet is routed once."""
    both = (
        gateway("c", "second", ("198.51.100.6", "198.51.100.0/24", "198.51.100.1"), other_subnets=("192.0.2.0/24",)),
        gateway("b", "second", ("192.0.2.5", "192.0.2.0/24", "192.0.2.1"), other_subnets=("198.51.100.0/24",)),
    )
    desired = rendered(several(*both, floating_ips=(by_second(8, "10.0.1.8"),)), OPTIONS)
    assert {each.device for each in desired.namespace.addresses if each.address == "198.51.100.8/32"} == {OTHER}
    assert in_main(desired) == {route("0.0.0.0/0", QG, "203.0.113.1")}
    found = elements(desired)
    assert (found["gateway_2"], found["gateway_3"]) == ({"198.51.100.6", "198.51.100.8"}, {"192.0.2.5"})
    on_link = gateway("b", "second", ("192.0.2.5", "192.0.2.0/24", "192.0.2.1"), other_subnets=("198.18.0.0/24",))
    assert route("198.18.0.0/24", SAME) in in_main(rendered(several(on_link), OPTIONS))


def test_the_snat_part_of_a_distributed_router_has_all_gateways() -> None:
    wanted = several(distributed=True, centralized=True, snat_interfaces=(interface(3),))
    central, local = rendered(wanted, OPTIONS, kind="snat").namespace, rendered(wanted, OPTIONS).namespace
    assert {QG, SECOND} <= {each.name for each in central.devices}
    assert not {QG, SECOND} & {each.name for each in local.devices}
    assert not [each for each in local.rules if each.table in (32, 33)]


def test_keepalived_sets_the_routes_of_all_gateways() -> None:
    wanted = several(ha=membership(), enable_default_route_ecmp=True)
    found = failover(wanted, OPTIONS)
    assert found is not None
    lines = {line.strip() for line in render_keepalived(found, OPTIONS, "fifo").splitlines()}
    hops = f"nexthop via 198.51.100.1 dev {SECOND} nexthop via 203.0.113.1 dev {QG}"
    assert f"0.0.0.0/0 no_track protocol static {hops}" in lines
    assert f"0.0.0.0/0 via 198.51.100.1 dev {SECOND} table 33 no_track protocol static" in lines
    assert f"198.51.100.5/24 dev {SECOND} no_track" in lines
    desired = rendered(wanted, OPTIONS)
    assert not desired.namespace.routes
    assert desired.namespace.rules  # on standby hosts too: they find no route until keepalived sets them
    assert rules(desired, INPUT) == (
        f'iifname {{ "{QG}", "{SECOND}" }} tcp flags & syn == 0 ct state invalid,new drop',
    )


@pytest.mark.parametrize("ecmp", [False, True])
def test_the_ports_of_all_gateways_are_the_routers(ecmp: bool) -> None:
    assert {GATEWAY.id, TWO.id} <= several(enable_default_route_ecmp=ecmp).port_ids
