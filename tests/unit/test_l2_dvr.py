"""Distributed routers on the bridges: one MAC on every host, and never between them."""

from __future__ import annotations

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.dataplane.openflow.api import DatapathFeatures
from neutrino.model import state
from neutrino.model.addresses import link_local
from tests.fakes import packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

NETWORKS = [
    network("net", "vlan", 205, "physnet1"),
    network("net", "flat", 0, "physnet1"),
    network("net", "vxlan", 70000),
    network("net", "geneve", 10),
]
HOSTS = ("h1", "h2", "h3")
GATEWAY = mac(254)
GATEWAY_IP = "10.0.0.254"
MACS = {host: f"fa:16:3f:00:00:{number:02x}" for number, host in enumerate(HOSTS, 1)}


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def routed(source: str) -> tuple[str, str]:
    """Under the router's MAC, from another subnet."""
    return GATEWAY, source


def gateway(host: str) -> state.Port:
    return port(f"gw-{host}", 254, host=host, device_owner="network:router_interface_distributed", distributed=True)


def cloud(net: state.Network, features: DatapathFeatures | None = None) -> Cloud:
    made = Cloud(*HOSTS, options=L2Options(distributed=True), features=features)
    macs = [state.DvrMac(id=host, mac_address=MACS[host]) for host in HOSTS]
    ports = [port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2)]
    made.apply(net, OPEN, *macs, *ports, gateway("h1"), gateway("h2"))
    return made


@pytest.fixture(params=NETWORKS, ids=lambda net: net.segments[0].network_type)
def net(request: pytest.FixtureRequest) -> state.Network:
    return request.param  # type: ignore[no-any-return]


def test_routed_packets_leave_with_the_hosts_mac_and_arrive_with_the_routers(net: state.Network) -> None:
    hosts = cloud(net)
    sent = packet.tcp(routed("10.0.9.9"), end(2), 80)
    (left,) = hosts.on_wire("h1", "gw-h1", sent)
    assert left.packet["eth_src"] == MACS["h1"]
    assert hosts.send("h1", "gw-h1", sent) == {"p2": sent}


@pytest.mark.parametrize("nd_extension", [True, False])
def test_requests_for_the_router_are_answered_on_the_same_host(net: state.Network, nd_extension: bool) -> None:
    hosts = cloud(net, DatapathFeatures(nd_extension))
    asked = packet.arp_request(mac(1), "10.0.0.1", GATEWAY_IP)
    assert set(hosts.send("h1", "p1", asked)) == {"gw-h1"}
    for target in ("2001:db8::fe", str(link_local(GATEWAY))):
        solicited = packet.neighbour(135, (mac(1), "2001:db8::1"), ("33:33:ff:00:00:fe", "ff02::1:ff00:fe"), target)
        assert set(hosts.send("h1", "p1", solicited)) == {"gw-h1"}


def test_packets_to_the_router_and_its_announcements_stay(net: state.Network) -> None:
    hosts = cloud(net)
    inward = packet.tcp(end(1), (GATEWAY, "10.0.9.9"), 80)
    assert hosts.send("h1", "p1", inward) == {"gw-h1": inward}
    announced = packet.arp_request(GATEWAY, GATEWAY_IP, GATEWAY_IP)
    assert hosts.on_wire("h1", "gw-h1", announced) == []


def test_packets_between_instances_are_not_rewritten(net: state.Network) -> None:
    hosts = cloud(net)
    sent = packet.udp(end(1), end(2), 53)
    assert hosts.send("h1", "p1", sent) == {"p2": sent}
    (left,) = hosts.on_wire("h1", "p1", sent)
    assert left.packet["eth_src"] == mac(1)


def test_without_a_dvr_mac_nothing_leaves_with_the_routers_mac(net: state.Network) -> None:
    hosts = Cloud(*HOSTS, options=L2Options(distributed=True))
    hosts.apply(net, OPEN, port("p2", 2, host="h2", groups=["open"]), gateway("h1"), gateway("h2"))
    assert hosts.on_wire("h1", "gw-h1", packet.tcp(routed("10.0.9.9"), end(2), 80)) == []


def test_a_host_that_does_not_take_part_has_no_flows_for_it() -> None:
    hosts = Cloud("h1")
    hosts.apply(NETWORKS[2], state.DvrMac(id="h1", mac_address=MACS["h1"]), port("p1", 1, groups=["open"]))
    rendered = hosts.hosts["h1"].renderer.render(hosts.hosts["h1"].desired)  # type: ignore[arg-type]
    assert not [flow for flows in rendered.flows.values() for flow in flows.values() if MACS["h1"] in flow.text()]


def test_a_second_plan_is_empty(net: state.Network) -> None:
    hosts = cloud(net)
    for host in hosts.hosts.values():
        assert host.desired is not None
        assert not any(host.plans(host.desired))
