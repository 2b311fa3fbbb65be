"""Live migration on fake switches: packets follow the instance to its new host before the server says so."""

import pytest

from neutrino.agent.l2.extension_api import cookie_of, port_owner
from neutrino.agent.l2.migrations import Migrations
from neutrino.agent.l2.pipeline import TRANSIENT
from neutrino.model.state import LocalIp, Network, Object, Port
from tests.fakes import packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

NETWORKS = [network("net", "vxlan", 70000), network("net", "vlan", 205, "physnet1")]
NEIGHBOURS = {"h1": ("a", 2), "h2": ("b", 3), "h3": ("c", 4)}
SOURCE, TARGET = ("h1", "vm"), ("h2", "vm")


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def name_of(net: Network) -> str:
    return net.segments[0].network_type


def migrating(net: Network, *, secured: bool = True) -> list[Object]:
    """An instance on h1 that moves to h2, and another one on each host."""
    common = {"groups": ["open"] if secured else [], "port_security_enabled": secured}
    others = [port(name, number, host=host, groups=["open"]) for host, (name, number) in NEIGHBOURS.items()]
    here, there = port("vm", 1, migrating=True, **common), port("vm", 1, host="h2", active=False, **common)
    return [net, OPEN, here, there, *others]


def flows(cloud: Cloud, host: str) -> set[str]:
    return {flow.text() for flow in cloud.hosts[host].switch.read_flows("br-int", 0, 0)}


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
@pytest.mark.parametrize("secured", [True, False])
def test_packets_to_the_instance_reach_it_where_it_is(net: Network, secured: bool) -> None:
    cloud = Cloud("h1", "h2", "h3")
    cloud.apply(*migrating(net, secured=secured))
    for host, (name, number) in NEIGHBOURS.items():
        for sent in (packet.tcp(end(number), end(1), 80), packet.arp_request(*end(number), "10.0.0.99")):
            received = cloud.receivers(host, name, sent)
            assert (SOURCE in received, TARGET in received) == (True, False), host
    cloud.arrived.add("vm")
    cloud.apply(*migrating(net, secured=secured))
    for host, (name, number) in NEIGHBOURS.items():
        assert TARGET in cloud.receivers(host, name, packet.tcp(end(number), end(1), 80)), host


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
def test_its_first_packet_is_sent_and_copied_to_the_agent(net: Network) -> None:
    cloud = Cloud("h1", "h2", "h3")
    cloud.apply(*migrating(net))
    target = cloud.hosts["h2"]
    for host, (name, number) in NEIGHBOURS.items():
        assert cloud.receivers("h2", "vm", packet.tcp(end(1), end(number), 80)) == {(host, name)}
    desired = target.desired
    assert desired is not None
    (waiting,) = (each for each in desired.ports if each.standby)
    assert set(target.switch.bridges["br-int"].copied) == {(TRANSIENT.number, cookie_of(port_owner(waiting)))}
    target.switch.bridges["br-int"].copied.clear()
    cloud.arrived.add("vm")
    cloud.apply(*migrating(net))
    assert cloud.receivers("h2", "vm", packet.tcp(end(1), end(4), 80)) == {("h3", "c")}
    assert target.switch.bridges["br-int"].copied == []


@pytest.mark.parametrize("net", NETWORKS, ids=name_of)
def test_activation_changes_nothing_on_the_target(net: Network) -> None:
    cloud = Cloud("h1", "h2", "h3")
    cloud.arrived.add("vm")
    cloud.apply(*migrating(net))
    before = flows(cloud, "h2")
    others = [port(name, number, host=host, groups=["open"]) for host, (name, number) in NEIGHBOURS.items()]
    cloud.apply(net, OPEN, port("vm", 1, host="h2", groups=["open"]), *others)
    assert flows(cloud, "h2") == before
    for host, (name, number) in NEIGHBOURS.items():
        assert cloud.receivers(host, name, packet.tcp(end(number), end(1), 80)) == {TARGET}


def test_a_local_ip_does_not_lead_to_an_instance_that_is_not_there() -> None:
    cloud = Cloud("h1", "h2")
    local = LocalIp("10.0.0.200", "10.0.0.1", network_id="net")
    there = port("vm", 1, host="h2", groups=["open"], active=False, local_ips=(local,))
    objects = (NETWORKS[0], OPEN, there, port("b", 3, host="h2", groups=["open"]))
    cloud.apply(*objects)
    assert not any("10.0.0.200" in flow for flow in flows(cloud, "h2"))
    cloud.arrived.add("vm")
    cloud.apply(*objects)
    assert any("10.0.0.200" in flow for flow in flows(cloud, "h2"))


def test_ports_wait_until_they_are_active_and_not_when_they_were_left() -> None:
    migrations = Migrations()

    def waiting(*ports: Port) -> dict[str, bool]:
        return dict(migrations.waiting({each.id: each for each in ports}))

    inactive, active = port("p", 1, active=False), port("p", 1)
    assert waiting(inactive) == {"p": False}
    assert migrations.arrived("p", {"p": inactive})
    assert not migrations.arrived("p", {"p": inactive})
    assert waiting(inactive) == {"p": True}
    assert waiting(active) == {}
    assert waiting(inactive) == {}  # it has left
    assert waiting() == {}
    assert waiting(inactive) == {"p": False}  # it comes back


def test_subports_arrive_with_their_parent() -> None:
    migrations = Migrations()
    names = {"parent": "t", "sub": "t", "other": "u", "plain": ""}
    ports = {name: port(name, 1, active=False, trunk_id=trunk) for name, trunk in names.items()}
    migrations.arrived("parent", ports)
    assert migrations.waiting(ports) == {"parent": True, "sub": True, "other": False, "plain": False}
