"""Routers of every type on the kernel datapath: SNAT, floating IPs, IPv6, and the failover of an HA router."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lab import open_group
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import Spec, make_guests
from tests.support.routing_checks import check_ipv6_out
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    active_host,
    delete_router,
    devices_of,
    external_network,
    failed_host,
    floating_ip,
    gateway_address,
    make_router,
    problems_of,
    source_seen,
    tenant_network,
    wait_until_reachable,
    wait_until_removed,
)

TYPES = {"legacy": (False, False), "ha": (False, True), "dvr": (True, False)}


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    with cleaned(lab):
        yield


@pytest.mark.parametrize("kind", TYPES)
def test_a_router_translates_routes_and_leaves_nothing(lab: Lab, kind: str) -> None:
    distributed, ha = TYPES[kind]
    group = open_group(lab)
    out, blue, red = external_network(lab), tenant_network(lab, "blue", 1), tenant_network(lab, "red", 2)
    router = make_router(lab, out, blue, red, distributed=distributed, ha=ha)
    one, two = make_guests(lab, Spec("one", blue, "h1", [group]), Spec("two", red, "h2", [group]))
    wait_until_reachable(lab, "one", MACHINE, 3 * SOON)
    assert problems_of(lab) == []
    # Between its subnets, on two hosts.
    for version in (4, 6):
        wait_until_reachable(lab, "one", two.addresses[version])
        assert source_seen(lab, "one", "two", two.addresses[version]) == one.addresses[version]
    # Out: by the address of the gateway, and IPv6 untranslated.
    for guest in (one, two):
        assert source_seen(lab, guest.name, EXTERNAL, MACHINE) == gateway_address(lab, router)
    check_ipv6_out(lab, router, one)
    # A floating IP, in and out.
    fip = floating_ip(lab, out, two.port_id)["floating_ip_address"]
    assert source_seen(lab, EXTERNAL, "two", fip) == MACHINE
    assert source_seen(lab, "two", EXTERNAL, MACHINE) == fip
    assert source_seen(lab, "one", "two", fip) == gateway_address(lab, router)
    devices = devices_of(lab, router)
    for found in lab.api.list("floatingip"):
        lab.api.delete("floatingip", found["id"])
    delete_router(lab, router["id"])
    for host in lab.hosts:
        wait_until_removed(lab, router["id"], host, devices)


def test_a_standby_takes_over_when_the_active_host_fails(lab: Lab) -> None:
    group, out, blue = open_group(lab), external_network(lab), tenant_network(lab, "blue", 1)
    router = make_router(lab, out, blue, ha=True)
    active = active_host(lab, router, among=lab.hosts)
    (standby,) = (host for host in lab.hosts if host != active)
    (guest,) = make_guests(lab, Spec("guest", blue, standby, [group]))
    fip = floating_ip(lab, out, guest.port_id)["floating_ip_address"]
    wait_until_reachable(lab, EXTERNAL, fip, 3 * SOON)
    with failed_host(lab, router, active):
        wait_until_reachable(lab, EXTERNAL, fip)
        assert source_seen(lab, "guest", EXTERNAL, MACHINE) == fip
    assert active_host(lab, router, among=lab.hosts) in lab.hosts
