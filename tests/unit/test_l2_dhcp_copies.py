"""Copies of a DHCP port: each serves the ports of its own host, and none of its packets leaves the host."""

import pytest

from neutrino.model.addresses import link_local
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

NETWORKS = [network("net", "vlan", 205, "physnet1"), network("net", "vxlan", 70000)]
EVERYBODY = "ff:ff:ff:ff:ff:ff"
DHCP = {"device_owner": "network:dhcp", "port_security_enabled": False}


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def request(number: int) -> Packet:
    return packet.udp((mac(number), "0.0.0.0"), (EVERYBODY, "255.255.255.255"), 67, source_port=68)


def request6(number: int) -> Packet:
    return packet.udp(
        (mac(number), str(link_local(mac(number)))), ("33:33:00:01:00:02", "ff02::1:2"), 547, source_port=546
    )


@pytest.fixture(params=NETWORKS, ids=["vlan", "vxlan"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """The network is scheduled to h1; h2 answers its own ports; h3 serves no DHCP."""
    made = Cloud("h1", "h2", "h3")
    vms = [port(f"vm{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)]
    home, copy = port("home", 9, host="h1", **DHCP), port("copy", 9, host="h2", copy=True, **DHCP)
    made.apply(request.param, OPEN, *vms, home, copy)
    return made


def test_a_request_reaches_the_copy_here_and_does_not_leave_the_host(cloud: Cloud) -> None:
    for ask in (request, request6):
        assert set(cloud.send("h2", "vm2", ask(2))) == {"copy"}
        assert cloud.on_wire("h2", "vm2", ask(2)) == []


def test_a_renewal_reaches_the_copy_and_its_reply_the_port(cloud: Cloud) -> None:
    renewal = packet.udp(end(2), end(9), 67, source_port=68)
    assert set(cloud.send("h2", "vm2", renewal)) == {"copy"}
    assert set(cloud.send("h2", "copy", packet.reply(renewal))) == {"vm2"}


def test_a_host_without_a_copy_is_served_by_the_scheduled_host(cloud: Cloud) -> None:
    for ask in (request, request6):
        assert "home" in cloud.send("h3", "vm3", ask(3))
        assert "copy" not in cloud.send("h3", "vm3", ask(3))
    assert set(cloud.send("h3", "vm3", packet.udp(end(3), end(9), 67, source_port=68))) == {"home"}
    assert set(cloud.send("h1", "home", packet.udp(end(9), end(3), 68, source_port=67))) == {"vm3"}


def test_packets_of_a_copy_do_not_leave_its_host(cloud: Cloud) -> None:
    offer = packet.udp(end(9), (EVERYBODY, "255.255.255.255"), 68, source_port=67)
    for sent in (offer, packet.udp(end(9), end(3), 53), packet.udp(end(9), end(77), 53)):
        assert cloud.on_wire("h2", "copy", sent) == []
    assert set(cloud.send("h2", "copy", offer)) == {"vm2"}


def test_packets_from_outside_do_not_reach_a_copy(cloud: Cloud) -> None:
    everybody = packet.udp(end(3), (EVERYBODY, "10.0.0.255"), 9)
    assert set(cloud.send("h3", "vm3", everybody)) == {"vm1", "vm2", "home"}


def test_a_second_plan_of_copies_is_empty(cloud: Cloud) -> None:
    for host in cloud.hosts.values():
        assert host.desired is not None
        assert not any(host.plans(host.desired))
