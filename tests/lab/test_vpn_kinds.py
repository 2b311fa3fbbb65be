"""VPN of HA and distributed routers: tunnels end where the gateway is, and follow a failover."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_trace import trace
from tests.support.routing_lab import (
    active_host,
    external_network,
    failed_host,
    floating_ip,
    place_router,
    reaches,
    wait_until_no_drift,
    wait_until_reachable,
)
from tests.support.vpn_lab import Site, made, make_site

HOSTS = ("h1", "h2")


@dataclasses.dataclass
class Sites:
    lab: Lab
    ha: Site
    distributed: Site
    central: Site
    active: str  # host of the HA router
    connections: dict[str, Object]


@pytest.fixture(scope="module")
def sites(lab: Lab) -> Sites:
    out = external_network(lab)

    def standby(router: Object) -> str:
        """Instances are on the host that stays."""
        (found,) = set(HOSTS) - {active_host(lab, router, among=HOSTS)}
        return found

    ha = make_site(lab, out, "ha", 1, standby, ha=True)
    (active,), other = set(HOSTS) - {ha.host}, ha.host
    central = make_site(lab, out, "central", 2, other, ha=False, distributed=False)
    place_router(lab, central.router, other)
    distributed = make_site(lab, out, "dvr", 3, other, ha=False, distributed=True)
    ike, ipsec = made(lab, "ikepolicies", "ikepolicy", ike_version="v2"), made(lab, "ipsecpolicies", "ipsecpolicy")
    quiet = {"initiator": "response-only", "dpd": {"action": "clear", "interval": 2, "timeout": 6}}
    for each in (ha, distributed):
        central.connect(each, ike, ipsec, **quiet)
    connections = {each.name: each.connect(central, ike, ipsec) for each in (ha, distributed)}
    return Sites(lab, ha, distributed, central, active, connections)


def test_tunnels_of_an_ha_router_are_on_its_active_host(sites: Sites) -> None:
    sites.ha.wait_for(sites.connections["ha"], "ACTIVE")
    assert reaches(sites.lab, "ha", sites.central.instance)
    assert reaches(sites.lab, "central", sites.ha.instance)
    having = [host for host in HOSTS if (sites.lab.paths.host(host) / "vpn" / sites.ha.router["id"]).exists()]
    assert having == [sites.active]


def test_tunnels_of_a_distributed_router_end_in_its_snat(sites: Sites) -> None:
    sites.distributed.wait_for(sites.connections["dvr"], "ACTIVE")
    assert reaches(sites.lab, "dvr", sites.central.instance)
    assert reaches(sites.lab, "central", sites.distributed.instance)
    for host in HOSTS:
        wait_until_no_drift(sites.lab, host)


def test_an_instance_with_a_floating_ip_of_a_distributed_router_reaches_peers(sites: Sites) -> None:
    lab, instance = sites.lab, sites.distributed.instance
    (port,) = lab.api.list("port", fixed_ips=f"ip_address={instance}")
    (out,) = lab.api.list("network", **{"router:external": True})
    public = floating_ip(lab, out, port["id"])["floating_ip_address"]
    wait_until_reachable(lab, "central", public)  # not by the tunnel
    assert reaches(lab, "dvr", sites.central.instance)
    assert reaches(lab, "central", instance)
    traced = trace(lab, source_port_id=port["id"], destination_address=sites.central.instance, protocol="icmp")
    assert (traced["verdict"], traced["agreement"]) == ("delivered", True), traced
    for host in HOSTS:
        wait_until_no_drift(lab, host)


def test_a_failover_sets_tunnels_up_on_the_next_host(sites: Sites) -> None:
    with failed_host(sites.lab, sites.ha.router, sites.active):
        wait_until_reachable(sites.lab, "ha", sites.central.instance, timeout=90.0)
        sites.ha.wait_for(sites.connections["ha"], "ACTIVE")
