"""QoS of floating IPs and router gateways, measured from outside: legacy, HA after a failover, distributed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Spec, make_group, make_guests
from tests.support.lab_qos import about, limited_policy, routed_rate, udp
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    SOON,
    active_host,
    external_network,
    failed_host,
    floating_ip,
    in_router,
    make_router,
    source_seen,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

CENTRAL = ("h1", "h2")
SETS = ("qos_ingress_bytes", "qos_egress_bytes")


@dataclasses.dataclass
class Site:
    """A router of each kind, with an instance that has a limited floating IP and one that has none."""

    lab: Lab
    out: Object
    routers: dict[str, Object]
    ports: dict[str, str]  # by instance
    policies: dict[str, Object]

    def public(self, name: str, policy: str) -> Object:
        return floating_ip(self.lab, self.out, self.ports[name], qos_policy_id=self.policies[policy]["id"])


def change_policy(lab: Lab, policy: Object, kbps: int) -> None:
    path = f"/v2.0/qos/policies/{policy['id']}"
    for rule in lab.api.request("GET", path)["policy"]["rules"]:
        body = {"bandwidth_limit_rule": {"max_kbps": kbps}}
        lab.api.request("PUT", f"{path}/bandwidth_limit_rules/{rule['id']}", body)


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    out = external_network(lab)
    group, _ = make_group(lab, "open", *EVERYTHING)
    kinds = {"legacy": {}, "ha": {"ha": True}, "dvr": {"distributed": True}}
    routers, specs = {}, []
    for number, (kind, attributes) in enumerate(kinds.items(), 1):
        network = tenant_network(lab, kind, number, six=False)
        given = {"ha": False, "distributed": False, **attributes}
        routers[kind] = make_router(lab, out, network, **given)
        specs += [Spec(f"{kind}-{what}", network, "h3", [group]) for what in ("public", "plain")]
    guests = {guest.name: guest for guest in make_guests(lab, *specs)}
    policies = {
        "gold": limited_policy(lab, "gold", ingress=3000, egress=6000),
        "gate": limited_policy(lab, "gate", ingress=6000, egress=3000),
    }
    for router in routers.values():
        gateway = {"network_id": out["id"], "qos_policy_id": policies["gate"]["id"]}
        lab.api.update("router", router["id"], external_gateway_info=gateway)
    for name in guests:
        wait_until_reachable(lab, name, MACHINE)
    return Site(lab, out, routers, {name: guest.port_id for name, guest in guests.items()}, policies)


# --- measuring --------------------------------------------------------------------------------------------------------


def assert_limited(measure: Callable[[], float], kbps: int) -> None:
    """Within 10 %. Measured again if it differs: the machine may have been busy for a moment."""
    about(measure, kbps)


def limits(lab: Lab, router: Object, host: str) -> set[str]:
    text = in_router(lab, router, host, "nft", "list", "table", "ip", "neutrino")
    return {name for name in SETS if name in text}


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_floating_ip_is_limited_in_both_directions_and_changed_in_place(site: Site) -> None:
    lab, fip = site.lab, site.public("legacy-public", "gold")
    address = fip["floating_ip_address"]

    def measure(*options: str) -> Callable[[], float]:
        return lambda: routed_rate(lab, EXTERNAL, "legacy-public", address, *options)

    assert_limited(measure(), 3000)
    assert_limited(measure("-R"), 6000)
    assert_limited(measure(*udp(3000)), 3000)
    assert_limited(measure(*udp(6000), "-R"), 6000)
    change_policy(lab, site.policies["gold"], 9000)
    assert_limited(measure(), 9000)
    lab.api.update("floatingip", fip["id"], qos_policy_id=None)
    wait_until(lambda: measure()() > 15_000, SOON, "the limit is still there")
    change_policy(lab, site.policies["gold"], 3000)


def test_the_gateways_limit_holds_for_instances_without_a_floating_ip(site: Site) -> None:
    lab = site.lab
    assert_limited(lambda: routed_rate(lab, "legacy-plain", EXTERNAL, MACHINE), 3000)
    assert_limited(lambda: routed_rate(lab, "legacy-plain", EXTERNAL, MACHINE, "-R"), 6000)


def test_limits_hold_after_a_failover(site: Site) -> None:
    lab, router = site.lab, site.routers["ha"]
    address = site.public("ha-public", "gold")["floating_ip_address"]
    active = active_host(lab, router, among=CENTRAL)
    (standby,) = {*CENTRAL} - {active}
    wait_until(
        lambda: limits(lab, router, standby) == {*SETS}, SOON, "the standby host does not have them before it is active"
    )
    with failed_host(lab, router, active):
        wait_until_reachable(lab, EXTERNAL, address)
        assert_limited(lambda: routed_rate(lab, EXTERNAL, "ha-public", address), 3000)
        assert_limited(lambda: routed_rate(lab, "ha-plain", EXTERNAL, MACHINE, *udp(3000)), 3000)


def test_a_distributed_router_limits_on_the_instances_host_and_where_it_has_its_snat(site: Site) -> None:
    lab, router = site.lab, site.routers["dvr"]
    address = site.public("dvr-public", "gold")["floating_ip_address"]
    assert source_seen(lab, "dvr-public", EXTERNAL, MACHINE) == address
    wait_until(lambda: limits(lab, router, "h3") == {*SETS}, SOON, "h3 does not have the limits")
    assert_limited(lambda: routed_rate(lab, EXTERNAL, "dvr-public", address), 3000)
    assert_limited(lambda: routed_rate(lab, EXTERNAL, "dvr-public", address, *udp(3000), "-R"), 3000)
    assert_limited(lambda: routed_rate(lab, "dvr-plain", EXTERNAL, MACHINE), 3000)
    wait_until_no_drift(lab, "h3")
