"""A routed network: two segments on two hosts, and a router of the operator's between them, which is no part of the cloud.

The hosts are on different physical networks: `rack1` is the lab's provider network, and `rack2` its external one. The
router is the namespace of the fabric, which has the bridges of both.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from neutrino.lab.hosts.namespaces import in_host, ip_batch, write_sysctls
from neutrino.lab.settings import FABRIC
from neutrino.model.objects import Object
from tests.support.lab import address, open_group, pings, port, temporary_lab, wait_until
from tests.support.lab_control import Lab, dhcp_options
from tests.support.lab_dhcp import addresses, pid, servers
from tests.support.lab_trace import trace
from tests.support.routing_lab import (
    delete_router,
    floating_ip,
    gateway_address,
    make_router,
    tenant_network,
    wait_until_reachable,
)

MAPPINGS = {"h1": "rack1:br-provider", "h2": "rack2:br-ex", "h3": "rack2:br-ex"}
GATEWAYS = {"provider": "10.1.0.1", "external": "10.2.0.1"}  # by the bridge of the fabric


@pytest.fixture(scope="module")
def module_lab() -> Iterator[Lab]:
    with temporary_lab(hosts=3, roles=("l2", "dhcp", "l3")) as lab:
        for host, mappings in MAPPINGS.items():
            lab.stop_agent(host)
            lab.start_agent(host, {"ovs": {"bridge_mappings": mappings}, "DEFAULT": {"dhcp_distributed": True}})
        in_host(lab.holder(FABRIC), build_router)
        yield lab


def build_router() -> None:
    ip_batch([f"address add {gateway}/24 dev {bridge}" for bridge, gateway in GATEWAYS.items()])
    write_sysctls({"ipv4/ip_forward": 1})


@dataclass(frozen=True)
class Routed:
    lab: Lab
    network: Object
    subnets: list[Object]  # by rack


@pytest.fixture(scope="module")
def module_routed(module_lab: Lab) -> Routed:
    lab = module_lab
    open_group(lab)
    provider = {"provider:network_type": "flat", "provider:physical_network": "rack1"}
    network = lab.api.create("network", name="racks", **provider)
    lab.api.create("segment", network_id=network["id"], network_type="flat", physical_network="rack2")
    segments = {one["physical_network"]: one["id"] for one in lab.api.list("segment", network_id=network["id"])}
    subnets = [
        lab.api.create(
            "subnet",
            network_id=network["id"],
            ip_version=4,
            cidr=f"10.{number}.0.0/24",
            gateway_ip=gateway,
            segment_id=segments[f"rack{number}"],
        )
        for number, gateway in enumerate(GATEWAYS.values(), 1)
    ]
    wait_until(lambda: len(servers(lab, network["id"])) == 2, 60, "not every segment is served")
    return Routed(lab, network, subnets)


@pytest.fixture
def routed(module_routed: Routed) -> Iterator[Routed]:
    yield module_routed
    lab = module_routed.lab
    for one in lab.vms.all():
        lab.delete_vm(one.name)


def vm(routed: Routed, name: str, host: str, **options: Any) -> None:
    given = {"network": "racks"} if "port" not in options else {}
    routed.lab.vm(name, host=host, **given, **({"security_groups": ["open"]} if given else {}), **options)


def test_machines_of_two_segments_reach_each_other_through_the_router(routed: Routed) -> None:
    lab = routed.lab
    for name, host in (("a", "h1"), ("b", "h2"), ("c", "h3")):
        vm(routed, name, host)
    assert addresses(lab, "a") == {f"{address(lab, 'a')}/24"}  # a lease
    assert [address(lab, name).split(".")[1] for name in ("a", "b", "c")] == ["1", "2", "2"]
    assert pings(lab, "a", address(lab, "b"))
    assert pings(lab, "b", address(lab, "a"))
    assert pings(lab, "b", address(lab, "c"))
    route = lab.run("a", ["ip", "route", "get", address(lab, "b")]).stdout
    assert "via 10.1.0.1" in route
    neighbour = lab.run("b", ["ip", "route", "get", address(lab, "c")]).stdout
    assert "via" not in neighbour


def test_each_segment_has_its_own_dhcp_server(routed: Routed) -> None:
    lab = routed.lab
    served = {one["binding:host_id"]: one["fixed_ips"] for one in servers(lab, routed.network["id"])}
    assert set(served) in ({"h1", "h2"}, {"h1", "h3"})
    for name, host, number in (("a", "h1", 0), ("b", "h3", 1)):
        vm(routed, name, host)
        lease = dhcp_options(lab.dhcp(name))
        own = next(ips for ips in served.values() if ips[0]["subnet_id"] == routed.subnets[number]["id"])
        assert lease["new_dhcp_server_identifier"] == own[0]["ip_address"]
        assert lease["new_routers"] == routed.subnets[number]["gateway_ip"]
        # The route to the other segment, by the gateway: 24.10.N.0 and the gateway, then the default route.
        peer = routed.subnets[1 - number]["cidr"].split(".")[1]
        assert f"24 10 {peer} 0" in lease["new_rfc3442_classless_static_routes"].replace(".", " ")


def test_a_host_serves_its_own_ports_while_the_scheduled_one_is_lost(routed: Routed) -> None:
    lab, network_id = routed.lab, routed.network["id"]
    (home,) = {one["binding:host_id"] for one in servers(lab, network_id)} - {"h1"}
    (away,) = {"h2", "h3"} - {home}
    vm(routed, "a", away)
    process = pid(lab, away, network_id)
    assert process
    lab.stop_ovs(home)
    vm(routed, "b", away)  # and waits for its lease
    lab.start_ovs(home)
    for name in ("a", "b"):
        lease = dhcp_options(lab.dhcp(name))
        (own,) = (one for one in servers(lab, network_id) if one["binding:host_id"] == home)
        assert lease["new_dhcp_server_identifier"] == own["fixed_ips"][0]["ip_address"]
        assert lease["new_routers"] == routed.subnets[1]["gateway_ip"]
    assert pid(lab, away, network_id) == process
    assert pings(lab, "a", address(lab, "b"))
    for name in ("a", "b"):
        lab.delete_vm(name)
    wait_until(lambda: pid(lab, away, network_id) == 0, 60, "DHCP does not go with the last port")


def test_a_port_gets_its_address_with_its_host(routed: Routed) -> None:
    lab = routed.lab
    group = lab.api.list("security_group", name="open")[0]["id"]
    waiting = lab.api.create("port", network_id=routed.network["id"], security_groups=[group])
    assert (waiting["fixed_ips"], waiting["ip_allocation"]) == ([], "deferred")
    vm(routed, "late", "h2", port=waiting["id"])
    vm(routed, "a", "h1")
    assert address(lab, "late").startswith("10.2.0.")
    assert port(lab, "late")["status"] == "ACTIVE"
    assert pings(lab, "a", address(lab, "late"))


def test_a_trace_ends_at_the_router_outside(routed: Routed) -> None:
    """The server knows the way to it, by the segment of the sender's host, and not what it does with the packet."""
    lab = routed.lab
    for name, host, target, rack in (("a", "h1", "10.2.0.9", "rack1"), ("b", "h2", "10.1.0.9", "rack2")):
        vm(routed, name, host)
        found = trace(lab, source_port_id=port(lab, name)["id"], destination_address=target, protocol="icmp")
        assert found["verdict"] == "unknown", found["summary"]
        assert any(f"leaves host {host} by physical network {rack}" in step["text"] for step in found["steps"])
        assert found["agreement"], found["differences"]


# --- distributed routers ----------------------------------------------------------------------------------------------


def test_floating_ips_of_a_routed_network_are_on_the_segments_of_their_hosts(routed: Routed) -> None:
    """Each host reaches the outside by the segment that it is on, and so does the host of the SNAT."""
    lab, out = routed.lab, routed.network
    lab.api.update("network", out["id"], **{"router:external": True})
    blue = tenant_network(lab, "blue", 8, six=False)
    router = make_router(lab, out, blue, distributed=True)
    floating = {}
    for name, host, rack in (("f1", "h1", 1), ("f3", "h3", 2), ("plain", "h2", 0)):
        lab.vm(name, network="blue", host=host, security_groups=["open"])
        if rack:
            subnet = {"subnet_id": routed.subnets[rack - 1]["id"]}
            floating[rack] = floating_ip(lab, out, port(lab, name)["id"], **subnet)["floating_ip_address"]
    for name, rack in (("f1", 1), ("f3", 2)):
        assert floating[rack].startswith(f"10.{rack}.0.")
        wait_until_reachable(lab, name, f"10.{rack}.0.1")
        assert in_host(lab.holder(FABRIC), partial(is_answered, floating[rack])), name
    agents = lab.api.list("port", device_owner="network:floatingip_agent_gateway")
    assert {one["binding:host_id"]: one["fixed_ips"][0]["ip_address"].split(".")[1] for one in agents} == {
        "h1": "1",
        "h3": "2",
    }
    (gateway,) = lab.api.list("port", device_id=router["id"], device_owner="network:router_gateway")
    snat = gateway["binding:host_id"]
    outside = "10.1.0." if snat == "h1" else "10.2.0."
    assert gateway_address(lab, router).startswith(outside)
    wait_until_reachable(lab, "plain", f"{outside}1")
    for one in lab.api.list("floatingip"):
        lab.api.delete("floatingip", one["id"])
    delete_router(lab, router["id"])


def test_a_distributed_router_is_on_each_hosts_segment_of_a_network(routed: Routed) -> None:
    """A network with one subnet on the segments of two racks, which the operator's switches join."""
    lab = routed.lab
    for one in lab.vms.all():
        lab.delete_vm(one.name)
    for left in lab.api.list("port", network_id=routed.network["id"]):
        if not left["device_owner"].startswith("network:"):  # a test has made it
            lab.api.delete("port", left["id"])
    lab.api.delete("network", routed.network["id"])
    in_host(lab.holder(FABRIC), join_racks)
    provider = {"provider:network_type": "flat", "provider:physical_network": "rack1"}
    wide = tenant_network(lab, "wide", 9, six=False, **provider)
    lab.api.create("segment", network_id=wide["id"], network_type="flat", physical_network="rack2")
    green = tenant_network(lab, "green", 7, six=False)
    router = make_router(lab, None, wide, green, distributed=True)
    for name, host in (("w1", "h1"), ("w2", "h2"), ("w3", "h3")):
        lab.vm(name, network="wide", host=host, security_groups=["open"])
    for name, host in (("g1", "h1"), ("g2", "h2")):
        lab.vm(name, network="green", host=host, security_groups=["open"])
    assert pings(lab, "w1", address(lab, "w3")), "the racks are not joined"
    for sender, receiver in (("g1", "w1"), ("g2", "w2"), ("g2", "w3"), ("g1", "w2"), ("w1", "g2"), ("w3", "g1")):
        wait_until_reachable(lab, sender, address(lab, receiver))
    interface = next(p for p in lab.api.list("port", device_id=router["id"]) if p["network_id"] == wide["id"])
    assert lab.api.show("port", interface["id"])["status"] == "ACTIVE"


def is_answered(target: str) -> bool:
    return subprocess.run(["ping", "-q", "-c1", "-w10", target], stdout=subprocess.DEVNULL, check=False).returncode == 0


def join_racks() -> None:
    ip_batch(
        [
            "link add join1 type veth peer name join2",
            *(f"link set join{number} master {bridge} up" for number, bridge in enumerate(GATEWAYS, 1)),
        ]
    )
