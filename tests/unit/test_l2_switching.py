"""Switching on the fake switch: networks of every type, on one host and across hosts."""

from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from neutrino.agent.l2.desired import L2Options
from neutrino.dataplane.openflow.api import DatapathFeatures
from neutrino.model import state
from neutrino.model.state import AddressPair
from tests.fakes import packet
from tests.fakes.openflow import FakePort
from tests.support.l2 import OPEN, Cloud, mac, network, port

NETWORKS = [
    network("net", "vlan", 205, "physnet1"),
    network("net", "flat", 0, "physnet1"),
    network("net", "vxlan", 70000),
    network("net", "gre", 9),
    network("net", "geneve", 10),
]


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def end6(number: int) -> tuple[str, str]:
    return mac(number), f"2001:db8::{number:x}"


def name_of(net: object) -> str:
    return net.segments[0].network_type  # type: ignore[attr-defined]


@pytest.mark.parametrize("net", [*NETWORKS, network("net", "local", 0)], ids=name_of)
@pytest.mark.parametrize("secured", [True, False])
def test_same_host(net, secured):
    cloud = Cloud("h1")
    groups = ["open"] if secured else []
    cloud.apply(net, OPEN, *(port(f"p{n}", n, groups=groups, port_security_enabled=secured) for n in (1, 2, 3)))
    for make in (end, end6):
        sent = packet.tcp(make(1), make(2), 80)
        assert cloud.send("h1", "p1", sent) == {"p2": sent} or not secured
        assert cloud.send("h1", "p2", packet.reply(sent)) == {"p1": packet.reply(sent)}


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
def test_across_hosts(net):
    cloud = Cloud("h1", "h2", "h3")
    cloud.apply(net, OPEN, *(port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)))
    for make in (end, end6):
        sent = packet.udp(make(1), make(2), 53)
        assert cloud.send("h1", "p1", sent) == {"p2": sent}
        assert cloud.send("h2", "p2", packet.reply(sent)) == {"p1": packet.reply(sent)}


@pytest.mark.parametrize("net, tag", [(NETWORKS[0], 205), (NETWORKS[1], None)], ids=["vlan", "flat"])
def test_tags_on_the_physical_network(net, tag):
    cloud = Cloud("h1")
    cloud.apply(net, OPEN, port("p1", 1, groups=["open"]))
    (left,) = cloud.on_wire("h1", "p1", packet.tcp(end(1), end(9), 80))
    assert (left.port, left.packet.vlan) == ("eth1", tag)


@pytest.mark.parametrize("kind", ["vxlan", "gre", "geneve"])
def test_unicast_takes_one_tunnel(kind):
    cloud = Cloud("h1", "h2", "h3")
    cloud.apply(network("net", kind, 77), OPEN, *(port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)))
    (left,) = cloud.on_wire("h1", "p1", packet.tcp(end(1), end(3), 80))
    assert (left.port, left.packet["tun_id"], left.packet.vlan) == (f"{kind}-h3", "0x4d", None)


def test_unknown_unicast_and_broadcast_go_to_the_hosts_that_have_the_network():
    cloud = Cloud("h1", "h2", "h3", "h4")
    cloud.apply(
        network("net"),
        network("other", "vxlan", 101),
        OPEN,
        *(port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)),
        port("p4", 4, "other", "h4"),
    )
    for destination in (mac(99), packet.BROADCAST):
        sent = packet.udp(end(1), (destination, "10.0.0.255"), 9)
        assert sorted(left.port for left in cloud.on_wire("h1", "p1", sent)) == ["vxlan-h2", "vxlan-h3"]
    assert set(cloud.send("h1", "p1", packet.udp(end(1), (packet.BROADCAST, "10.0.0.255"), 9))) == {"p2", "p3"}


@pytest.mark.parametrize("kind", ["vlan", "vxlan"])
def test_networks_are_isolated(kind):
    cloud = Cloud("h1", "h2")
    nets = [network("net", kind, 100, "physnet1"), network("other", kind, 101, "physnet1")]
    ports = [port("p1", 1, groups=["open"]), port("p2", 2, "other", groups=["open"])]
    ports += [port("p3", 3, "other", "h2", groups=["open"]), port("p4", 4, "net", "h2", port_security_enabled=False)]
    cloud.apply(*nets, OPEN, *ports)
    for destination in (mac(2), mac(3), packet.BROADCAST):
        arrived = cloud.send("h1", "p1", packet.udp(end(1), (destination, "10.0.0.2"), 9))
        assert set(arrived) <= {"p4"}
    # A tag of one's own does not open another network.
    for vlan in range(1, 4):
        assert cloud.send("h1", "p1", packet.udp(end(1), end(2), 9).having(vlan=vlan)) == {}


def test_packets_without_a_vlan_translation_are_dropped():
    cloud = Cloud("h1")
    cloud.apply(network("net", "vlan", 205, "physnet1"), OPEN, port("p1", 1, port_security_enabled=False))
    host = cloud.hosts["h1"]
    for vlan in (1, 206):
        foreign = packet.udp(end(9), end(1), 9).having(vlan=vlan)
        assert [left.bridge for left in host.switch.send("br-phys", "eth1", foreign)] == []
    assert host.switch.send("br-phys", "eth1", packet.udp(end(9), end(1), 9)) == []
    assert [d.port for d in host.switch.send("br-phys", "eth1", packet.udp(end(9), end(1), 9).having(vlan=205))] == [
        "p1"
    ]


def test_arp_and_neighbour_requests_are_answered_on_the_host():
    cloud = Cloud("h1", "h2")
    cloud.apply(network("net"), OPEN, port("p1", 1, groups=["open"]), port("p2", 2, host="h2", groups=["open"]))
    asked = packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2")
    assert cloud.on_wire("h1", "p1", asked) == []
    answer = cloud.send("h1", "p1", asked)["p1"]
    assert (answer["arp_op"], answer["arp_spa"], answer["arp_sha"]) == ("2", "10.0.0.2", mac(2))
    assert (answer["dl_dst"], answer["arp_tpa"], answer["arp_tha"]) == (mac(1), "10.0.0.1", mac(1))

    multicast = ("33:33:ff:00:00:02", "ff02::1:ff00:2")
    asked = packet.neighbour(packet.NEIGHBOUR_SOLICITATION, end6(1), multicast, "2001:db8::2")
    assert cloud.on_wire("h1", "p1", asked) == []
    answer = cloud.send("h1", "p1", asked)["p1"]
    assert (answer["icmp_type"], answer["nd_target"], answer["nd_tll"]) == ("136", "2001:db8::2", mac(2))

    probe = packet.arp_request(mac(1), "0.0.0.0", "10.0.0.2")
    assert [left.port for left in cloud.on_wire("h1", "p1", probe)] == ["vxlan-h2"]
    unknown = packet.arp_request(mac(1), "10.0.0.1", "10.0.0.77")
    assert [left.port for left in cloud.on_wire("h1", "p1", unknown)] == ["vxlan-h2"]


def test_neighbour_requests_reach_the_hosts_of_the_network_where_the_datapath_cannot_answer_them():
    cloud = Cloud("h1", "h2", "h3", "h4", features=DatapathFeatures(nd_extension=False))
    ports = [port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)]
    cloud.apply(network("net"), network("other", number=7), OPEN, *ports, port("p4", 4, "other", host="h4"))
    multicast = ("33:33:ff:00:00:02", "ff02::1:ff00:2")
    asked = packet.neighbour(packet.NEIGHBOUR_SOLICITATION, end6(1), multicast, "2001:db8::2")
    assert sorted(left.port for left in cloud.on_wire("h1", "p1", asked)) == ["vxlan-h2", "vxlan-h3"]
    assert cloud.send("h1", "p1", asked) == {"p2": asked, "p3": asked}
    answer = packet.neighbour(packet.NEIGHBOUR_ADVERTISEMENT, end6(2), end6(1), "2001:db8::2")
    assert [left.port for left in cloud.on_wire("h2", "p2", answer)] == ["vxlan-h1"]
    assert cloud.send("h2", "p2", answer) == {"p1": answer}
    pretended = packet.neighbour(packet.NEIGHBOUR_ADVERTISEMENT, end6(3), end6(1), "2001:db8::2")
    assert cloud.send("h3", "p3", pretended) == {}

    assert cloud.on_wire("h1", "p1", packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2")) == []  # as ever


def test_without_l2_population_hosts_learn():
    cloud = Cloud("h1", "h2", "h3", options=L2Options(l2_population=False))
    cloud.apply(network("net"), OPEN, *(port(f"p{n}", n, host=f"h{n}", groups=["open"]) for n in (1, 2, 3)))
    first = packet.udp(end(1), end(2), 9)
    assert len(cloud.on_wire("h1", "p1", first)) == 2
    assert set(cloud.send("h1", "p1", first)) >= {"p2"}
    assert [left.port for left in cloud.on_wire("h2", "p2", packet.reply(first))] == ["vxlan-h1"]


def test_a_host_without_l2_population_gets_nothing_of_networks_on_which_it_has_no_port():
    """Whatever it reports of itself: h3 shares another network with h1, so there is a tunnel to it."""
    cloud = Cloud("h1", "h2", "h3")
    ports = [port("p1", 1, host="h1", groups=["open"]), port("p2", 2, host="h2", groups=["open"])]
    shared = [port("p4", 4, "other", host="h1", groups=["open"]), port("p5", 5, "other", host="h3", groups=["open"])]
    wanted = cloud.state_for("h1", (network("net"), network("other", "vxlan", 8), OPEN, *ports, *shared))
    reported = msgspec.json.decode(
        b'{"id":"h3","tunneling_ip":"192.0.2.3","tunnel_types":["vxlan"],"l2_population":false}', type=state.Host
    )
    cloud.hosts["h1"].apply(replace(wanted, hosts={**wanted.hosts, "h3": reported}))
    unknown, broadcast = packet.udp(end(1), end(99), 9), packet.udp(end(1), (packet.BROADCAST, "10.0.0.255"), 9)
    for each in (unknown, broadcast):
        assert [left.port for left in cloud.on_wire("h1", "p1", each)] == ["vxlan-h2"]
    # Nor does it learn MACs from there, to which packets would go then.
    assert not [flow for flow in cloud.hosts["h1"].switch.read_flows("br-tun", 0, 0) if "learn(" in str(flow)]


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
def test_macs_behind_an_unsecured_port_are_learned_and_move(net):
    cloud = Cloud("h1", "h2")
    free = {"port_security_enabled": False}
    ports = [port("p1", 1, **free), *(port(f"p{n}", n, groups=["open"]) for n in (2, 3))]
    ports += [port("p4", 4, host="h2", groups=["open"]), port("p5", 5, host="h2", **free)]
    cloud.apply(net, OPEN, *ports)
    towards = packet.udp(end(2), end(99), 9)
    assert set(cloud.send("h1", "p2", towards)) == {"p1", "p5"}, "it may be behind any of these, and of no others"

    cloud.send("h1", "p1", packet.udp(end(99), end(2), 9))
    assert set(cloud.send("h1", "p2", towards)) == {"p1"}
    assert set(cloud.send("h2", "p4", packet.udp(end(4), end(99), 9))) == {"p1", "p5"}

    cloud.send("h2", "p5", packet.udp(end(99), (packet.BROADCAST, "10.0.0.255"), 9))
    assert set(cloud.send("h1", "p2", towards)) == {"p5"}, "it has moved"
    assert set(cloud.send("h2", "p4", packet.udp(end(4), end(99), 9))) == {"p5"}

    cloud.send("h1", "p1", packet.udp(end(99), end(2), 9))
    cloud.apply(net, OPEN, *ports[1:])
    assert set(cloud.send("h1", "p2", towards)) == {"p5"}, "what was behind a port goes with it"


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
def test_an_unsecured_port_gets_no_unicast_of_others(net):
    cloud = Cloud("h1", "h2")
    ports = [port("p1", 1, port_security_enabled=False), *(port(f"p{n}", n, groups=["open"]) for n in (2, 3))]
    cloud.apply(net, OPEN, *ports, port("p4", 4, host="h2", groups=["open"]))
    asked = packet.udp(end(4), end(2), 9)
    assert set(cloud.send("h2", "p4", asked)) == {"p2"}
    assert set(cloud.send("h1", "p2", packet.reply(asked))) == {"p4"}


def test_a_port_that_is_down_neither_sends_nor_receives():
    cloud = Cloud("h1")
    cloud.apply(
        network("net"), OPEN, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"], admin_state_up=False)
    )
    for destination in (mac(2), packet.BROADCAST):
        assert cloud.send("h1", "p1", packet.udp(end(1), (destination, "10.0.0.2"), 9)) == {}
    assert cloud.send("h1", "p2", packet.udp(end(2), end(1), 9)) == {}
    assert cloud.hosts["h1"].desired.problems == {"p2": "its admin state is down"}


def test_a_network_that_is_down_carries_nothing():
    cloud = Cloud("h1", "h2")
    ports = [port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]), port("p3", 3, host="h2", groups=["open"])]
    down = structs.replace(network("net"), admin_state_up=False)
    cloud.apply(down, OPEN, *ports)
    for destination in (end(2), end(3), (packet.BROADCAST, "10.0.0.255")):
        assert cloud.send("h1", "p1", packet.udp(end(1), destination, 9)) == {}
    assert cloud.hosts["h1"].desired.problems == dict.fromkeys(("p1", "p2"), "its network's admin state is down")
    cloud.apply(network("net"), OPEN, *ports)
    assert set(cloud.send("h1", "p1", packet.udp(end(1), end(3), 9))) == {"p3"}


def test_a_port_without_flows_reaches_nothing():
    """Such as one that was just plugged: it has no tag yet, so the switch would accept any tag from it."""
    cloud = Cloud("h1")
    cloud.apply(network("net"), OPEN, port("p1", 1, groups=["open"]), port("p2", 2, port_security_enabled=False))
    host = cloud.hosts["h1"]
    for name in ("new", "newer"):
        host.switch.set_port("br-int", FakePort(200 + len(name), name))
    for destination in (mac(1), mac(2), mac(99), packet.BROADCAST):
        for vlan in (None, 1, 2, 4095):
            sent = packet.udp(end(99), (destination, "10.0.0.1"), 9)
            assert cloud.send("h1", "new", sent.having(vlan=vlan) if vlan else sent) == {}


def test_an_address_pair_of_two_routers_reaches_both_and_leaves_the_host():
    shared = "00:00:5e:00:01:01"
    pairs = {"allowed_address_pairs": (AddressPair(shared, "10.0.0.250"),)}
    cloud = Cloud("h1", "h2")
    cloud.apply(
        network("net"),
        OPEN,
        port("p1", 1, groups=["open"]),
        port("p2", 2, groups=["open"], **pairs),
        port("p3", 3, groups=["open"], **pairs),
        port("p4", 4, host="h2", groups=["open"], **pairs),
    )
    assert set(cloud.send("h1", "p1", packet.tcp(end(1), (shared, "10.0.0.250"), 80))) == {"p2", "p3", "p4"}


def test_an_address_pair_of_ports_with_bridges_of_their_own():
    shared = "00:00:5e:00:01:01"
    pairs = {"allowed_address_pairs": (AddressPair(shared, "10.0.0.250"),), "hybrid_plug": True}
    cloud = Cloud("h1", "h2")
    cloud.apply(
        network("net"),
        OPEN,
        port("p1", 1, groups=["open"]),
        port("p2", 2, groups=["open"], **pairs),
        port("p3", 3, host="h2", groups=["open"], **pairs),
    )
    assert set(cloud.send("h1", "p1", packet.tcp(end(1), (shared, "10.0.0.250"), 80))) == {"p2", "p3"}
