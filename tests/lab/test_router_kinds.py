"""What routers of every kind do alike, on real packets: between networks, to the outside and back.

Two hosts take routers of every kind, the third one only parts of distributed routers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from neutrino.model.objects import Object
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, allow, make_group, make_guests
from tests.support.routing_checks import (
    check_floating_ips,
    check_forwarded_ports,
    check_ipv6_out,
    check_route_through,
    check_same_addresses,
    check_without_translation,
)
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    active_host,
    can_connect,
    external_network,
    floating_ip,
    gateway_address,
    hosts_of,
    l3_agent,
    make_router,
    source_seen,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

CENTRAL = {"h1", "h2"}
KINDS = {
    "centralized": {"distributed": False, "ha": False},
    "HA": {"distributed": False, "ha": True},
    "distributed": {"distributed": True, "ha": False},
    "distributed and HA": {"distributed": True, "ha": True},
}


@dataclasses.dataclass
class Site:
    """`a` and `c` on a tunnelled network, the others on a VLAN; `shut` accepts port 22 only."""

    lab: Lab
    out: Object
    router: Object
    kind: dict[str, bool]
    group: str
    guests: dict[str, Guest]

    def __getitem__(self, name: str) -> Guest:
        return self.guests[name]

    @property
    def gateway(self) -> str:
        return gateway_address(self.lab, self.router)


@pytest.fixture(scope="module", params=KINDS)
def site(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Site]:
    with cleaned(lab):
        out, kind = external_network(lab), KINDS[request.param]
        wire = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
        blue, green = tenant_network(lab, "blue", 1), tenant_network(lab, "green", 2, **wire)
        router = make_router(lab, out, blue, green, **kind)
        group, _ = make_group(lab, "open", *EVERYTHING)
        shut, _ = make_group(lab, "shut", allow("tcp", 22))
        guests = make_guests(
            lab,
            Spec("a", blue, "h1", [group]),
            Spec("b", green, "h2", [group]),
            Spec("c", blue, "h3", [group]),
            Spec("d", green, "h3", [group]),
            Spec("shut", green, "h1", [shut]),
        )
        for name in ("a", "b", "c", "d"):
            wait_until_reachable(lab, name, MACHINE, 3 * SOON)
        yield Site(lab, out, router, kind, group, {guest.name: guest for guest in guests})


def test_two_hosts_take_routers_of_every_kind_and_the_others_what_is_distributed(lab: Lab) -> None:
    modes = {host: (l3_agent(lab, host) or {})["configurations"]["agent_mode"] for host in lab.hosts}
    assert modes == {"h1": "dvr_snat", "h2": "dvr_snat", "h3": "dvr"}


def test_the_hosts_of_the_router(site: Site) -> None:
    lab, distributed, ha = site.lab, site.kind["distributed"], site.kind["ha"]
    assert len(CENTRAL & set(hosts_of(lab, site.router))) == (2 if distributed or ha else 1)  # both have instances
    if ha:
        assert active_host(lab, site.router, among=CENTRAL) in CENTRAL
    assert (f"qrouter-{site.router['id']}" in lab.run("h3", ["ip", "netns"]).stdout) == distributed
    for host in lab.hosts:
        wait_until_no_drift(lab, host)


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("a", "d"), ("b", "c"), ("c", "d"), ("d", "a")])
def test_subnets_are_joined_and_nothing_is_translated(site: Site, source: str, target: str) -> None:
    """On one host and across, in both versions."""
    for version in (4, 6):
        own, other = site[source].addresses[version], site[target].addresses[version]
        assert source_seen(site.lab, source, target, other).removeprefix("::ffff:") == own


def test_security_groups_hold_on_what_is_routed(site: Site) -> None:
    lab, shut = site.lab, site["shut"]
    assert source_seen(lab, "a", "shut", shut.addresses[4], 22) == site["a"].addresses[4]
    assert not can_connect(lab, "a", "shut", shut.addresses[4], 23)
    fip = floating_ip(lab, site.out, shut.port_id)
    assert source_seen(lab, EXTERNAL, "shut", fip["floating_ip_address"], 22) == MACHINE
    assert not can_connect(lab, EXTERNAL, "shut", fip["floating_ip_address"], 23)
    lab.api.delete("floatingip", fip["id"])


def test_out_under_the_routers_address_from_every_host(site: Site) -> None:
    for name in ("a", "b", "c", "d"):
        assert source_seen(site.lab, name, EXTERNAL, MACHINE) == site.gateway


def test_without_translation(site: Site) -> None:
    check_without_translation(site.lab, site.out, site.router, site["c"], site.gateway)


def test_ipv6_is_routed_out(site: Site) -> None:
    check_ipv6_out(site.lab, site.router, site["a"], site["c"])


def test_floating_ips_in_and_out_and_among_themselves(site: Site) -> None:
    check_floating_ips(site.lab, site.out, [site["a"], site["c"], site["d"]], site["b"], site.gateway)


def test_forwarded_ports(site: Site) -> None:
    check_forwarded_ports(site.lab, site.out, site["c"], site.gateway)


def test_a_route_through_an_instance(site: Site) -> None:
    check_route_through(site.lab, site.router, site["c"], site["b"], site["d"])


def test_tenants_with_the_same_addresses(site: Site) -> None:
    check_same_addresses(site.lab, site.out, site["c"], [site.group], site.gateway, **site.kind)
