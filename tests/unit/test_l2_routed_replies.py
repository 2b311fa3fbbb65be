"""Replies between subnets of a distributed router with firewall groups: what the switch marks for the router."""

from __future__ import annotations

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extensions.routed_replies import ZONES
from neutrino.agent.reply_mac import REPLY_MAC, UNKNOWN_MAC
from neutrino.model import state
from neutrino.model.routing import Router, RouterInterface
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

HOSTS = ("h1", "h2")
MACS = {host: f"fa:16:3f:00:00:{number:02x}" for number, host in enumerate(HOSTS, 1)}
BLUE, RED = (mac(251), "10.0.1"), (mac(252), "10.0.2")
KINDS = {
    "vxlan": (network("blue", "vxlan", 10), network("red", "vxlan", 20)),
    "geneve": (network("blue", "geneve", 10), network("red", "geneve", 20)),
    "vlan": (network("blue", "vlan", 10, "physnet1"), network("red", "vlan", 20, "physnet1")),
    "flat and vxlan": (network("blue", "flat", 0, "physnet1"), network("red", "vxlan", 20)),
}
PROTOCOLS = ["tcp", "udp", "icmp", "sctp", "gre"]


def addressed(name: str, number: int, net: str, host: str, **values: object) -> state.Port:
    prefix = {"blue": BLUE, "red": RED}[net][1]
    fixed = (state.FixedIp(net, f"{prefix}.{number}"), state.FixedIp(f"{net}6", address(net, number, 6)))
    return port(name, number, net, host, groups=["open"], fixed_ips=fixed, **values)


def address(net: str, number: int, version: int = 4) -> str:
    place = {"blue": 1, "red": 2}[net]
    return f"10.0.{place}.{number}" if version == 4 else f"fd00:{place}::{number:x}"


def gateways(host: str) -> tuple[state.Port, ...]:
    values = {"device_owner": "network:router_interface_distributed", "distributed": True, "device_id": "r1"}
    return (
        addressed(f"gw-blue-{host}", 251, "blue", host, **values),
        addressed(f"gw-red-{host}", 252, "red", host, **values),
    )


def router(host: str, group_id: str = "group", **values: object) -> Router:
    """As a host gets it. The group is on the blue port alone."""
    interfaces = (
        RouterInterface(
            id=f"gw-blue-{host}", network_id="blue", mac_address=BLUE[0], firewall_group_id=group_id, addresses=()
        ),
        RouterInterface(id=f"gw-red-{host}", network_id="red", mac_address=RED[0]),
    )
    return Router(**{"id": "r1", "distributed": True, "interfaces": interfaces, **values})  # type: ignore[arg-type]


class Net:
    """`b` on the blue network, on h1; `r` on the red one, on h2 or h1. Packets are routed as the router would."""

    def __init__(self, kind: str = "vxlan", red_host: str = "h2", **values: object) -> None:
        self.cloud = Cloud(*HOSTS, options=L2Options(distributed=True))
        self.hosts = {"b": "h1", "r": red_host}
        self._kind, self._red_host = kind, red_host
        self.apply(**values)

    def apply(self, *more: state.Object, **values: object) -> None:
        self._objects = (
            *(*KINDS[self._kind], OPEN, *(state.DvrMac(id=host, mac_address=MACS[host]) for host in HOSTS)),
            *(addressed("b", 1, "blue", "h1"), addressed("r", 2, "red", self._red_host)),
            *(each for host in HOSTS for each in gateways(host)),
        )
        for name, host in self.cloud.hosts.items():
            host.apply(self.cloud.state_for(name, (*self._objects, *more, router(name, **values))))  # type: ignore[arg-type]
            assert host.desired is not None
            assert not any(host.plans(host.desired)), "a second plan is not empty"

    def to_router(self, sender: str, sent: Packet) -> str:
        """The source MAC with which the router of the sender's host gets a packet."""
        net = {"b": "blue", "r": "red"}[sender]
        found = self.cloud.send(self.hosts[sender], sender, sent)
        return found[f"gw-{net}-{self.hosts[sender]}"]["dl_src"]

    def routed(self, sender: str, sent: Packet) -> bool:
        """The router of the sender's host passes it on; whether it arrives."""
        receiver, net, gateway = {"b": ("r", "red", RED[0]), "r": ("b", "blue", BLUE[0])}[sender]
        onward = sent.having(dl_src=gateway, dl_dst=mac({"b": 1, "r": 2}[receiver]))
        return receiver in self.cloud.send(self.hosts[sender], f"gw-{net}-{self.hosts[sender]}", onward)


def opening(protocol: str, version: int = 4) -> Packet:
    """From red to blue."""
    ends = (mac(2), address("red", 2, version)), (RED[0], address("blue", 1, version))
    if protocol == "icmp":
        return packet.icmp(*ends, 8 if version == 4 else 128)
    if protocol == "gre":
        return packet.ip(*ends, 47)
    if protocol == "sctp":
        return packet.ip(*ends, 132, tp_src=40000, tp_dst=80)
    return {"tcp": packet.tcp, "udp": packet.udp}[protocol](*ends, 80)


def answer(opened: Packet) -> Packet:
    return packet.reply(opened).having(dl_src=mac(1), dl_dst=BLUE[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("red_host", HOSTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("version", [4, 6])
def test_a_reply_reaches_the_router_as_one(kind: str, red_host: str, protocol: str, version: int) -> None:
    net, opened = Net(kind, red_host), opening(protocol, version)
    reply = answer(opened)
    assert net.to_router("b", reply) == mac(1), "nothing was sent that it may reply to"
    assert net.to_router("r", opened) == mac(2)
    assert net.to_router("b", reply) == mac(1), "the router has dropped what it may reply to"
    assert net.routed("r", opened)
    assert net.to_router("b", reply) == REPLY_MAC
    assert net.routed("b", reply)
    assert net.to_router("r", opened) == mac(2), "a packet of the opening side is none"


@pytest.mark.parametrize("kind", KINDS)
def test_another_port_or_an_echo_request_is_no_reply(kind: str) -> None:
    net = Net(kind)
    assert net.routed("r", opening("udp"))
    assert net.routed("r", opening("icmp"))
    blue, back = (mac(1), address("blue", 1)), (BLUE[0], address("red", 2))
    assert net.to_router("b", packet.udp(blue, back, 40000, source_port=81)) == mac(1)
    assert net.to_router("b", packet.udp(blue, back, 40001, source_port=80)) == mac(1)
    assert net.to_router("b", packet.icmp(blue, back, 8)) == mac(1)


def test_an_error_about_a_connection_reaches_the_router_as_one() -> None:
    net = Net()
    net.apply(addressed("free", 9, "blue", "h1", port_security_enabled=False))
    opened = packet.udp((BLUE[0], address("red", 2)), (mac(9), address("blue", 9)), 53)
    error = packet.error_about(opened, (mac(9), address("blue", 9)))
    assert net.cloud.send("h1", "free", error)["gw-blue-h1"]["dl_src"] == mac(9)
    net.cloud.send("h2", "gw-blue-h2", opened)
    assert net.cloud.send("h1", "free", error)["gw-blue-h1"]["dl_src"] == REPLY_MAC


def test_an_instance_cannot_mark_its_packets_itself() -> None:
    net = Net()
    free = addressed("free", 9, "blue", "h1", port_security_enabled=False)
    net.apply(free)
    net.hosts["free"] = "h1"
    forged = packet.udp((REPLY_MAC, address("blue", 9)), (BLUE[0], address("red", 2)), 53)
    assert net.cloud.send("h1", "free", forged)["gw-blue-h1"]["dl_src"] == UNKNOWN_MAC


def test_packets_to_a_mac_of_a_pair_open_connections_too() -> None:
    net = Net()
    shared = "00:00:5e:00:01:01"
    pair = (state.AddressPair(shared, "10.0.1.99"),)
    net.apply(addressed("vrrp", 9, "blue", "h1", allowed_address_pairs=pair))
    opened = packet.udp((BLUE[0], address("red", 2)), (shared, "10.0.1.99"), 53)
    net.cloud.send("h2", "gw-blue-h2", opened)
    reply = packet.udp((shared, "10.0.1.99"), (BLUE[0], address("red", 2)), 40000, source_port=53)
    assert net.cloud.send("h1", "vrrp", reply)["gw-blue-h1"]["dl_src"] == REPLY_MAC


@pytest.mark.parametrize("values", [{"group_id": ""}, {"distributed": False}])
def test_without_groups_of_a_distributed_router_there_are_no_flows(values: dict[str, object]) -> None:
    net = Net(**values)  # type: ignore[arg-type]
    flows = [flow.text() for flow in net.cloud.hosts["h1"].switch.read_flows("br-int", 0, 0)]
    assert not [text for text in flows if REPLY_MAC in text or any(f"zone={zone}" in text for zone in ZONES)]
    net.apply()
    assert net.routed("r", opening("udp"))
    net.apply(**values)
    assert net.to_router("b", answer(opening("udp"))) == mac(1), "they go with the group"


@pytest.mark.parametrize("kind", KINDS)
def test_a_hosts_mac_is_not_taken_from_an_instance(kind: str) -> None:
    """A frame with it would count as routed, and open a connection that the router has not passed."""
    net = Net(kind)
    net.apply(addressed("free", 9, "red", "h2", port_security_enabled=False), addressed("r1", 8, "red", "h1"))
    for source in MACS.values():
        forged = packet.udp((source, address("blue", 1)), (mac(8), address("red", 8)), 40000, source_port=5000)
        net.cloud.send("h2", "free", forged)
    net.hosts["r1"] = "h1"
    sent = packet.udp((mac(8), address("red", 8)), (RED[0], address("blue", 1)), 5000)
    assert net.cloud.send("h1", "r1", sent)["gw-red-h1"]["dl_src"] == mac(8)
