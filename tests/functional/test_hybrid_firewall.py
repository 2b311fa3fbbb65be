"""Real packets through the Linux bridges of hybrid ports: which connections security groups allow, and what ends them."""

from __future__ import annotations

import socket
import struct
import uuid
from collections.abc import Iterator

import pytest

from neutrino.agent.l2.hybrid import render
from neutrino.model import state
from tests.support.hybrid import (
    NEVER,
    HybridHost,
    Instance,
    arrives,
    frame_passes,
    passes,
    ping_passes,
    tcp_connection,
    tcp_passes,
    udp_passes,
)
from tests.support.l2 import OPEN, OUT, group, mac, network, port, rule

ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
ETHERTYPE = {4: "IPv4", 6: "IPv6"}
CLIENT, SERVER, OTHER = 1, 2, 3
NET = network("net")
IDS = {number: str(uuid.uuid4()) for number in (CLIENT, SERVER, OTHER)}


def hybrid(number: int, *groups: str, **changes: object) -> state.Port:
    return port(IDS[number], number, groups=groups, hybrid_plug=True, **changes)


class Bench:
    """A client and another one that may send anything, and a server whose rules a test chooses."""

    def __init__(self) -> None:
        self.host = HybridHost()
        try:
            self.client, self.server, self.other = (self.host.plug(hybrid(number), number) for number in IDS)
        except BaseException:
            self.host.close()
            raise

    def serve(self, *rules: state.Rule, more: tuple[state.Object, ...] = (), **changes: object) -> str:
        """The text of the plan that was carried out."""
        groups = [OUT, OPEN, group("server", *rules)]
        ports = [hybrid(CLIENT, "out"), hybrid(OTHER, "out"), hybrid(SERVER, "server", **changes)]
        return self.host.apply(NET, *groups, *ports, *more).text()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.host.close()


def every_way(source: Instance, target: Instance, family: int) -> list[bool]:
    return [
        udp_passes(source, target, 9, family, expected=False),
        tcp_passes(source, target, 80, family, expected=False),
        ping_passes(source, target, family, expected=False),
    ]


@pytest.mark.parametrize("family", [4, 6])
class TestBothFamilies:
    def test_nothing_passes_by_default(self, bench, family):
        bench.serve()
        assert every_way(bench.client, bench.server, family) == [False] * 3
        assert every_way(bench.server, bench.client, family) == [False] * 3

    def test_an_allowed_port_and_its_replies(self, bench, family):
        bench.serve(rule(ethertype=ETHERTYPE[family], protocol=TCP, port_min=80, port_max=81))
        with tcp_connection(bench.client, bench.server, 80, family) as ends:
            assert ends is not None
            client, server = ends
            assert passes(client, server, b"question")
            assert passes(server, client, b"answer")
        assert tcp_passes(bench.other, bench.server, 81, family)
        assert not tcp_passes(bench.client, bench.server, 82, family, expected=False)
        assert not udp_passes(bench.client, bench.server, 80, family, expected=False)
        assert not tcp_passes(bench.server, bench.client, 80, family, expected=False)

    def test_icmp_by_type(self, bench, family):
        kind = {4: 8, 6: 128}[family]
        bench.serve(rule(ethertype=ETHERTYPE[family], protocol=ICMP, port_min=kind, port_max=0))
        assert ping_passes(bench.client, bench.server, family)
        assert not ping_passes(bench.server, bench.client, family, expected=False)
        bench.serve(rule(ethertype=ETHERTYPE[family], protocol=ICMP, port_min=kind + 1))
        assert not ping_passes(bench.client, bench.server, family, expected=False)

    def test_a_prefix(self, bench, family):
        one = bench.client.address(family)
        bench.serve(rule(ethertype=ETHERTYPE[family], remote_ip_prefix=f"{one}/{32 if family == 4 else 128}"))
        assert udp_passes(bench.client, bench.server, 9, family)
        assert not udp_passes(bench.other, bench.server, 9, family, expected=False)

    def test_members_of_a_group_are_elements_of_a_set(self, bench, family):
        rules = [rule(ethertype=ETHERTYPE[family], protocol=UDP, remote_group_id="friends")]
        bench.serve(*rules, more=(members("friends", bench.client.address(family)),))
        assert udp_passes(bench.client, bench.server, 9, family)
        assert not udp_passes(bench.other, bench.server, 9, family, expected=False)

        both = members("friends", bench.client.address(family), bench.other.address(family))
        assert bench.serve(*rules, more=(both,)) == f"ipset add NIPv{family}friends {bench.other.address(family)}"
        assert udp_passes(bench.other, bench.server, 9, family)

        text = bench.serve(*rules, more=(members("friends", bench.other.address(family)),))
        assert f"ipset del NIPv{family}friends {bench.client.address(family)}" in text.splitlines()
        assert "iptables" not in text
        assert not udp_passes(bench.client, bench.server, 9, family, expected=False)

    def test_a_rule_removed_from_a_living_connection(self, bench, family):
        """Although the server may send what it likes: its packets must not open the connection again."""
        out = rule("egress", ETHERTYPE[family])
        web = rule(ethertype=ETHERTYPE[family], protocol=TCP, port_min=80, port_max=80)
        bench.serve(out, web)
        with tcp_connection(bench.client, bench.server, 80, family) as ends:
            assert ends is not None
            client, server = ends
            assert passes(client, server, b"one")
            assert passes(server, client, b"two")
            bench.serve(out)
            assert not passes(server, client, b"three", expected=False)
            assert not passes(client, server, b"four", expected=False)
            assert not passes(server, client, b"five", expected=False)
            bench.serve(out, web)
            assert arrives(server, b"four", within=10)  # sent again; then packets of the other side pass too
            assert arrives(client, b"five", within=10)

    def test_a_one_way_stream_ends_with_its_rule(self, bench, family):
        """Only the server sends, and keeps the connection alive."""
        out = rule("egress", ETHERTYPE[family])
        bench.serve(out, rule(ethertype=ETHERTYPE[family], protocol=UDP, port_min=9, port_max=9))
        with stream(bench.client, bench.server, family) as (client, server, to):
            server.sendto(b"one", to)
            assert arrives(client, b"one", within=3)
            text = bench.serve(out)
            assert f"conntrack mark connections that no rule of port {IDS[SERVER]} allows" in text.splitlines()
            server.sendto(b"two", to)
            assert not arrives(client, b"two", within=NEVER)

    def test_a_member_that_leaves_loses_its_stream(self, bench, family):
        rules = [rule("egress", ETHERTYPE[family]), rule(ethertype=ETHERTYPE[family], remote_group_id="friends")]
        everybody = [bench.client.address(family), bench.other.address(family)]
        bench.serve(*rules, more=(members("friends", *everybody),))
        with stream(bench.client, bench.server, family) as (client, server, to):
            bench.serve(*rules, more=(members("friends", everybody[1]),))
            server.sendto(b"two", to)
            assert not arrives(client, b"two", within=NEVER)

    def test_a_stream_that_another_rule_still_allows(self, bench, family):
        """Without waiting for a packet of the client, which sends none."""
        prefix = {4: "10.0.0.0/24", 6: "2001:db8::/64"}[family]
        wide = rule(ethertype=ETHERTYPE[family], protocol=UDP)
        narrow = rule(ethertype=ETHERTYPE[family], protocol=UDP, remote_ip_prefix=prefix, port_min=5, port_max=9)
        bench.serve(wide, narrow)
        with stream(bench.client, bench.server, family) as (client, server, to):
            bench.serve(narrow)
            server.sendto(b"two", to)
            assert arrives(client, b"two", within=3)


def members(name: str, *addresses: str) -> state.GroupMembers:
    return state.GroupMembers(id=name, members=frozenset(state.Member(address, mac(9)) for address in addresses))


class stream:
    """A client that has sent one request over UDP to a server: both sockets, and the address for replies."""

    def __init__(self, client: Instance, server: Instance, family: int) -> None:
        self._client = client.socket(socket.SOCK_DGRAM, family)
        self._server = server.socket(socket.SOCK_DGRAM, family, 9)
        self._client.sendto(b"please", (server.address(family), 9))
        assert arrives(self._server, b"please", within=3)

    def __enter__(self) -> tuple[socket.socket, socket.socket, tuple[str, int]]:
        return self._client, self._server, self._client.getsockname()[:2]

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._server.close()


def test_a_client_receives_replies_and_nothing_else(bench):
    bench.serve(rule(protocol=UDP), rule("egress", protocol=UDP))
    with stream(bench.client, bench.server, 4) as (client, server, to):
        server.sendto(b"answer", to)
        assert arrives(client, b"answer", within=3)
    assert not udp_passes(bench.server, bench.client, 9, expected=False)


def test_an_address_group(bench):
    hosts = state.AddressGroup(id="hosts", addresses=frozenset({"10.0.0.1/32", "192.0.2.0/24"}))
    bench.serve(rule(protocol=UDP, remote_address_group_id="hosts"), more=(hosts,))
    assert udp_passes(bench.client, bench.server, 9)
    assert not udp_passes(bench.other, bench.server, 9, expected=False)
    everybody = state.AddressGroup(id="hosts", addresses=frozenset({"0.0.0.0/0"}))
    bench.serve(rule(protocol=UDP, remote_address_group_id="hosts"), more=(everybody,))
    assert udp_passes(bench.other, bench.server, 9)


def test_the_rules_themselves_end_a_connection(bench):
    """Without its mark, the next packet of the client would mark it again."""
    bench.serve(rule("egress"), rule(protocol=UDP))
    with stream(bench.client, bench.server, 4) as (client, server, to):
        server.sendto(b"one", to)
        assert arrives(client, b"one", within=3)
        bench.serve(rule("egress"))
        bench.host.conntrack.mark(tracked(bench.host, IDS[SERVER]), 0)
        client.sendto(b"two", server.getsockname())
        assert not arrives(server, b"two", within=NEVER)
        server.sendto(b"three", to)
        assert not arrives(client, b"three", within=NEVER)


# --- spoofing ---


def test_spoofed_addresses_are_dropped(bench):
    bench.serve(rule())
    assert frame_passes(bench.client, bench.server, 9)
    assert not frame_passes(bench.client, bench.server, 9, source_ip="10.0.0.77", expected=False)
    assert not frame_passes(bench.client, bench.server, 9, source_mac=mac(77), expected=False)
    assert not frame_passes(bench.client, bench.server, 9, source_ip="10.0.0.3", source_mac=mac(3), expected=False)


def test_an_allowed_address_pair(bench):
    pairs = (state.AddressPair(mac(77), "10.0.0.64/28"),)
    ports = [hybrid(CLIENT, "out", allowed_address_pairs=pairs), hybrid(SERVER, "open")]
    bench.host.apply(NET, OUT, OPEN, *ports)
    assert frame_passes(bench.client, bench.server, 9, source_ip="10.0.0.70", source_mac=mac(77))
    assert not frame_passes(bench.client, bench.server, 9, source_ip="10.0.0.70", expected=False)
    assert not frame_passes(bench.client, bench.server, 9, source_ip="10.0.0.80", source_mac=mac(77), expected=False)


def test_dhcp_replies_of_instances_are_dropped_and_requests_pass(bench):
    bench.serve(rule(), rule("egress"))
    assert not frame_passes(bench.client, bench.server, 68, source_port=67, expected=False)
    bench.host.apply(NET, OPEN, group("none"), hybrid(CLIENT, "open"), hybrid(SERVER, "none"))
    asking = {"source_port": 68, "source_ip": "0.0.0.0"}
    assert frame_passes(bench.server, bench.client, 67, **asking)
    assert not frame_passes(bench.server, bench.client, 67, **asking, source_mac=mac(77), expected=False)
    assert not frame_passes(bench.server, bench.client, 66, **asking, expected=False)


def test_router_advertisements_of_instances_are_dropped(bench):
    bench.serve(rule("ingress", "IPv6"), rule("egress", "IPv6"))
    assert icmpv6_passes(bench.server, bench.client, 135)
    assert not icmpv6_passes(bench.server, bench.client, 134)


def icmpv6_passes(source: Instance, target: Instance, kind: int) -> bool:
    body = struct.pack("!BBHI", kind, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, target.address(6)) + b"unlikely"
    arguments = (socket.SOCK_RAW, 6, 0, socket.IPPROTO_ICMPV6)
    with source.socket(*arguments) as sender, target.socket(*arguments) as receiver:
        sender.sendto(body, (target.address(6), 0))
        return arrives(receiver, b"unlikely", within=3 if kind == 135 else NEVER)


# --- ports of other kinds ---


def test_without_port_security_everything_passes(bench):
    bench.serve(port_security_enabled=False)
    for family in (4, 6):
        assert udp_passes(bench.client, bench.server, 9, family)
        assert tcp_passes(bench.client, bench.server, 80, family)
        assert ping_passes(bench.client, bench.server, family)
    bench.host.apply(NET, OPEN, hybrid(CLIENT, "open"), hybrid(SERVER, port_security_enabled=False))
    assert frame_passes(bench.server, bench.client, 9, source_ip="10.0.0.77", source_mac=mac(77))


def test_a_port_that_is_down_is_silent(bench):
    bench.serve(rule(), rule("egress"), rule("ingress", "IPv6"), rule("egress", "IPv6"))
    assert udp_passes(bench.client, bench.server, 9)
    bench.serve(rule(), rule("egress"), rule("ingress", "IPv6"), rule("egress", "IPv6"), admin_state_up=False)
    for family in (4, 6):
        assert every_way(bench.client, bench.server, family) == [False] * 3
        assert every_way(bench.server, bench.client, family) == [False] * 3


def test_a_stateless_group(bench):
    free = group("free", rule(protocol=UDP, port_min=9, port_max=9), stateful=False)
    bench.host.apply(NET, OPEN, free, hybrid(CLIENT, "open"), hybrid(SERVER, "free"))
    with stream(bench.client, bench.server, 4) as (client, server, to):
        server.sendto(b"answer", to)
        assert not arrives(client, b"answer", within=NEVER)
        assert not tracked(bench.host, IDS[SERVER])
        both = group("free", *free.rules, rule("egress", protocol=UDP), stateful=False)
        bench.host.apply(NET, OPEN, both, hybrid(CLIENT, "open"), hybrid(SERVER, "free"))
        server.sendto(b"answer", to)
        assert arrives(client, b"answer", within=3)


def test_a_stateless_group_beside_a_stateful_one(bench):
    """Only what the stateless rule allows is not tracked."""
    free = group("free", rule(protocol=UDP, port_min=9, port_max=9), stateful=False)
    web = group("web", rule(protocol=UDP, port_min=10, port_max=10))
    bench.host.apply(NET, OPEN, free, web, hybrid(CLIENT, "open"), hybrid(SERVER, "free", "web"))
    assert udp_passes(bench.client, bench.server, 9)
    assert udp_passes(bench.client, bench.server, 10)
    assert not udp_passes(bench.client, bench.server, 11, expected=False)
    followed = {entry.destination_port for entry in tracked(bench.host, IDS[SERVER])}
    assert 10 in followed
    assert 9 not in followed


def tracked(host: HybridHost, port_id: str) -> list:
    """The tracked connections of a port."""
    rules = host.iptables.read_rules(4)["raw"][render.PREROUTING]
    zones = [
        rule.text.split()[-1]
        for rule in rules
        if f" {render.port_device('tap', port_id)} " in rule.text and "--zone" in rule.text
    ]
    return [entry for zone in zones for entry in host.conntrack.read([int(zone)])]


def test_the_host_is_not_reached_over_the_bridge(bench):
    """An instance can address the bridge itself, where the host would listen."""
    bridge, host = f"qbr{IDS[SERVER][:11]}", bench.host.namespace
    host.run("ip", "addr", "add", "10.0.0.200/24", "dev", bridge)
    try:
        bench.serve(rule("egress"), rule())
        with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
            listener.bind(("10.0.0.200", 9))
            with bench.server.socket(socket.SOCK_DGRAM) as sender:
                sender.sendto(b"question", ("10.0.0.200", 9))
                assert not arrives(listener, b"question", within=NEVER)
                bench.serve(port_security_enabled=False)
                sender.sendto(b"again", ("10.0.0.200", 9))
                assert arrives(listener, b"again", within=3)
    finally:
        host.run("ip", "addr", "del", "10.0.0.200/24", "dev", bridge)


# --- what is not ours ---


def test_rules_and_sets_of_others_are_left_alone(bench):
    inside = bench.host.namespace
    bench.serve()
    theirs = (
        "*filter\n:theirs - [0:0]\n-A FORWARD -s 192.0.2.7/32 -j theirs\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n"
        "-A theirs -m comment --comment mine -j DROP\nCOMMIT\n*nat\n-A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE\nCOMMIT\n"
    )
    inside.run("iptables-restore", "--noflush", text=theirs)
    inside.run("ipset", "create", "theirs", "hash:net")
    try:
        before = foreign(inside.run("iptables-save"))
        bench.serve(rule(remote_group_id="friends"), more=(members("friends", "10.0.0.1"),))
        assert udp_passes(bench.client, bench.server, 9)
        assert foreign(inside.run("iptables-save")) == before
        bench.host.apply(NET)
        left = inside.run("iptables-save")
        assert foreign(left) == before
        assert "neutron-openvswi" not in left + inside.run("ip6tables-save")
        assert inside.run("ipset", "list", "-n").split() == ["theirs"]
    finally:
        inside.run("iptables", "-F", "FORWARD")
        inside.run("iptables", "-F", "INPUT")
        inside.run("iptables", "-F", "theirs")
        inside.run("iptables", "-X", "theirs")
        inside.run("iptables", "-t", "nat", "-F")
        inside.run("ipset", "destroy", "theirs")
        bench.host.firewall.forget()


def foreign(saved: str) -> list[str]:
    """Chains and rules of others, without the counters of chains: those count every packet that passes meanwhile."""
    theirs = [line for line in saved.splitlines() if not line.startswith("#") and "neutron-openvswi" not in line]
    return [line.partition(" [")[0] if line.startswith(":") else line for line in theirs]


@pytest.mark.parametrize(
    "damage",
    [
        ("iptables", "-F", render.GROUPS),
        ("iptables", "-D", "FORWARD", "1"),
        ("iptables", "-I", render.GROUPS, "1", "-j", "ACCEPT"),
        ("iptables", "-D", render.port_chain("i", IDS[SERVER]), "1"),
        ("ip6tables", "-t", "raw", "-F"),
        ("ipset", "add", "NIPv4friends", "10.0.0.3"),
        ("tee", "/proc/sys/net/bridge/bridge-nf-call-iptables"),
    ],
    ids=range(7),  # names of chains are another for every process
)
def test_damaged_rules_are_repaired(bench, damage):
    rules = [rule(protocol=UDP, remote_group_id="friends")]
    bench.serve(*rules, more=(members("friends", "10.0.0.1"),))
    bench.host.namespace.run(*damage, text="0\n")
    bench.host.firewall.forget()
    assert bench.serve(*rules, more=(members("friends", "10.0.0.1"),))
    assert udp_passes(bench.client, bench.server, 9)
    assert not udp_passes(bench.other, bench.server, 9, expected=False)


def test_zones_survive_a_restart_of_the_agent(bench):
    bench.serve(rule())
    with stream(bench.client, bench.server, 4) as (client, server, to):
        desired = bench.host.resolve(NET, group("server", rule()), hybrid(SERVER, "server"))
        bench.host.firewall = type(bench.host.firewall)(bench.host.iptables, bench.host.conntrack)
        plan = bench.host.firewall.plan(desired)
        assert plan.fresh_zones == ()
        bench.host.firewall.apply(plan)
        server.sendto(b"answer", to)
        assert arrives(client, b"answer", within=3)


def test_chains_of_the_same_names_are_taken_over(bench):
    """As another agent leaves them: its rules are replaced, its zones are kept."""
    bench.host.apply(NET)
    inside, tap = bench.host.namespace, render.port_device("tap", IDS[SERVER])
    inside.run(
        "iptables-restore",
        "--noflush",
        text=(
            f"*raw\n:{render.PREROUTING} - [0:0]\n-A PREROUTING -j {render.PREROUTING}\n"
            f'-A {render.PREROUTING} -m physdev --physdev-in {tap} -m comment --comment "Set zone" -j CT --zone 5000\n'
            f"COMMIT\n*filter\n:{render.PREFIX}local - [0:0]\n:{render.FORWARD} - [0:0]\n"
            ":neutron-filter-top - [0:0]\n-A FORWARD -j neutron-filter-top\n-A OUTPUT -j neutron-filter-top\n"
            f"-A neutron-filter-top -j {render.PREFIX}local\n"
            f"-A FORWARD -j {render.FORWARD}\n-A OUTPUT -j {render.PREFIX}local\n-A {render.FORWARD} -j ACCEPT\nCOMMIT\n"
        ),
    )
    bench.host.firewall.forget()
    bench.serve(rule(protocol=UDP))
    assert udp_passes(bench.client, bench.server, 9)
    assert {entry.zone for entry in tracked(bench.host, IDS[SERVER])} == {5000}
    assert not tcp_passes(bench.client, bench.server, 9, expected=False)
    left = inside.run("iptables-save")
    assert f"{render.PREFIX}local" not in left
    assert "neutron-filter-top" not in left
    jumps = [line for line in left.splitlines() if line.startswith("-A FORWARD") and render.PREFIX in line]
    assert len(jumps) == 1, "ours"
    bench.host.apply(NET)
    assert "neutron-openvswi" not in inside.run("iptables-save")
