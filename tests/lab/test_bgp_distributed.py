"""BGP and distributed routers: an instance's address leads to its own host, and its packets leave there too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.dvr_lab import namespaces
from tests.support.frr_peer import SOON, FrrPeer, frr_peer
from tests.support.lab import address, open_group
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.lab_trace import trace
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    attach,
    drift_on,
    floating_ip,
    gateway_address,
    host_of,
    in_router,
    make_router,
    source_seen,
    wait_until_reachable,
)

LOCAL_AS, REMOTE_AS, PASSWORD = 64512, 65000, "secret"
ADDRESSES = {"h1": "203.0.113.8", "h2": "203.0.113.9"}  # of the hosts, on the network of their peer
LAB = LabKind(
    hosts=2,
    roles=("l2", "l3", "bgp"),
    agent="""
[DEFAULT]
agent_mode = dvr_snat
[agent]
repair_interval = 2
enable_distributed_routing = true
[bgp]
connect_retry = 1
""",
)


@dataclasses.dataclass
class Site:
    lab: Lab
    peer: FrrPeer
    speaker: Object
    router: Object
    out: Object
    subnet: Object
    central: str  # the host of the router's SNAT
    away: str  # the host of the instance

    @property
    def prefix(self) -> dict[str, str]:
        return {self.subnet["cidr"]: gateway_address(self.lab, self.router)}

    def own_address(self, host: str) -> str:
        """The host's own address on the external network, once it has one."""
        found: list[str] = []

        def has_one() -> bool:
            ports = self.lab.api.list("port", device_owner="network:floatingip_agent_gateway")
            found[:] = [p["fixed_ips"][0]["ip_address"] for p in ports if p["binding:host_id"] == host]
            return bool(found)

        wait_until(has_one, SOON, f"{host} has no port of its own outside")
        return found[0]


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    for host, own in ADDRESSES.items():
        lab.run(host, ["ip", "address", "add", f"{own}/24", "dev", "br-ex"])
        lab.run(host, ["ip", "link", "set", "br-ex", "up"])
    api = lab.api
    scope = api.create("address_scope", name="global", ip_version=4)
    values = {"address_scope_id": scope["id"], "default_prefixlen": 24}
    outside, tenants = (
        api.create("subnetpool", name=prefix, prefixes=[prefix], **values)
        for prefix in ("203.0.113.0/24", "10.64.0.0/16")
    )
    provider = {"provider:network_type": "flat", "provider:physical_network": "external", "router:external": True}
    out, inside = api.create("network", name="out", **provider), api.create("network", name="inside")
    usable = [{"start": "203.0.113.10", "end": "203.0.113.250"}]
    given = {"cidr": "203.0.113.0/24", "gateway_ip": MACHINE, "allocation_pools": usable}
    both = {"ip_version": 4, "enable_dhcp": False}
    api.create("subnet", network_id=out["id"], subnetpool_id=outside["id"], **given, **both)
    subnet = api.create("subnet", network_id=inside["id"], subnetpool_id=tenants["id"], **both)
    router = make_router(lab, out, distributed=True)
    attach(lab, router, subnet)
    central = host_of(lab, router)
    (away,) = ADDRESSES.keys() - {central}
    lab.vm("a", network=inside["id"], host=away, security_groups=[open_group(lab)])
    peer = api.create("bgp_peer", name="p", peer_ip=MACHINE, remote_as=REMOTE_AS, auth_type="md5", password=PASSWORD)
    speaker = api.create("bgp_speaker", name="s", local_as=LOCAL_AS, ip_version=4)
    with frr_peer(lab, EXTERNAL, REMOTE_AS, ADDRESSES.values(), LOCAL_AS, PASSWORD) as frr:
        made = Site(lab, frr, speaker, router, out, subnet, central, away)
        for action, body in (
            ("add_gateway_network", {"network_id": out["id"]}),
            ("add_bgp_peer", {"bgp_peer_id": peer["id"]}),
        ):
            api.request("PUT", f"/v2.0/bgp-speakers/{speaker['id']}/{action}", body)
        yield made


def test_packets_pass_the_instances_own_host_in_both_directions(site: Site) -> None:
    lab, fixed = site.lab, address(site.lab, "a")
    own = site.own_address(site.away)
    site.peer.wait_for_routes(site.prefix | {f"{fixed}/32": own})
    wait_until_reachable(lab, EXTERNAL, fixed)
    with lab.capture(site.away, "icmp", "external") as here, lab.capture(site.central, "icmp", "external") as there:
        wait_until_reachable(lab, EXTERNAL, fixed)
        here.wait_for("echo reply")
    assert "echo" not in there.text, "nothing passes the host of the SNAT"
    # Untranslated, also from inside.
    assert source_seen(lab, "a", EXTERNAL, MACHINE) == fixed
    assert source_seen(lab, EXTERNAL, "a", fixed) == MACHINE
    for host in lab.hosts:
        assert drift_on(lab, host) == ""


def test_a_trace_follows_the_packet(site: Site) -> None:
    """Computed, and observed on the hosts: it differs if they do."""
    (port,) = (each for each in site.lab.api.list("port") if each["device_owner"].startswith("compute:"))
    made = trace(site.lab, source_port_id=port["id"], destination_address=MACHINE, protocol="icmp")
    assert (made["verdict"], made["cause"]) == ("delivered", ""), made["summary"]
    assert any("announced by BGP" in step["text"] for step in made["steps"]), made["steps"]


def test_a_floating_ip_of_the_instance_is_translated_beside_it(site: Site) -> None:
    lab, fixed = site.lab, address(site.lab, "a")
    (port,) = (each for each in lab.api.list("port") if each["device_owner"].startswith("compute:"))
    floating = floating_ip(lab, site.out, port["id"])
    public, own = floating["floating_ip_address"], site.own_address(site.away)
    site.peer.wait_for_routes(site.prefix | {f"{fixed}/32": own, f"{public}/32": own})
    wait_until_reachable(lab, EXTERNAL, public)
    assert source_seen(lab, "a", EXTERNAL, MACHINE) == public
    assert source_seen(lab, EXTERNAL, "a", fixed) == MACHINE
    lab.api.delete("floatingip", floating["id"])
    site.peer.wait_for_routes(site.prefix | {f"{fixed}/32": own})
    wait_until_reachable(lab, EXTERNAL, fixed)


def test_without_the_speaker_packets_pass_the_snat_again(site: Site) -> None:
    lab, fixed = site.lab, address(site.lab, "a")
    body = {"network_id": site.out["id"]}
    lab.api.request("PUT", f"/v2.0/bgp-speakers/{site.speaker['id']}/remove_gateway_network", body)
    site.peer.wait_for_routes({})
    wait_until(lambda: namespaces(lab, site.away, "fip-") == [], SOON, "the host still has its own way outside")
    assert "rfp-" not in in_router(lab, site.router, site.away, "ip", "-o", "link")
    lab.run(EXTERNAL, ["ip", "route", "add", f"{fixed}/32", "via", gateway_address(lab, site.router)])
    wait_until_reachable(lab, EXTERNAL, fixed)
