"""Security groups on the fake switch: which connections may be opened, and what ends them."""

import itertools

import pytest

from neutrino.agent.l2.connections import plan_flushes
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.openflow.api import Flow, FlowKey
from neutrino.model.state import AddressGroup, GroupMembers, Member, Port, SecurityGroup
from tests.fakes import packet
from tests.support.l2 import OPEN, OUT, Cloud, group, mac, network, port, rule

NET = network("net")
TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def end6(number: int) -> tuple[str, str]:
    return mac(number), f"2001:db8::{number:x}"


def server(*groups: SecurityGroup, hosts: tuple[str, str] = ("h1", "h1"), more: tuple[object, ...] = ()) -> Cloud:
    """p1 is a client that may send anything, p2 a server with the groups given, p3 another client."""
    cloud = Cloud(*sorted(set(hosts)))
    names = [entry.id for entry in groups]
    ports = [port("p1", 1, host=hosts[0], groups=["out"]), port("p3", 3, host=hosts[0], groups=["out"])]
    cloud.apply(NET, OUT, *groups, *ports, port("p2", 2, host=hosts[1], groups=names), *more)
    return cloud


def arrives(cloud: Cloud, sent: packet.Packet, source: str = "p1", target: str = "p2") -> bool:
    host = next(name for name, entry in cloud.hosts.items() if source in entry.ofports)
    return target in cloud.send(host, source, sent)


@pytest.mark.parametrize("hosts", [("h1", "h1"), ("h1", "h2")], ids=["same host", "across hosts"])
class TestMatrix:
    def test_default_deny_and_replies(self, hosts):
        cloud = server(group("none"), hosts=hosts)
        for sent in (packet.tcp(end(1), end(2), 80), packet.icmp(end6(1), end6(2), 128), packet.icmp(end(1), end(2))):
            assert not arrives(cloud, sent)
            assert not arrives(cloud, packet.reply(sent), "p2", "p1")

    def test_replies_and_errors_of_an_allowed_connection_pass(self, hosts):
        cloud = server(group("web", rule(protocol=TCP, port_min=80, port_max=80)), hosts=hosts)
        sent = packet.tcp(end(1), end(2), 80)
        assert arrives(cloud, sent)
        assert arrives(cloud, packet.error_about(sent, end(2)), "p2", "p1")
        assert arrives(cloud, packet.reply(sent), "p2", "p1")
        assert arrives(cloud, sent)
        assert not arrives(cloud, packet.tcp(end(2), end(1), 80), "p2", "p1")
        assert not arrives(cloud, packet.error_about(packet.tcp(end(1), end(2), 81), end(2)), "p2", "p1")

    def test_prefix(self, hosts):
        cloud = server(group("web", rule(protocol=TCP, remote_ip_prefix="10.0.0.1/32")), hosts=hosts)
        assert arrives(cloud, packet.tcp(end(1), end(2), 80))
        assert not arrives(cloud, packet.tcp(end(3), end(2), 80), "p3")
        assert not arrives(cloud, packet.udp(end(1), end(2), 80))

    def test_egress_prefix(self, hosts):
        to_one = group("to-one", rule("egress", protocol=UDP, remote_ip_prefix="10.0.0.1/32"))
        names = [to_one.id, OPEN.id]
        cloud = Cloud(*sorted(set(hosts)))
        clients = [port(f"p{n}", n, host=hosts[0], groups=["open"]) for n in (1, 3)]
        cloud.apply(NET, OPEN, to_one, *clients, port("p2", 2, host=hosts[1], groups=names[:1]))
        assert arrives(cloud, packet.udp(end(2), end(1), 5), "p2", "p1")
        assert not arrives(cloud, packet.udp(end(2), end(3), 5), "p2", "p3")

    def test_port_range(self, hosts):
        cloud = server(group("range", rule(protocol=UDP, port_min=1000, port_max=2001)), hosts=hosts)
        open_ports = {
            n
            for n in (1, 999, 1000, 1001, 1500, 2000, 2001, 2002, 65535)
            if arrives(cloud, packet.udp(end(1), end(2), n))
        }
        assert open_ports == {1000, 1001, 1500, 2000, 2001}

    def test_icmp_type_and_code(self, hosts):
        rules = [rule(protocol=ICMP, port_min=8, port_max=0), rule("ingress", "IPv6", protocol=ICMP, port_min=128)]
        cloud = server(group("ping", *rules), hosts=hosts)
        assert arrives(cloud, packet.icmp(end(1), end(2), 8, 0))
        assert not arrives(cloud, packet.icmp(end(1), end(2), 8, 1))
        assert not arrives(cloud, packet.icmp(end(1), end(2), 13, 0))
        assert arrives(cloud, packet.icmp(end6(1), end6(2), 128, 3))
        assert not arrives(cloud, packet.icmp(end6(1), end6(2), 127, 0))

    def test_any_protocol_number(self, hosts):
        cloud = server(group("ah", rule(protocol=51), rule("ingress", "IPv6", protocol=112)), hosts=hosts)
        assert arrives(cloud, packet.ip(end(1), end(2), 51))
        assert not arrives(cloud, packet.ip(end(1), end(2), 112))
        assert arrives(cloud, packet.ip(end6(1), end6(2), 112))

    def test_families_are_apart(self, hosts):
        cloud = server(group("v6", rule("ingress", "IPv6", protocol=TCP)), hosts=hosts)
        assert arrives(cloud, packet.tcp(end6(1), end6(2), 80))
        assert not arrives(cloud, packet.tcp(end(1), end(2), 80))

    def test_remote_group(self, hosts):
        members = GroupMembers(
            id="friends", members=frozenset({Member("10.0.0.1", mac(1)), Member("2001:db8::1", mac(1))})
        )
        rules = [
            rule(direction, family, protocol=TCP, port_min=80, port_max=80, remote_group_id="friends")
            for direction, family in itertools.product(("ingress", "egress"), ("IPv4", "IPv6"))
        ]
        cloud = server(group("web", *rules), hosts=hosts, more=(members,))
        assert arrives(cloud, packet.tcp(end(1), end(2), 80))
        assert arrives(cloud, packet.tcp(end6(1), end6(2), 80))
        assert not arrives(cloud, packet.tcp(end(1), end(2), 81))
        assert not arrives(cloud, packet.udp(end(1), end(2), 80))
        assert not arrives(cloud, packet.tcp(end(3), end(2), 80), "p3")

    def test_two_remotes_with_the_same_ports_and_members(self, hosts):
        one = GroupMembers(id="one", members=frozenset({Member("10.0.0.1", mac(1))}))
        two = AddressGroup(id="two", addresses=frozenset({"10.0.0.0/30", "10.0.0.1/32"}))
        rules = [
            rule(protocol=TCP, port_min=80, port_max=81, remote_group_id="one"),
            rule(protocol=TCP, port_min=80, port_max=80, remote_address_group_id="two"),
            rule(protocol=ICMP, remote_address_group_id="two"),
        ]
        cloud = server(group("web", *rules), hosts=hosts, more=(one, two))
        seen = [(n, p) for n in (1, 3) for p in (80, 81) if arrives(cloud, packet.tcp(end(n), end(2), p), f"p{n}")]
        assert seen == [(1, 80), (1, 81), (3, 80)]
        assert arrives(cloud, packet.icmp(end(3), end(2)), "p3")

    def test_stateless(self, hosts):
        cloud = server(group("web", rule(protocol=TCP, port_min=80, port_max=80), stateful=False), hosts=hosts)
        sent = packet.tcp(end(1), end(2), 80)
        assert arrives(cloud, sent)
        assert not arrives(cloud, packet.reply(sent), "p2", "p1")  # no connection, so no reply without a rule

    def test_a_stateful_client_of_a_stateless_server(self, hosts):
        rules = [rule(protocol=TCP), rule("egress", protocol=TCP)]
        cloud = server(group("free", *rules, stateful=False), hosts=hosts)
        sent = packet.tcp(end(1), end(2), 80)
        assert arrives(cloud, sent)
        assert arrives(cloud, packet.reply(sent), "p2", "p1")
        assert not arrives(cloud, packet.tcp(end(2), end(1), 80), "p2", "p1")

    def test_stateless_both_ways(self, hosts):
        rules = [rule(protocol=TCP), rule("egress", protocol=TCP)]
        cloud = Cloud(*sorted(set(hosts)))
        cloud.apply(
            NET,
            group("free", *rules, stateful=False),
            port("p1", 1, host=hosts[0], groups=["free"]),
            port("p2", 2, host=hosts[1], groups=["free"]),
        )
        sent = packet.tcp(end(1), end(2), 80)
        assert arrives(cloud, sent)
        assert arrives(cloud, packet.reply(sent), "p2", "p1")
        assert not any(host.switch.conntrack.connections for host in cloud.hosts.values())

    def test_a_removed_rule_ends_its_connections_and_a_new_one_revives_them(self, hosts):
        web = group("web", rule(protocol=TCP, port_min=80, port_max=80))
        cloud = server(web, hosts=hosts)
        sent = packet.tcp(end(1), end(2), 80)
        ports: list[Port] = [port(f"p{n}", n, host=hosts[0], groups=["out"]) for n in (1, 3)]
        ports.append(port("p2", 2, host=hosts[1], groups=["web"]))
        assert arrives(cloud, sent)
        assert arrives(cloud, packet.reply(sent), "p2", "p1")
        before = cloud.hosts[hosts[1]].desired
        cloud.apply(NET, OUT, group("web"), *ports)
        flushes = plan_flushes(before, cloud.hosts[hosts[1]].desired)
        assert [*flushes] == [ConntrackFlush(1, 4, "ingress", "10.0.0.2", "", 6, 80, 80)]
        assert not arrives(cloud, sent)
        assert not arrives(cloud, packet.reply(sent), "p2", "p1")
        assert not arrives(cloud, sent)
        cloud.apply(NET, OUT, web, *ports)
        assert arrives(cloud, sent)
        assert arrives(cloud, packet.reply(sent), "p2", "p1")


@pytest.mark.parametrize("hosts", [("h1", "h1"), ("h1", "h2")], ids=["same host", "across hosts"])
@pytest.mark.parametrize("destination", [("ff:ff:ff:ff:ff:ff", "10.0.0.255"), ("01:00:5e:00:00:12", "224.0.0.18")])
def test_broadcast_and_multicast_meet_the_firewall(hosts, destination):
    cloud = server(group("some", rule(protocol=UDP, port_min=9, port_max=9)), hosts=hosts)
    assert arrives(cloud, packet.udp(end(1), destination, 9))
    assert not arrives(cloud, packet.udp(end(1), destination, 10))
    assert arrives(cloud, packet.arp_request(mac(1), "10.0.0.1", "10.0.0.99"))


def test_invalid_packets_are_dropped():
    cloud = server(OPEN)
    bad = packet.Packet(packet.tcp(end(1), end(2), 80).fields, invalid=True)
    assert not arrives(cloud, bad)


def test_an_unprotected_sender_meets_the_receivers_firewall():
    cloud = Cloud("h1")
    web = group("web", rule(protocol=TCP))
    cloud.apply(NET, web, port("p1", 1, port_security_enabled=False), port("p2", 2, groups=["web"]))
    assert arrives(cloud, packet.tcp(end(1), end(2), 80))
    assert arrives(cloud, packet.reply(packet.tcp(end(1), end(2), 80)), "p2", "p1")
    assert not arrives(cloud, packet.udp(end(1), end(2), 80))
    assert not arrives(cloud, packet.udp(end(2), end(1), 80), "p2", "p1")


def test_between_two_ports_of_a_host_each_packet_is_tracked_once():
    """Both firewalls judge by one look-up, as their zone is the network's."""
    cloud = server(group("web", rule(protocol=TCP, port_min=80, port_max=80)))
    conntrack = cloud.hosts["h1"].switch.conntrack
    sent = packet.tcp(end(1), end(2), 80)
    assert arrives(cloud, sent)
    assert arrives(cloud, packet.reply(sent), "p2", "p1")
    assert arrives(cloud, sent)
    assert not arrives(cloud, packet.tcp(end(1), end(2), 81))
    assert conntrack.look_ups == 4


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([], id="no group"),
        pytest.param([group("free", rule(protocol=UDP, port_min=9, port_max=9), stateful=False)], id="stateless group"),
    ],
)
def test_a_port_that_tracks_nothing_does_not_see_what_the_sender_has_tracked(groups):
    """p2 has opened a connection while it had a group: its replies must not pass any more, as no rule lets them in."""
    cloud = server(OPEN)
    sent = packet.tcp(end(2), end(1), 80)
    ports = [port(f"p{number}", number, groups=["open"]) for number in (1, 3)]
    cloud.apply(NET, OPEN, *ports, port("p2", 2, groups=["open"]))
    assert arrives(cloud, sent, "p2", "p1")
    assert arrives(cloud, packet.reply(sent))
    cloud.apply(NET, OPEN, *ports, *groups, port("p2", 2, groups=[each.id for each in groups]))
    assert not arrives(cloud, packet.reply(sent))
    assert arrives(cloud, packet.udp(end(1), end(2), 9)) == bool(groups)


def test_a_stateless_rule_of_a_receiver_with_stateful_groups_too_lets_in_what_the_sender_has_tracked():
    free = group("free", rule(protocol=UDP, port_min=9, port_max=9), stateful=False)
    web = group("web", rule(protocol=TCP, port_min=80, port_max=80))
    cloud = server(free, web)
    assert arrives(cloud, packet.udp(end(1), end(2), 9))
    assert arrives(cloud, packet.tcp(end(1), end(2), 80))
    assert not arrives(cloud, packet.udp(end(1), end(2), 10))
    assert not arrives(cloud, packet.tcp(end(1), end(2), 9))


def test_a_new_member_of_a_large_group_renders_few_flows_again():
    cloud = Cloud("h1")
    host = cloud.hosts["h1"]

    def rendered(number: int) -> dict[FlowKey, Flow]:
        addresses = [f"10.1.{each // 250}.{each % 250 + 1}" for each in range(number)]
        members = GroupMembers(id="g", members=frozenset(Member(address, mac(9)) for address in addresses))
        objects = (NET, group("s", rule(remote_group_id="g")), members, port("p2", 2, groups=["s"]))
        return host.renderer.render(host.resolve(cloud.state_for("h1", objects))).flows["br-int"]

    before, after = rendered(1000), rendered(1001)
    assert len(after.keys() - before.keys()) == 1
    assert len([key for key, flow in after.items() if before.get(key) is not flow]) < 100


def test_a_rule_that_the_switch_cannot_match_allows_nothing():
    dccp, udplite = 33, 136
    cloud = server(group("odd", *(rule(protocol=number, port_min=80, port_max=80) for number in (dccp, udplite))))
    assert not arrives(cloud, packet.ip(end(1), end(2), dccp))


def test_connections_of_removed_members_are_flushed():
    def desired(*addresses: str) -> object:
        cloud = Cloud("h1")
        members = GroupMembers(id="g", members=frozenset(Member(address, mac(9)) for address in addresses))
        cloud.apply(NET, group("s", rule(remote_group_id="g")), members, port("p2", 2, groups=["s"]))
        return cloud.hosts["h1"].desired

    flushes = plan_flushes(desired("10.0.0.8", "10.0.0.9", "2001:db8::9"), desired("10.0.0.8"))
    assert [*flushes] == [ConntrackFlush(1, 4, "ingress", "10.0.0.2", "10.0.0.9")]
    assert plan_flushes(desired("10.0.0.8"), desired("10.0.0.8")) == ()


def test_connections_that_the_port_may_open_itself_are_not_flushed():
    """Its replies would open the connection in the other direction; the mark that flows set ends it for good."""

    def desired(*rules: object) -> object:
        cloud = Cloud("h1")
        cloud.apply(NET, group("s", *rules), port("p2", 2, groups=["s"]))
        return cloud.hosts["h1"].desired

    web = rule(protocol=TCP, port_min=80, port_max=80, remote_ip_prefix="10.1.0.0/16")
    for free in (rule("egress"), rule("egress", protocol=TCP), rule("egress", remote_ip_prefix="10.0.0.0/8")):
        assert plan_flushes(desired(web, free), desired(free)) == ()
    others = [
        rule("egress", "IPv6"),
        rule("egress", protocol=UDP),
        rule("egress", remote_ip_prefix="10.1.1.0/24"),
        rule("egress", protocol=TCP, port_min=80, port_max=80),
    ]
    for other in others:
        (flush,) = plan_flushes(desired(web, other), desired(other))
        assert flush == ConntrackFlush(1, 4, "ingress", "10.0.0.2", "10.1.0.0/16", 6, 80, 80)


@pytest.mark.parametrize("members, ports, rules", [(1, 1, 1), (500, 50, 20), (1000, 10, 5)])
def test_flows_for_a_remote_group(members, ports, rules):
    """N members, P ports and M rules cost N + P × M, and what the ports cost without rules."""
    remote = GroupMembers(id="g", members=frozenset(Member(f"10.{n >> 8}.{n & 255}.1", mac(1)) for n in range(members)))
    ruleset = [rule(protocol=TCP, port_min=1000 + n, port_max=1000 + n, remote_group_id="g") for n in range(rules)]
    wired = [port(f"p{n}", n, groups=["s"]) for n in range(1, ports + 1)]

    def count(*objects: object) -> int:
        cloud = Cloud("h1")
        cloud.apply(NET, remote, *objects, *wired)
        return len(cloud.hosts["h1"].switch.bridges["br-int"].tables.flows)

    assert count(group("s", *ruleset)) - count(group("s")) == members + ports * rules + 1
