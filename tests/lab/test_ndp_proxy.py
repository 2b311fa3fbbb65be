"""NDP proxies on real packets: from outside, an instance is reachable by its IPv6 address only while it has a proxy.

The machine outside has the instances' prefix on its link, as a provider's network has: it asks for their MACs itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.model.objects import Object
from tests.support.lab import wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.lab_trace import check_arrives, trace
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE6,
    SOON,
    active_host,
    can_ping,
    failed_host,
    in_router,
    make_router,
    source_seen,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_unreachable,
)

KINDS: dict[str, dict[str, Any]] = {
    "centralized": {},
    "HA": {"ha": True},
    "distributed": {"distributed": True},
}
OUT, INSIDE = "2001:db8:203:113::/64", "2001:db8:203:114::/64"
PROXIES = "/v2.0/ndp_proxies"


@dataclasses.dataclass
class Site:
    lab: Lab
    router: Object
    guests: dict[str, Guest]

    def address(self, name: str) -> str:
        return self.guests[name].addresses[6]

    @contextlib.contextmanager
    def proxied(self, name: str) -> Iterator[str]:
        body = {"router_id": self.router["id"], "port_id": self.guests[name].port_id}
        made = self.lab.api.request("POST", PROXIES, {"ndp_proxy": body})["ndp_proxy"]
        assert made["ip_address"] == self.address(name)
        try:
            yield made["ip_address"]
        finally:
            self.lab.api.request("DELETE", f"{PROXIES}/{made['id']}")

    def enable(self, value: bool) -> None:
        self.lab.api.update("router", self.router["id"], enable_ndp_proxy=value)

    def settle(self) -> None:
        for host in self.lab.hosts:
            wait_until_no_drift(self.lab, host)


def make_networks(lab: Lab) -> tuple[Object, Object]:
    """An external and an internal network, with IPv6 subnets of one address scope."""
    scope = lab.api.create("address_scope", name="wide", ip_version=6)
    pool = lab.api.create("subnetpool", name="wide", prefixes=[OUT, INSIDE], address_scope_id=scope["id"])
    provider = {"provider:network_type": "flat", "provider:physical_network": "external"}
    out = lab.api.create("network", name="outside", **provider, **{"router:external": True})
    common = {"ip_version": 6, "subnetpool_id": pool["id"]}
    lab.api.create("subnet", network_id=out["id"], cidr=OUT, gateway_ip=MACHINE6, enable_dhcp=False, **common)
    inside = lab.api.create("network", name="inside")
    return out, {**inside, "by_version": {6: lab.api.create("subnet", network_id=inside["id"], cidr=INSIDE, **common)}}


@pytest.fixture(scope="module", params=KINDS)
def site(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Site]:
    with cleaned(lab):
        out, inside = make_networks(lab)
        router = make_router(lab, out, inside, enable_ndp_proxy=True, **KINDS[request.param])
        group, _ = make_group(lab, "open", *EVERYTHING)
        guests = make_guests(lab, *(Spec(name, inside, host, [group]) for name, host in (("one", "h1"), ("two", "h2"))))
        device = outside_device(lab)
        lab.run(EXTERNAL, ["ip", "-6", "route", "add", INSIDE, "dev", device])
        try:
            yield Site(lab, router, {each.name: each for each in guests})
        finally:
            lab.run(EXTERNAL, ["ip", "-6", "route", "del", INSIDE, "dev", device])
    for kind in ("subnetpool", "address_scope"):
        for each in lab.api.list(kind):
            lab.api.delete(kind, each["id"])


def outside_device(lab: Lab) -> str:
    """The device of the machine outside with its address on the external network."""
    line = lab.run(EXTERNAL, ["ip", "-o", "-6", "address", "show", "to", MACHINE6]).stdout.splitlines()[0]
    return line.split()[1].partition("@")[0]


def test_only_proxied_addresses_are_reachable(site: Site) -> None:
    lab = site.lab
    site.settle()
    assert not can_ping(lab, EXTERNAL, site.address("one"))
    with site.proxied("one") as address:
        wait_until_reachable(lab, EXTERNAL, address)
        assert source_seen(lab, "one", EXTERNAL, MACHINE6) == address
        assert source_seen(lab, EXTERNAL, "one", address) == MACHINE6
        assert not can_ping(lab, EXTERNAL, site.address("two"))
        outside = {"source": "external", "source_address": MACHINE6, "protocol": "icmp"}
        check_arrives(lab, **outside, destination_port_id=site.guests["one"].port_id)
        hidden = trace(lab, **outside, destination_port_id=site.guests["two"].port_id)
        assert (hidden["cause"], hidden["agreement"]) == ("no-ndp-proxy", True), hidden
        with site.proxied("two") as other:
            wait_until_reachable(lab, EXTERNAL, other)
        site.settle()
        wait_until_unreachable(lab, EXTERNAL, other)
        site.settle()
    wait_until_unreachable(lab, EXTERNAL, address)


def test_a_router_that_knows_the_way_does_not_pass_the_filter(site: Site) -> None:
    """The machine outside is given the router's MAC for an address without a proxy."""
    lab, address, device = site.lab, site.address("two"), outside_device(site.lab)
    with site.proxied("one") as proxied:
        wait_until_reachable(lab, EXTERNAL, proxied)
        words = lab.run(EXTERNAL, ["ip", "-6", "neigh", "show", proxied]).stdout.split()
        mac = words[words.index("lladdr") + 1]
        lab.run(EXTERNAL, ["ip", "-6", "neigh", "replace", address, "lladdr", mac, "dev", device])
        try:
            assert not can_ping(lab, EXTERNAL, address)
            site.enable(False)
            # Without NDP proxies the router forwards what reaches it, and answers for nobody.
            wait_until_reachable(lab, EXTERNAL, address)
            lab.run(EXTERNAL, ["ip", "-6", "neigh", "flush", "dev", device])
            lab.run(EXTERNAL, ["ip", "-6", "neigh", "del", proxied, "dev", device], check=False)
            assert not can_ping(lab, EXTERNAL, proxied)
        finally:
            site.enable(True)
            lab.run(EXTERNAL, ["ip", "-6", "neigh", "del", address, "dev", device], check=False)
        wait_until_reachable(lab, EXTERNAL, proxied)


@pytest.mark.parametrize("site", ["HA"], indirect=True)
def test_the_proxies_follow_the_active_host(site: Site) -> None:
    lab = site.lab
    active = active_host(lab, site.router, among=lab.hosts)
    standby = next(host for host in lab.hosts if host != active)
    name = {"h1": "one", "h2": "two"}[standby]  # the instance that stays
    with site.proxied(name) as address:
        wait_until_reachable(lab, EXTERNAL, address)
        assert address in proxies(site, active)
        assert address not in proxies(site, standby)
        with failed_host(lab, site.router, active):
            wait_until(lambda: address in proxies(site, standby), SOON, "the new active host does not answer")
            wait_until_reachable(lab, EXTERNAL, address)
        wait_until(lambda: address not in proxies(site, active), SOON, "the host that was lost answers still")
        site.settle()


def proxies(site: Site, host: str) -> str:
    """The proxied addresses of the router on a host."""
    return in_router(site.lab, site.router, host, "ip", "-6", "neigh", "show", "proxy")
