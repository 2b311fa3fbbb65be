"""Local IPs on the fake switch: the same address leads to the port of each host, and replies come from the address."""

from __future__ import annotations

import pytest

from neutrino.model import state
from neutrino.model.state import LocalIp
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

LOCAL = "10.0.0.200"
GATEWAY = mac(99)  # some MAC that the sender has for the local IP


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


class Net:
    """Host h1 has ports 1 and 2, h2 has 3 and 4; 2 and 4 are associated with the local IP. Host h3 has port 5."""

    def __init__(self, mode: str = "translate", **sort: object) -> None:
        self.cloud, self.mode = Cloud("h1", "h2", "h3"), mode
        self._sort = {"groups": ["open"], **sort}
        self.apply(2, 4)

    def apply(self, *associated: int) -> None:
        ports = []
        for number, host in ((1, "h1"), (2, "h1"), (3, "h2"), (4, "h2"), (5, "h3")):
            local_ips = (
                (LocalIp(LOCAL, f"10.0.0.{number}", self.mode, network_id="net"),) if number in associated else ()
            )
            ports.append(port(f"p{number}", number, host=host, local_ips=local_ips, **self._sort))  # type: ignore[arg-type]
        self.cloud.apply(network("net"), OPEN, *ports)
        for host in self.cloud.hosts.values():
            assert host.desired is not None
            assert not any(host.plans(host.desired))

    def send(self, source: int, sent: Packet) -> dict[str, Packet]:
        return self.cloud.send({1: "h1", 2: "h1", 3: "h2", 4: "h2", 5: "h3"}[source], f"p{source}", sent)


SORTS: dict[str, dict[str, object]] = {
    "filtered": {},
    "without port security": {"groups": [], "port_security_enabled": False},
    "hybrid": {"hybrid_plug": True},
}


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS)
@pytest.mark.parametrize(("client", "server"), [(1, 2), (3, 4)])
def test_each_host_reaches_its_own_port(client: int, server: int, sort: dict[str, object]) -> None:
    net = Net(**sort)
    asked = net.send(client, packet.arp_request(*end(client), LOCAL))
    assert {name: (one["arp_sha"], one["arp_spa"]) for name, one in asked.items()} == {
        f"p{client}": (mac(server), LOCAL)
    }
    for _ in range(2):
        arrived = net.send(client, packet.tcp(end(client), (mac(server), LOCAL), 80))
        assert [*arrived] == [f"p{server}"]
        received = arrived[f"p{server}"]
        assert (received["nw_src"], received["nw_dst"]) == (end(client)[1], end(server)[1])
        answered = net.send(server, packet.reply(received))
        assert [*answered] == [f"p{client}"]
        assert answered[f"p{client}"]["nw_src"] == LOCAL


def test_the_mac_that_the_sender_uses_does_not_matter() -> None:
    assert [*Net().send(1, packet.tcp(end(1), (GATEWAY, LOCAL), 80))] == ["p2"]


def test_the_port_itself_is_reached_by_its_own_address_too() -> None:
    net = Net()
    net.send(1, packet.tcp(end(1), (mac(2), LOCAL), 80))
    sent = packet.tcp(end(1), end(2), 80, source_port=40001)
    answered = net.send(2, packet.reply(net.send(1, sent)["p2"]))
    assert answered["p1"]["nw_src"] == end(2)[1]


def test_the_associated_port_and_other_hosts_reach_the_true_owner() -> None:
    net = Net()
    for number in (2, 5):
        assert f"p{number}" not in net.send(number, packet.arp_request(*end(number), LOCAL))
        sent = packet.tcp(end(number), (mac(4), LOCAL), 80)
        assert {name: one["nw_dst"] for name, one in net.send(number, sent).items()} == {"p4": LOCAL}


def test_a_probe_for_the_address_is_not_answered() -> None:
    sent = packet.arp_request(mac(1), "0.0.0.0", LOCAL)
    assert "p1" not in Net().send(1, sent)


def test_passthrough_keeps_the_address() -> None:
    net = Net("passthrough")
    arrived = net.send(1, packet.tcp(end(1), (GATEWAY, LOCAL), 80))
    assert {name: (one["nw_dst"], one["dl_dst"]) for name, one in arrived.items()} == {"p2": (LOCAL, mac(2))}


def test_without_the_association_it_ends() -> None:
    net = Net()
    net.apply(4)
    assert "p1" not in net.send(1, packet.arp_request(*end(1), LOCAL))
    arrived = net.send(1, packet.tcp(end(1), (mac(2), LOCAL), 80))
    assert {name: one["nw_dst"] for name, one in arrived.items()} == {"p2": LOCAL}  # which the instance does not have
    assert [*net.send(3, packet.tcp(end(3), (mac(4), LOCAL), 80))] == ["p4"]


def test_of_two_ports_on_a_host_the_first_counts() -> None:
    net = Net()
    net.apply(1, 2)
    net.cloud.apply(
        *(network("net"), OPEN),
        *(
            port(f"p{n}", n, groups=["open"], local_ips=(LocalIp(LOCAL, f"10.0.0.{n}", network_id="net"),))
            for n in (1, 2)
        ),
        port("p3", 3, groups=["open"]),
    )
    assert [*net.cloud.send("h1", "p3", packet.tcp(end(3), (GATEWAY, LOCAL), 80))] == ["p1"]


def test_networks_with_the_same_addresses_are_apart() -> None:
    cloud = Cloud("h1")
    other = (port("q1", 11, "other", groups=["open"]), port("q2", 12, "other", groups=["open"]))
    own = (
        port("p1", 1, groups=["open"]),
        port("p2", 2, groups=["open"], local_ips=(LocalIp(LOCAL, "10.0.0.2", network_id="net"),)),
    )
    objects: tuple[state.Object, ...] = (network("net"), network("other", number=101), OPEN, *own, *other)
    cloud.apply(*objects)
    assert cloud.send("h1", "q1", packet.arp_request(*end(11), LOCAL)).keys() == {"q2"}
    assert [*cloud.send("h1", "p1", packet.tcp(end(1), (GATEWAY, LOCAL), 80))] == ["p2"]


@pytest.mark.parametrize("network_id", ["other", ""])
def test_a_local_ip_of_another_network_is_not_applied(network_id: str) -> None:
    cloud = Cloud("h1")
    associated = port("p2", 2, groups=["open"], local_ips=(LocalIp(LOCAL, "10.0.0.2", network_id=network_id),))
    owner = port("p9", 200, groups=["open"])
    cloud.apply(network("net"), network("other", number=101), OPEN, port("p1", 1, groups=["open"]), associated, owner)
    assert "p1" not in cloud.send("h1", "p1", packet.arp_request(*end(1), LOCAL))
    assert [*cloud.send("h1", "p1", packet.tcp(end(1), end(200), 80))] == ["p9"]
