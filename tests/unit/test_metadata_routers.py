"""The metadata address of IPv6 in a router: on devices with IPv6, redirected, and nowhere else."""

from __future__ import annotations

from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import render_namespace
from neutrino.agent.l3.parts.ha import moving_router, render_keepalived
from neutrino.agent.l3.parts.ipv6 import render_ipv6
from neutrino.agent.l3.parts.nat import render_nat
from tests.support.routing import address, interface, membership, router

FOUR, SIX = interface(1), interface(2, address("fd00::1", "fd00::/64"))
QR = "qr-00000002-aa"
ADDRESS = "fe80::a9fe:a9fe/64"
ON, OFF = L3Options(host="h1", veth=True, metadata_port=9697), L3Options(host="h1", veth=True)


def carriers(options: L3Options, **values: object) -> set[str]:
    namespace = render_namespace(router(FOUR, SIX, **values), options)
    return {each.device for each in namespace.addresses if each.address == ADDRESS}


def test_devices_with_ipv6_have_the_address() -> None:
    assert carriers(ON) == {QR}
    assert carriers(OFF) == set(), "enable_metadata_proxy is off"


def test_of_an_ha_router_only_the_active_host_has_it() -> None:
    assert carriers(ON, ha=membership()) == set()
    moving = moving_router(router(FOUR, SIX, ha=membership()), ON)
    assert moving is not None
    lines = [line.strip() for line in render_keepalived(moving, ON, "/fifo").splitlines()]
    assert f"{ADDRESS} dev {QR}" in lines


def test_packets_for_it_are_redirected_and_nobody_else_reaches_the_port() -> None:
    table = render_ipv6(router(FOUR, SIX), metadata_port=9697)
    assert table is not None
    rules = {chain.name: chain.rules for chain in table.chains}
    assert table.family == "ip6"
    marked = "ip6 daddr fe80::a9fe:a9fe tcp dport 80 meta mark set 0x1"
    assert rules["marks"][:2] == (
        f'iifname "qr-*" ip6 saddr fe80::/10 {marked}',
        f'iifname "{QR}" ip6 saddr {{ fd00::/64 }} {marked}',
    )
    assert rules["marks"][2].endswith("meta mark & 0xffff != 0x1 drop"), "no other source"
    assert rules["arriving"] == ("meta mark & 0xffff == 0x1 ip6 daddr fe80::a9fe:a9fe tcp dport 80 redirect to :9697",)
    assert rules["to_here"][-1] == "tcp dport 9697 drop"
    assert render_ipv6(router(FOUR), metadata_port=9697) is None, "a host without IPv6 is left alone"
    off = render_ipv6(router(FOUR, SIX))
    assert off is not None
    assert [chain.name for chain in off.chains] == ["between"]


def test_by_ipv4_only_sources_of_the_devices_own_subnets_are_redirected() -> None:
    """Of two ports on one network, each takes the sources of both subnets: they share a link."""
    twin = interface(3, address("10.0.9.1", "10.0.9.0/24"), network_id="net-1")
    rules = {chain.name: chain.rules for chain in render_nat(router(FOUR, SIX, twin), metadata_port=9697).chains}
    asked = "ip daddr 169.254.169.254 tcp dport 80"
    both = "ip saddr { 10.0.1.0/24, 10.0.9.0/24 }"
    assert rules["marks"][1:] == (
        f'iifname "qr-00000001-aa" {both} {asked} meta mark set 0x1',
        f'iifname "qr-00000003-aa" {both} {asked} meta mark set 0x1',
        f'iifname "qr-*" {asked} meta mark & 0xffff != 0x1 drop',
    )
    assert rules["arriving"][0] == f"meta mark & 0xffff == 0x1 {asked} redirect to :9697"
    off = {chain.name: chain.rules for chain in render_nat(router(FOUR, SIX)).chains}
    assert not any("169.254" in rule for several in off.values() for rule in several)
