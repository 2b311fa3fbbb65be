"""Metadata requests in a router: which sources are redirected, by IPv4 and IPv6."""

from __future__ import annotations

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import DNAT, INPUT, MARK
from neutrino.agent.l3.services.keepalived.render import render_keepalived
from tests.support import routing
from tests.support.routing import address, interface, membership, rendered, router, rules, table

FOUR, SIX = interface(1), interface(2, address("fd00::1", "fd00::/64"))
QR = "qr-00000002-aa"
ADDRESS = "fe80::a9fe:a9fe/64"
ON, OFF = L3Options(host="h1", veth=True, metadata_port=9697), L3Options(host="h1", veth=True)


def carriers(options: L3Options, **values: object) -> set[str]:
    namespace = rendered(router(FOUR, SIX, **values), options).namespace
    return {each.device for each in namespace.addresses if each.address == ADDRESS}


def test_devices_with_ipv6_have_the_address() -> None:
    assert carriers(ON) == {QR}
    assert carriers(OFF) == set(), "enable_metadata_proxy is off"


def test_of_an_ha_router_only_the_active_host_has_it() -> None:
    assert carriers(ON, ha=membership()) == set()
    failover = routing.failover(router(FOUR, SIX, ha=membership()), ON)
    assert failover is not None
    lines = [line.strip() for line in render_keepalived(failover, ON, "/fifo").splitlines()]
    assert f"{ADDRESS} dev {QR} no_track" in lines


def test_requests_are_redirected_and_the_port_is_for_these_alone() -> None:
    made = rendered(router(FOUR, SIX), ON)
    marked = "ip6 daddr fe80::a9fe:a9fe tcp dport 80 meta mark set 0x1"
    marks = rules(made, MARK, "ip6")
    assert marks[:2] == (
        f'iifname "qr-*" ip6 saddr fe80::/10 {marked}',
        f'iifname "{QR}" ip6 saddr {{ fd00::/64 }} {marked}',
    )
    assert marks[2].endswith("meta mark & 0xffff != 0x1 drop"), "no other source"
    redirect = "meta mark & 0xffff == 0x1 ip6 daddr fe80::a9fe:a9fe tcp dport 80 redirect to :9697"
    assert rules(made, DNAT, "ip6") == (redirect,)
    assert rules(made, INPUT, "ip6")[-1] == "tcp dport 9697 drop"
    assert table(rendered(router(FOUR), ON), "ip6") is None, "a host without IPv6 is left alone"
    assert table(rendered(router(FOUR, SIX), OFF), "ip6") is None


def test_by_ipv4_only_sources_of_the_devices_own_subnets_are_redirected() -> None:
    """Of two ports on one network, each takes the sources of both subnets: they share a link."""
    twin = interface(3, address("10.0.9.1", "10.0.9.0/24"), network_id="net-1")
    made = rendered(router(FOUR, SIX, twin), ON)
    match = "ip daddr 169.254.169.254 tcp dport 80"
    both = "ip saddr { 10.0.1.0/24, 10.0.9.0/24 }"
    assert rules(made, MARK)[1:] == (
        f'iifname "qr-00000001-aa" {both} {match} meta mark set 0x1',
        f'iifname "qr-00000003-aa" {both} {match} meta mark set 0x1',
        f'iifname "qr-*" {match} meta mark & 0xffff != 0x1 drop',
    )
    assert rules(made, DNAT)[-1] == f"meta mark & 0xffff == 0x1 {match} redirect to :9697"
    off = table(rendered(router(FOUR, SIX), OFF))
    assert off is not None
    assert "169.254" not in off.text()
