"""VPN on real packets: tunnels between two routers, by strongSwan, and what happens without them."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.dataplane.xfrm import has_esp
from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.processes import is_alive
from neutrino.model.objects import Object
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_trace import trace
from tests.support.routing_lab import (
    SOON,
    can_ping,
    drift_on,
    external_network,
    gateway_address,
    place_router,
    reaches,
    wait_until_reachable,
    wait_until_unreachable,
)
from tests.support.vpn_lab import CONNECTIONS, KEY, SERVICES, Site, made, make_site

HOST = "h1"
# In tcpdump's words, by whether the kernel encrypts.
ENCRYPTED = {False: "{0}.4500 > {1}.4500: UDP-encap: ESP", True: "{0} > {1}: ESP"}


@dataclasses.dataclass
class Sites:
    lab: Lab
    left: Site
    right: Site
    connections: tuple[Object, Object]

    def wait_for(self, status: str) -> None:
        self.left.wait_for(self.connections[0], status)
        self.right.wait_for(self.connections[1], status)

    @property
    def packet(self) -> dict[str, str]:
        """The request of a trace from one instance to the other."""
        (port,) = self.lab.api.list("port", fixed_ips=f"ip_address={self.left.instance}")
        return {"source_port_id": port["id"], "destination_address": self.right.instance, "protocol": "icmp"}

    def charon(self, site: Site) -> int:
        return int((self.lab.paths.host(HOST) / "vpn" / site.router["id"] / "pid").read_text())


@pytest.fixture(scope="module")
def sites(lab: Lab) -> Sites:
    out = external_network(lab)
    left, right = (make_site(lab, out, name, number, HOST) for number, name in enumerate(("left", "right"), 1))
    for site in (left, right):
        place_router(lab, site.router, HOST)
    ike = made(lab, "ikepolicies", "ikepolicy", ike_version="v2", encryption_algorithm="aes-256-gcm-16", pfs="group19")
    ipsec = made(lab, "ipsecpolicies", "ipsecpolicy", encryption_algorithm="aes-256-gcm-16", pfs="group19")
    dpd = {"action": "restart", "interval": 2, "timeout": 6}
    both = left.connect(right, ike, ipsec, dpd=dpd), right.connect(left, ike, ipsec, dpd=dpd)
    sites = Sites(lab, left, right, both)
    sites.wait_for("ACTIVE")
    return sites


def test_instances_reach_each_other_by_the_tunnel_alone(sites: Sites) -> None:
    left, right = sites.left, sites.right
    with left.wire() as wire:
        assert reaches(sites.lab, "left", right.instance)
        assert reaches(sites.lab, "right", left.instance)
        wire.wait_for(ENCRYPTED[has_esp()].format(left.external, right.external))
    assert left.instance not in wire.text
    assert right.instance not in wire.text
    assert (left.status, right.status) == ("ACTIVE", "ACTIVE")
    traced = trace(sites.lab, **sites.packet)
    assert (traced["verdict"], traced["agreement"]) == ("delivered", True), traced
    assert drift_on(sites.lab, HOST) == ""


def test_keys_are_in_no_arguments_and_in_no_file_or_log(sites: Sites) -> None:
    arguments = sites.lab.run(HOST, ["ps", "-eo", "args"]).stdout
    assert "charon" in arguments
    assert KEY not in arguments
    state = sites.lab.paths.host(HOST)
    directory = state / "vpn" / sites.left.router["id"]
    assert directory.stat().st_mode & 0o777 == 0o700
    assert not [path for path in directory.iterdir() if path.is_file() and KEY in path.read_text()]
    for log in state.parent.rglob("*.log"):
        assert KEY not in log.read_text(errors="replace")


def test_a_restart_of_the_agent_keeps_tunnels(sites: Sites) -> None:
    before = [sites.charon(site) for site in (sites.left, sites.right)]
    with Pinging(sites.lab, "left", sites.right.instance) as ping:
        sites.lab.stop_agent(HOST, kill=True)
        sites.lab.start_agent(HOST)
        wait_until(lambda: drift_on(sites.lab, HOST) == "", SOON, "drift after a restart")
    assert ping.lost == 0
    assert [sites.charon(site) for site in (sites.left, sites.right)] == before


def test_a_charon_that_dies_is_replaced(sites: Sites) -> None:
    old = sites.charon(sites.left)
    sites.lab.run(HOST, ["kill", "-9", str(old)])
    wait_until(lambda: sites.charon(sites.left) != old, SOON, "charon is not started again")
    wait_until_reachable(sites.lab, "left", sites.right.instance)
    sites.wait_for("ACTIVE")


def test_without_a_tunnel_packets_are_dropped_and_not_sent_in_clear(sites: Sites) -> None:
    left, right = sites.left, sites.right
    left.update(sites.connections[0], admin_state_up=False)
    sites.wait_for("DOWN")
    with left.wire() as wire:
        assert not can_ping(sites.lab, "left", right.instance)
        assert not can_ping(sites.lab, "right", left.instance)
        assert reaches(sites.lab, "left", "203.0.113.1")  # other packets leave, translated
        wire.wait_for("203.0.113.1: ICMP echo request")
    assert right.instance not in wire.text
    traced = trace(sites.lab, **sites.packet)
    assert (traced["verdict"], traced["cause"], traced["agreement"]) == ("dropped", "vpn-down", True), traced
    left.update(sites.connections[0], admin_state_up=True)
    wait_until_reachable(sites.lab, "left", right.instance)
    sites.wait_for("ACTIVE")


def test_both_sides_need_the_same_key(sites: Sites) -> None:
    sites.left.update(sites.connections[0], psk="another")
    sites.wait_for("DOWN")
    wait_until_unreachable(sites.lab, "left", sites.right.instance)
    sites.left.update(sites.connections[0], psk=KEY)
    sites.wait_for("ACTIVE")
    wait_until_reachable(sites.lab, "left", sites.right.instance)


def test_ipv6_by_endpoint_groups_to_a_peer_with_ipv6(sites: Sites) -> None:
    lab, pair = sites.lab, (sites.left, sites.right)
    ike, ipsec = made(lab, "ikepolicies", "ikepolicy", ike_version="v2"), made(lab, "ipsecpolicies", "ipsecpolicy")
    connections, services = [], []
    for here, there in (pair, pair[::-1]):
        service = made(lab, "vpnservices", "vpnservice", router_id=here.router["id"])
        local = made(lab, "endpoint-groups", "endpoint_group", type="subnet", endpoints=[here.subnet6["id"]])
        peer = made(lab, "endpoint-groups", "endpoint_group", type="cidr", endpoints=[there.subnet6["cidr"]])
        groups = {"local_ep_group_id": local["id"], "peer_ep_group_id": peer["id"], "peer_cidrs": []}
        outside = gateway_address(lab, there.router, 6)
        given = {"vpnservice_id": service["id"], "peer_address": outside, "peer_id": outside, **groups}
        connections.append(here.connect(there, ike, ipsec, **given))
        services.append(service)
    for site, connection in zip(pair, connections, strict=True):
        site.wait_for(connection, "ACTIVE")
    assert reaches(lab, "left", sites.right.instance6)
    assert reaches(lab, "left", sites.right.instance)  # the other tunnel stays
    for connection, service in zip(connections, services, strict=True):
        lab.api.request("DELETE", f"{CONNECTIONS}/{connection['id']}")
        lab.api.request("DELETE", f"{SERVICES}/{service['id']}")
    assert reaches(lab, "left", sites.right.instance)


def test_what_is_deleted_leaves_nothing_and_ikev1_works_too(sites: Sites) -> None:
    lab, left, right = sites.lab, sites.left, sites.right
    directory, pid = lab.paths.host(HOST) / "vpn", sites.charon(left)
    for each in sites.connections:
        lab.api.request("DELETE", f"{CONNECTIONS}/{each['id']}")
    wait_until(lambda: not list(directory.iterdir()), SOON, "directories of charon are still there")
    assert not is_alive(pid)
    assert "ipsec0" not in left.run("ip", "link")
    assert "220:" not in left.run("ip", "rule")
    assert "vpn_forward" not in left.run("nft", "list", "ruleset")
    ike, ipsec = made(lab, "ikepolicies", "ikepolicy"), made(lab, "ipsecpolicies", "ipsecpolicy")  # Neutron's defaults
    both = left.connect(right, ike, ipsec), right.connect(left, ike, ipsec, initiator="response-only")
    for site, connection in zip((left, right), both, strict=True):
        site.wait_for(connection, "ACTIVE")
    assert reaches(lab, "left", right.instance)
    for site, connection in zip((left, right), both, strict=True):
        lab.api.request("DELETE", f"{CONNECTIONS}/{connection['id']}")
        lab.api.request("DELETE", f"{SERVICES}/{site.service['id']}")
    wait_until(lambda: not list(directory.iterdir()), SOON, "directories of charon are still there")
