"""Replicated ports of HA routers, with one MAC on all hosts: packets go to the host that sent with it last."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.model.state import Forwarding, Object, Port
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

ROUTER = 9
NETWORKS = {"vxlan": network("net", "vxlan", 70000), "vlan": network("net", "vlan", 205, "physnet1")}


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def replica(host: str) -> Port:
    owner = "network:ha_router_replicated_interface"
    return port("r", ROUTER, host=host, device_owner=owner, replicated=True, port_security_enabled=False)


class Hosts(Cloud):
    """h1 and h2 have the router, h3 has not; the server knows where it is active."""

    def __init__(self, kind: str) -> None:
        super().__init__("h1", "h2", "h3")
        self.objects: list[Object] = [NETWORKS[kind], OPEN, replica("h1"), replica("h2")]
        self.objects += [port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)]

    def apply(self, active: str) -> None:
        entry = Forwarding(
            id="r", network_id="net", host=active, mac_address=mac(ROUTER), ip_addresses=(f"10.0.0.{ROUTER}",)
        )
        for name, host in self.hosts.items():
            desired = self.state_for(name, self.objects)
            entries = {key: value for key, value in desired.forwarding.items() if key != "r"}
            if name != active:
                entries["r"] = entry
            host.apply(dataclasses.replace(desired, forwarding=entries))

    def answered_at(self, sender: int) -> set[str]:
        """The hosts whose router gets a packet of an instance."""
        sent = packet.udp(end(sender), end(ROUTER), 53)
        found: set[str] = set()
        waiting = [(f"h{sender}", each) for each in self.hosts[f"h{sender}"].switch.send("br-int", f"p{sender}", sent)]
        while waiting:
            place, each = waiting.pop(0)
            if each.bridge != "br-int":
                waiting += self._across(place, each)
            elif each.port == "r":
                found.add(place)
        return found


def announcement() -> Packet:
    return packet.udp(end(ROUTER), (packet.BROADCAST, "10.0.0.255"), 9)


@pytest.mark.parametrize("kind", list(NETWORKS))
def test_instances_on_all_hosts_reach_the_active_host_after_a_failover(kind: str) -> None:
    cloud = Hosts(kind)
    for active in ("h1", "h2", "h1"):
        cloud.apply(active)
        cloud.send(active, "r", announcement())
        for sender in (1, 2, 3):
            assert cloud.answered_at(sender) == {active}, (active, sender)


def test_on_a_physical_network_no_server_is_needed() -> None:
    cloud = Hosts("vlan")
    cloud.apply("h1")
    cloud.send("h1", "r", announcement())
    cloud.send("h2", "r", announcement())  # it has failed over, and the server does not know yet
    for sender in (1, 2, 3):
        assert cloud.answered_at(sender) == {"h2"}, sender


def test_before_its_mac_is_learned_packets_are_flooded() -> None:
    cloud = Hosts("vxlan")
    cloud.apply("h1")
    for sender in (1, 2, 3):
        assert "h1" in cloud.answered_at(sender)
