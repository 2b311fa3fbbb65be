"""Address scopes on real packets: what routers of each kind forward, between networks and to the outside, in both versions.

Three networks behind one router: `same` is in the scope of the network outside, `other` in another, `plain` in none.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import pytest

from neutrino.model.objects import Object
from tests.support.addresses import pool
from tests.support.lab import wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    MACHINE6,
    SOON,
    can_ping,
    floating_ip,
    gateway_address,
    make_router,
    reaches,
    source_seen,
    wait_until_no_drift,
)

KINDS: dict[str, dict[str, Any]] = {
    "centralized": {},
    "HA": {"ha": True},
    "distributed": {"distributed": True},
}
OUT = {4: "203.0.113.0/24", 6: "2001:db8:203:113::/64"}
NETWORKS = {"same": 1, "other": 2, "plain": 3}
AT = {4: MACHINE, 6: MACHINE6}


def cidrs(name: str) -> dict[int, str]:
    number = NETWORKS[name]
    return {4: f"10.0.{number}.0/24", 6: f"fd00:{number}::/64"}


@dataclasses.dataclass
class Site:
    lab: Lab
    out: Object
    router: Object
    guests: dict[str, Guest]

    def gateway(self, version: int = 4) -> str:
        return gateway_address(self.lab, self.router, version)

    def address(self, name: str, version: int) -> str:
        return self.guests[name].addresses[version]

    def goes_out(self, name: str, version: int) -> bool:
        return can_ping(self.lab, name, AT[version])

    def comes_in(self, name: str, version: int) -> bool:
        return can_ping(self.lab, EXTERNAL, self.address(name, version))

    def translate(self, enable: bool) -> None:
        info = {"network_id": self.out["id"], "enable_snat": enable}
        self.lab.api.update("router", self.router["id"], external_gateway_info=info)


def scoped(lab: Lab, name: str, version: int, *prefixes: str) -> str:
    """A pool of these prefixes in a scope of that name; the pool's id."""
    scope = lab.api.create("address_scope", name=name, ip_version=version)
    made = lab.api.create("subnetpool", name=name, prefixes=list(prefixes), address_scope_id=scope["id"])
    return str(made["id"])


def make_outside(lab: Lab, pools: dict[int, str]) -> Object:
    provider = {"provider:network_type": "flat", "provider:physical_network": "external"}
    made = lab.api.create("network", name="outside", **provider, **{"router:external": True})
    for version, cidr in OUT.items():
        values = {"gateway_ip": AT[version], "cidr": cidr, "ip_version": version, "subnetpool_id": pools[version]}
        if version == 4:
            values["allocation_pools"] = [{"start": "203.0.113.10", "end": "203.0.113.250"}]  # type: ignore[assignment]
        lab.api.create("subnet", network_id=made["id"], enable_dhcp=False, **values)
    return made


def make_inside(lab: Lab, name: str, pools: dict[int, str]) -> Object:
    made = lab.api.create("network", name=name)
    subnets = {}
    for version, cidr in cidrs(name).items():
        from_pool = {"subnetpool_id": pools[version]} if pools else {}
        values = {"cidr": cidr, "ip_version": version, **(pool(cidr) if version == 4 else {}), **from_pool}
        subnets[version] = lab.api.create("subnet", network_id=made["id"], **values)
    return {**made, "by_version": subnets}


@pytest.fixture(scope="module", params=KINDS)
def site(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Site]:
    with cleaned(lab):
        wide = {
            version: scoped(lab, f"wide{version}", version, OUT[version], cidrs("same")[version]) for version in OUT
        }
        narrow = {version: scoped(lab, f"narrow{version}", version, cidrs("other")[version]) for version in OUT}
        out = make_outside(lab, wide)
        pools = {"same": wide, "other": narrow, "plain": {}}
        networks = {name: make_inside(lab, name, pools[name]) for name in NETWORKS}
        router = make_router(lab, out, *networks.values(), **KINDS[request.param])
        group, _ = make_group(lab, "open", *EVERYTHING)
        hosts = {"same": "h1", "other": "h2", "plain": "h1"}
        guests = make_guests(lab, *(Spec(name, networks[name], hosts[name], [group]) for name in NETWORKS))
        made = Site(lab, out, router, {guest.name: guest for guest in guests})
        with known_outside(made):
            wait_until(lambda: made.goes_out("same", 4) and made.goes_out("same", 6), SOON, "nobody is let out")
            yield made
    for kind in ("subnetpool", "address_scope"):
        for each in lab.api.list(kind):
            lab.api.delete(kind, each["id"])


@contextlib.contextmanager
def known_outside(site: Site) -> Iterator[None]:
    """The machine outside has routes to all networks, so only the router can drop the packets."""
    prefixes = [(version, prefix) for name in NETWORKS for version, prefix in cidrs(name).items()]
    for version, prefix in prefixes:
        site.lab.run(EXTERNAL, ["ip", "route", "add", prefix, "via", site.gateway(version)])
    try:
        yield
    finally:
        for _, prefix in prefixes:
            site.lab.run(EXTERNAL, ["ip", "route", "del", prefix])


def test_nothing_is_forwarded_from_scope_to_scope(site: Site) -> None:
    pairs = [(source, target, version) for source, target in permutations(NETWORKS, 2) for version in (4, 6)]
    with ThreadPoolExecutor(len(pairs)) as threads:
        found = threads.map(lambda each: can_ping(site.lab, each[0], site.address(each[1], each[2])), pairs)
        assert [pair for pair, reached in zip(pairs, found, strict=True) if reached] == []


def test_to_the_outside_and_from_it(site: Site) -> None:
    """By IPv4 `same` is routed and all others translated; by IPv6 nobody is translated, and only `same` passes."""
    lab = site.lab
    assert source_seen(lab, "same", EXTERNAL, MACHINE) == site.address("same", 4)
    assert source_seen(lab, "same", EXTERNAL, MACHINE6) == site.address("same", 6)
    assert [name for name in NETWORKS for version in (4, 6) if site.comes_in(name, version)] == ["same", "same"]
    for name in ("other", "plain"):
        assert source_seen(lab, name, EXTERNAL, MACHINE) == site.gateway()
        assert not site.goes_out(name, 6)


def test_a_floating_ip_leads_into_any_scope(site: Site) -> None:
    lab = site.lab
    fip = floating_ip(lab, site.out, site.guests["other"].port_id)
    address = fip["floating_ip_address"]
    assert source_seen(lab, EXTERNAL, "other", address) == MACHINE
    assert source_seen(lab, "other", EXTERNAL, MACHINE) == address
    assert reaches(lab, "plain", address)
    assert not can_ping(lab, "plain", site.address("other", 4))
    lab.api.delete("floatingip", fip["id"])


def test_without_translation_only_the_same_scope_and_floating_ips_pass(site: Site) -> None:
    lab = site.lab
    site.translate(False)
    try:
        wait_until(lambda: not site.goes_out("plain", 4), SOON, "it passes, though it is not translated")
        assert not site.goes_out("other", 4)
        assert source_seen(lab, "same", EXTERNAL, MACHINE) == site.address("same", 4)
        fip = floating_ip(lab, site.out, site.guests["other"].port_id)
        assert source_seen(lab, "other", EXTERNAL, MACHINE) == fip["floating_ip_address"]
        assert not site.goes_out("plain", 4)
        lab.api.delete("floatingip", fip["id"])
    finally:
        site.translate(True)
    wait_until(lambda: site.goes_out("plain", 4), SOON, "it is not translated again")
    for host in lab.hosts:
        wait_until_no_drift(lab, host)
