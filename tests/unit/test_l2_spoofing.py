"""Spoofing: an instance must not use another's MAC, ARP or address, nor act as a DHCP server or router."""

import msgspec
import pytest

from neutrino.model.addresses import link_local
from neutrino.model.state import AddressPair
from tests.fakes import packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

ONE, TWO = (mac(1), "10.0.0.1"), (mac(2), "10.0.0.2")
ONE6, TWO6 = (mac(1), "2001:db8::1"), (mac(2), "2001:db8::2")
LINK_LOCAL = (mac(1), str(link_local(mac(1))))
ALL_NODES = ("33:33:00:00:00:01", "ff02::1")
NA, NS, RA, RS = 136, 135, 134, 133


def cloud_of(**first: object) -> Cloud:
    cloud = Cloud("h1")
    cloud.apply(network("net"), OPEN, port("p1", 1, groups=["open"], **first), port("p2", 2, groups=["open"]))
    return cloud


GENUINE = [
    packet.tcp(ONE, TWO, 80),
    packet.tcp(ONE6, TWO6, 80),
    packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2"),
    packet.arp_request(mac(1), "0.0.0.0", "10.0.0.1"),
    packet.arp_reply(mac(1), "10.0.0.1", mac(2), "10.0.0.2"),
    packet.neighbour(NA, ONE6, TWO6, "2001:db8::1"),
    packet.neighbour(NA, LINK_LOCAL, TWO6, LINK_LOCAL[1]),
    packet.neighbour(NS, ONE6, ALL_NODES, "2001:db8::2"),
    packet.neighbour(NS, (mac(1), "::"), ALL_NODES, "2001:db8::1"),
    packet.icmp((mac(1), "::"), ALL_NODES, RS),
    packet.udp((mac(1), "0.0.0.0"), (packet.BROADCAST, "255.255.255.255"), 67, source_port=68),
    packet.udp(ONE, TWO, 67, source_port=68),
    packet.udp(LINK_LOCAL, ("33:33:00:01:00:02", "ff02::1:2"), 547, source_port=546),
]
SPOOFED = [
    packet.tcp((mac(9), "10.0.0.1"), TWO, 80),
    packet.tcp((mac(1), "10.0.0.9"), TWO, 80),
    packet.tcp((mac(1), "2001:db8::9"), TWO6, 80),
    packet.arp_request(mac(1), "10.0.0.9", "10.0.0.2"),
    packet.arp_request(mac(9), "10.0.0.1", "10.0.0.2"),
    packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2").having(arp_sha=mac(9)),
    packet.arp_reply(mac(1), "10.0.0.9", mac(2), "10.0.0.2"),
    packet.arp_reply(mac(1), "0.0.0.0", mac(2), "10.0.0.2"),
    packet.neighbour(NA, ONE6, TWO6, "2001:db8::9"),
    packet.neighbour(NA, (mac(1), "2001:db8::9"), TWO6, "2001:db8::1"),
    packet.neighbour(NS, (mac(1), "fe80::9"), ALL_NODES, "2001:db8::2"),
    packet.icmp(LINK_LOCAL, ALL_NODES, RA),
    packet.udp(ONE, (packet.BROADCAST, "255.255.255.255"), 68, source_port=67),
    packet.udp(LINK_LOCAL, TWO6, 546, source_port=547),
    packet.frame(mac(1), mac(2), dl_type=0x88CC),
]


@pytest.mark.parametrize("sent", GENUINE, ids=lambda sent: sent.text())
def test_genuine_packets_arrive(sent):
    assert cloud_of().send("h1", "p1", sent) == {"p2": sent}


@pytest.mark.parametrize("sent", SPOOFED, ids=lambda sent: sent.text())
def test_spoofed_packets_are_dropped(sent):
    assert cloud_of().send("h1", "p1", sent) == {}


IN_PIECES = [
    packet.udp(ONE, TWO, 68, source_port=67),
    packet.udp(ONE, (packet.BROADCAST, "255.255.255.255"), 68, source_port=67),
    packet.udp(LINK_LOCAL, TWO6, 546, source_port=547),
    packet.icmp(LINK_LOCAL, ALL_NODES, RA),
    packet.neighbour(NA, ONE6, TWO6, "2001:db8::9"),
]


@pytest.mark.parametrize("kind", ["first", "later"])
@pytest.mark.parametrize("stateful", [True, False], ids=["stateful", "stateless"])
@pytest.mark.parametrize("sent", IN_PIECES, ids=lambda sent: sent.text())
def test_spoofed_packets_in_fragments_are_dropped(sent, stateful, kind):
    assert in_pieces(stateful).send("h1", "p1", packet.fragment(sent, kind)) == {}


@pytest.mark.parametrize("kind", ["first", "later"])
@pytest.mark.parametrize("stateful", [True, False], ids=["stateful", "stateless"])
@pytest.mark.parametrize("sent", [packet.udp(ONE, TWO, 80), packet.udp(ONE6, TWO6, 80)], ids=["IPv4", "IPv6"])
def test_other_fragments_arrive(sent, stateful, kind):
    cloud, piece = in_pieces(stateful), packet.fragment(sent, kind)
    assert cloud.send("h1", "p1", piece) == {"p2": piece}
    assert cloud.send("h1", "p1", piece) == {"p2": piece}


def test_a_fragmented_dhcp_reply_to_a_request_is_dropped():
    """The request is not tracked by the sender's firewall, but by the receiver's, in the same zone."""
    cloud = in_pieces(stateful=True)
    question = packet.udp(TWO6, ONE6, 547, source_port=546)
    assert cloud.send("h1", "p2", question) == {"p1": question}
    assert cloud.send("h1", "p1", packet.fragment(packet.reply(question))) == {}


def in_pieces(stateful):
    group = OPEN if stateful else msgspec.structs.replace(OPEN, stateful=False)
    cloud = Cloud("h1")
    cloud.apply(network("net"), group, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]))
    return cloud


@pytest.mark.parametrize("sent", [*GENUINE, *SPOOFED], ids=lambda sent: sent.text())
def test_without_port_security_nothing_is_checked_on_the_way_out(sent):
    cloud = Cloud("h1")
    cloud.apply(
        network("net"),
        port("p1", 1, port_security_enabled=False),
        port("p2", 2, port_security_enabled=False),
    )
    assert cloud.send("h1", "p1", sent) == {"p2": sent}


@pytest.mark.parametrize("hybrid", [True, False])
def test_address_pairs_may_be_used(hybrid):
    pairs = (AddressPair(mac(1), "10.0.0.64/26"), AddressPair("00:00:5e:00:01:01", "10.0.0.250"))
    cloud = cloud_of(allowed_address_pairs=pairs, hybrid_plug=hybrid)
    allowed = [(mac(1), "10.0.0.1"), (mac(1), "10.0.0.100"), ("00:00:5e:00:01:01", "10.0.0.250")]
    for source in allowed:
        arp = packet.arp_request(*source, "10.0.0.2")
        assert set(cloud.send("h1", "p1", packet.udp(source, TWO, 9))) == {"p2"}
        assert set(cloud.send("h1", "p1", arp)) == {"p2"}
    for source in [(mac(1), "10.0.0.250"), ("00:00:5e:00:01:01", "10.0.0.1"), (mac(1), "10.0.0.128")]:
        assert cloud.send("h1", "p1", packet.arp_request(*source, "10.0.0.2")) == {}
        # A hybrid port's addresses are the business of its Linux bridge.
        assert set(cloud.send("h1", "p1", packet.udp(source, TWO, 9))) == ({"p2"} if hybrid else set())


def test_a_hybrid_port_is_checked_for_mac_and_arp():
    cloud = cloud_of(hybrid_plug=True)
    assert cloud.send("h1", "p1", packet.tcp((mac(9), "10.0.0.1"), TWO, 80)) == {}
    assert cloud.send("h1", "p1", packet.arp_request(mac(1), "10.0.0.9", "10.0.0.2")) == {}
    assert set(cloud.send("h1", "p2", packet.tcp(TWO, ONE, 80))) == {"p1"}


def test_routers_and_dhcp_servers_are_trusted():
    cloud = Cloud("h1")
    cloud.apply(
        network("net"), OPEN, port("r", 1, device_owner="network:router_interface"), port("p2", 2, groups=["open"])
    )
    for sent in (packet.icmp(LINK_LOCAL, ALL_NODES, RA), packet.udp(ONE, TWO, 68, source_port=67)):
        assert set(cloud.send("h1", "r", sent)) == {"p2"}


def test_rarp_after_a_live_migration_passes():
    """Switches outside learn the new place from it; it is not copied to other instances."""
    cloud = cloud_of()
    announcement = packet.frame(mac(1), packet.BROADCAST, dl_type=0x8035)
    assert cloud.send("h1", "p1", announcement) == {}
    cloud = Cloud("h1")
    cloud.apply(network("net", "vlan", 205, "physnet1"), OPEN, port("p1", 1, groups=["open"]))
    assert [left.port for left in cloud.on_wire("h1", "p1", announcement)] == ["eth1"]
    assert cloud.on_wire("h1", "p1", packet.frame(mac(9), packet.BROADCAST, dl_type=0x8035)) == []
