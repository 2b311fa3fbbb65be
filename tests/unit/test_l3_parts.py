"""Rendering of a router: devices and routes, NAT, router advertisements, keepalived."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.keepalived.render import Agreement, read_agreement, render_keepalived
from neutrino.agent.l3.services.radvd.render import render_radvd
from neutrino.dataplane.netlink.values import Route, route
from neutrino.model.routing import Router, RouterRoute
from tests.support import routing
from tests.support.routing import GATEWAY, QG, address, floating, interface, membership, nft_text, rendered, router

OPTIONS = L3Options(host="h1", veth=True)


def test_devices_addresses_and_the_default_route() -> None:
    namespace = rendered(router(floating_ips=(floating(9, "10.0.1.9"),)), OPTIONS).namespace
    assert namespace.name == "qrouter-r1"
    assert {(each.name, each.peer, each.tx_checksum) for each in namespace.devices} == {
        ("lo", "", None),
        ("qr-00000001-aa", "tap00000001-aa", False),
        ("qr-00000002-aa", "tap00000002-aa", False),
        (QG, "tapeeeeeeee-aa", False),
    }
    assert {(each.device, each.address) for each in namespace.addresses} == {
        ("qr-00000001-aa", "10.0.1.1/24"),
        ("qr-00000002-aa", "10.0.2.1/24"),
        (QG, "203.0.113.5/24"),
        (QG, "203.0.113.9/32"),
    }
    assert namespace.routes == {route("0.0.0.0/0", QG, "203.0.113.1")}
    assert namespace.sysctls["net/ipv4/ip_forward"] == "1"


def test_internal_ports_of_the_switch_have_no_peer() -> None:
    devices = rendered(router(), L3Options(veth=False)).namespace.devices
    assert {each.peer for each in devices} == {""}


def test_a_port_that_is_down_has_no_device() -> None:
    down = msgspec.structs.replace(interface(2), admin_state_up=False)
    names = {each.name for each in rendered(router(interface(1), down), OPTIONS).namespace.devices}
    assert names == {"lo", "qr-00000001-aa", QG}


def test_extra_routes_and_a_gateway_outside_its_subnet() -> None:
    outside = msgspec.structs.replace(GATEWAY, addresses=(address("203.0.113.5", "203.0.113.0/28", "203.0.113.99"),))
    routes = rendered(
        router(gateway=outside, routes=(RouterRoute("10.9.0.0/16", "10.0.1.7"),)), OPTIONS
    ).namespace.routes
    assert routes == {
        route("0.0.0.0/0", QG, "203.0.113.99", onlink=True),
        route("10.9.0.0/16", via="10.0.1.7"),
    }


def test_without_a_next_hop_for_ipv6_the_gateway_accepts_router_advertisements() -> None:
    dual = msgspec.structs.replace(GATEWAY, addresses=(*GATEWAY.addresses, address("2001:db8::5", "2001:db8::/64")))
    silent = rendered(router(gateway=dual), OPTIONS).namespace
    assert silent.sysctls[f"net/ipv6/conf/{QG}/accept_ra"] == "2"
    configured = rendered(router(gateway=dual), L3Options(ipv6_gateway="fe80::1")).namespace
    assert route("::/0", QG, "fe80::1") in configured.routes
    assert configured.sysctls[f"net/ipv6/conf/{QG}/accept_ra"] == "0"


def test_floating_ips_and_snat_are_translated_and_nothing_between_internal_subnets() -> None:
    text = nft_text(router(floating_ips=(floating(9, "10.0.1.9"),)), OPTIONS)
    assert "203.0.113.9 : 10.0.1.9" in text
    assert "10.0.1.9 : 203.0.113.9" in text
    assert f'oifname != "{QG}" ct status & dnat == 0 accept' in text
    assert "snat ip to 203.0.113.5" in text


def test_without_snat_only_floating_ips_are_translated() -> None:
    text = nft_text(router(enable_snat=False, floating_ips=(floating(9, "10.0.1.9"),)), OPTIONS)
    assert "snat ip to 203.0.113.5" not in text
    assert "snat ip to ip saddr map @fixed_to_floating" in text


def test_advertisements_by_mode() -> None:
    def of(mode: str) -> str:
        six = interface(1, address("2001:db8:1::1", "2001:db8:1::/64", ra_mode=mode, dns_nameservers=("2001:db8::53",)))
        return render_radvd(router(six), OPTIONS)

    assert "AdvAutonomous on;" in of("slaac")
    assert "AdvOtherConfigFlag" not in of("slaac")
    assert "RDNSS 2001:db8::53 {};" in of("slaac")
    assert "AdvOtherConfigFlag on;" in of("dhcpv6-stateless")
    assert "AdvManagedFlag on;" in of("dhcpv6-stateful")
    assert "AdvAutonomous off;" in of("dhcpv6-stateful")
    assert render_radvd(router(), OPTIONS) == ""


def _keepalived(wanted: Router) -> str:
    failover = routing.failover(wanted, OPTIONS)
    assert failover is not None
    return render_keepalived(failover, OPTIONS, "/state/fifo")


def test_a_standby_host_reports_no_groups_by_the_mac_of_the_router() -> None:
    """The kernel does, without a link-local address from ::, as soon as a device is up; tables come before that."""
    (found,) = (
        rule
        for table in rendered(router(ha=membership()), OPTIONS).namespace.tables
        for chain in table.chains
        if chain.hook is not None and chain.hook.hook == "output" and table.family == "ip6"
        for rule in chain.rules
    )
    assert found == 'oifname != "ha-ffffffff-aa" ip6 saddr :: drop'
    alone = rendered(router(), OPTIONS).namespace.tables
    assert not [chain for table in alone for chain in table.chains if chain.name == "output_standby"]


def test_advertisements_of_other_routers_are_dropped_before_keepalived() -> None:
    (found,) = (
        rule
        for table in rendered(router(ha=membership()), OPTIONS).namespace.tables
        for chain in table.chains
        if chain.name == "prerouting_vrrp"
        for rule in chain.rules
    )
    assert found == 'iifname "ha-ffffffff-aa" ip protocol vrrp @th,8,8 != 7 drop'


def test_with_ha_keepalived_sets_the_addresses() -> None:
    shared = router(ha=membership(), floating_ips=(floating(9, "10.0.1.9"),))
    namespace = rendered(shared, OPTIONS).namespace
    assert {(each.device, each.address) for each in namespace.addresses} == {("ha-ffffffff-aa", "169.254.192.7/18")}
    assert namespace.routes == frozenset()
    assert QG in namespace.others_addresses
    text = _keepalived(shared)
    for line in (
        "virtual_router_id 7",
        "169.254.0.7/24 dev ha-ffffffff-aa",
        "10.0.1.1/24 dev qr-00000001-aa",
        f"203.0.113.9/32 dev {QG}",
        f"0.0.0.0/0 via 203.0.113.1 dev {QG}",
        "fe80::f816:3eff:fe00:101/64 dev qr-00000001-aa scope link",
        "nopreempt",
    ):
        assert line in text, text


@pytest.mark.parametrize(("interval", "lines"), [(2.0, {"advert_int 2"}), (0.2, {"version 3", "advert_int 0.2"})])
def test_advertisements_within_a_second_are_of_vrrp_version_3(interval: float, lines: set[str]) -> None:
    failover = routing.failover(router(ha=membership()), OPTIONS)
    assert failover is not None
    text = render_keepalived(failover, dataclasses.replace(OPTIONS, ha_vrrp_advert_int=interval), "/state/fifo")
    found = {line.strip() for line in text.splitlines() if line.strip().startswith(("version", "advert_int"))}
    assert found == lines
    assert read_agreement(text) == Agreement(interval)


def test_the_active_host_looks_at_the_gateways_of_default_routes() -> None:
    options = dataclasses.replace(OPTIONS, ha_vrrp_health_check_interval=5)
    for wanted, found in (
        (router(ha=membership()), [(QG, "203.0.113.1")]),
        (router(ha=membership(), gateway=None), []),
    ):
        failover = routing.failover(wanted, options)
        assert failover is not None
        assert failover.gateways() == found
        text = render_keepalived(failover, options, "/state/fifo", "/state/check")
        script = f'script "/bin/sh /state/check 0 ha-ffffffff-aa 169.254.0.7/24 {QG} 203.0.113.1"'
        for line in (script, "interval 5", "vrrp_script gateways_7 {", "enable_script_security"):
            assert (line in text) is bool(found), line
        assert ("track_script" in text) is bool(found)
        assert "script" not in render_keepalived(failover, OPTIONS, "/state/fifo", "/state/check")


@pytest.mark.parametrize(
    ("interval", "pace", "others"),
    [(1, "0", ("interval 1", "timeout 3", "fall 2")), (0.2, "0.2", ("interval 1", "timeout 600", "fall 1"))],
)
def test_a_look_at_the_gateways_within_a_second(interval: float, pace: str, others: tuple[str, ...]) -> None:
    """keepalived kills a script that takes too long, which counts as failed: it has time for all answers."""
    failover = routing.failover(router(ha=membership()), OPTIONS)
    assert failover is not None
    options = dataclasses.replace(OPTIONS, ha_vrrp_health_check_interval=interval)
    lines = {line.strip() for line in render_keepalived(failover, options, "/state/fifo", "/check").splitlines()}
    assert f'script "/bin/sh /check {pace} ha-ffffffff-aa 169.254.0.7/24 {QG} 203.0.113.1"' in lines
    assert lines >= set(others)


def test_a_project_s_own_default_route_is_no_gateway_to_look_at() -> None:
    """Its next hop may be an instance, which would decide which host is active."""
    failover = routing.failover(router(ha=membership(), gateway=None), OPTIONS)
    assert failover is not None
    static = Route("0.0.0.0/0", via="10.0.1.77", device="qr-00000001-aa")
    assert dataclasses.replace(failover, routes=(*failover.routes, static)).gateways() == []


def test_after_a_failover_the_new_host_translates_as_the_old_one() -> None:
    alone, shared = (nft_text(each, OPTIONS) for each in (router(), router(ha=membership())))
    assert "snat ip to 203.0.113.5 fully-random" in alone
    assert "snat ip to 203.0.113.5" in shared
    assert "fully-random" not in shared
    dropped = f'iifname "{QG}" tcp flags & syn == 0 ct state invalid,new drop'
    assert (dropped in alone, dropped in shared) == (False, True)
