"""The hybrid firewall: rendered rules, plans and audits, on fake drivers."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from neutrino.agent.l2.connections import ended_connections
from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort
from neutrino.agent.l2.hybrid import render as rendering
from neutrino.agent.l2.hybrid.firewall import ZONES, HybridFirewall, HybridPlan, plan_sets, read_zones
from neutrino.agent.l2.hybrid.render import CAPACITY, ENDED, ConflictingPorts, render, render_match, render_sets
from neutrino.agent.l2.local_vlans import allocate
from neutrino.dataplane.conntrack.api import Connection
from neutrino.dataplane.iptables.api import SETTINGS, AddressSet, IptablesError, Rule
from neutrino.dataplane.netlink.values import HOST
from neutrino.model import state
from tests.fakes.conntrack import FakeKernelConntrack
from tests.fakes.iptables import FakeIptables
from tests.fakes.netlink import FakeNetlink
from tests.support.l2 import OPEN, OUT, Cloud, group, mac, network, port, rule

ICMP, TCP, UDP, ICMPV6, SCTP, DCCP, UDPLITE = 1, 6, 17, 58, 132, 33, 136
NET = network("net")


def effective(direction: str = "ingress", family: int = 4, **values: object) -> EffectiveRule:
    given = {"protocol": None, "port_min": None, "port_max": None, "prefix": None, "remote": None, "stateful": True}
    return EffectiveRule(direction=direction, family=family, **(given | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given, match",
    [
        (effective(), ""),
        (effective(protocol=TCP), "-p 6"),
        (effective(protocol=TCP, port_min=80, port_max=80), "-p 6 -m tcp --dport 80"),
        (effective(protocol=UDP, port_min=1, port_max=65535), "-p 17 -m udp --dport 1:65535"),
        (effective(protocol=SCTP, port_min=5, port_max=6), "-p 132 -m sctp --dport 5:6"),
        (effective(protocol=DCCP, port_min=5, port_max=6), "-p 33 -m multiport --dports 5:6"),
        (effective(protocol=UDPLITE, port_min=5, port_max=5), "-p 136 -m multiport --dports 5"),
        (effective(protocol=50), "-p 50"),
        (effective(protocol=50, port_min=1, port_max=2), None),
        (effective(protocol=0), None),
        (effective(protocol=ICMP), "-p 1"),
        (effective(protocol=ICMP, port_min=8), "-p 1 -m icmp --icmp-type 8"),
        (effective(protocol=ICMP, port_min=3, port_max=1), "-p 1 -m icmp --icmp-type 3/1"),
        (effective(family=6, protocol=ICMP, port_min=128), "-p 58 -m icmp6 --icmpv6-type 128"),
        (effective(family=6, protocol=ICMPV6), "-p 58"),
        (effective(prefix="10.0.0.0/8"), "-s 10.0.0.0/8"),
        (effective("egress", prefix="10.0.0.0/8", protocol=TCP), "-d 10.0.0.0/8 -p 6"),
        (effective(prefix="2001:db8::/64"), None),
        (effective("egress", 6, prefix="2001:db8::/64"), "-d 2001:db8::/64"),
        (effective(remote="group:g"), "-m set --match-set NIPv4g src"),
        (effective("egress", 6, remote="addresses:g", protocol=TCP), "-m set --match-set NIPv6g dst -p 6"),
    ],
    ids=str,
)
def test_matches(given, match):
    assert render_match(given) == match


def test_names_fit():
    port_id = "0123456789-abcdef-0123456789abcdef0123"
    assert {len(rendering.port_chain(kind, port_id)) for kind in "ios"} == {28}
    assert max(len(chain) for chain in (rendering.GROUPS, rendering.FALLBACK, rendering.PREROUTING)) <= 28
    assert {len(rendering.port_device(kind, port_id)) for kind in ("tap", "qvb")} == {14}
    name = rendering.set_name(f"group:{port_id}", 4)
    assert (len(name), name[:10]) == (31, "NIPv401234")
    assert len(rendering.temporary_set(name)) <= 31
    assert rendering.is_our_set(rendering.temporary_set(name))


def test_ports_with_the_same_id_prefix_are_refused():
    ports = [LocalPort(f"0123456789{end}", 1, 1, secured=True) for end in "ab"]
    with pytest.raises(ConflictingPorts, match="0123456789a and 0123456789b"):
        render(ports, (), {}, {})


# --- zones ---


def raw(*texts: str) -> dict[str, dict[str, tuple[Rule, ...]]]:
    return {"raw": {rendering.PREROUTING: tuple(Rule(text) for text in texts)}}


def test_zones_are_read_back():
    tables = raw(
        "-m physdev --physdev-in tap1 -j CT --zone 4100",
        '-m physdev --physdev-in qvb1 -m comment --comment "x" -j CT --zone 4100',
        '-m physdev --physdev-in tap2 -m comment --comment "Set zone for 2" -j CT --zone 5000',
        "-m physdev --physdev-in tap3 -j CT --notrack",
    )
    assert read_zones(tables) == {"tap1": 4100, "tap2": 5000}
    assert read_zones({}) == {}


def test_a_port_keeps_its_zone_and_no_two_share_one():
    held = {"a": 4099, "b": 4097, "c": 4097, "d": 7, "gone": 4098}
    assert allocate("dcba", held, numbers=ZONES) == {"a": 4099, "b": 4097, "c": 4098, "d": 4100}


# --- sets ---


def desired(*objects: state.Object) -> Desired:
    cloud = Cloud("h1")
    return cloud.hosts["h1"].resolve(cloud.state_for("h1", objects))


def members(name: str, *addresses: str) -> state.GroupMembers:
    return state.GroupMembers(id=name, members=frozenset(state.Member(address, mac(9)) for address in addresses))


def test_sets_hold_the_members_of_their_family():
    both = [rule(remote_group_id="g"), rule("egress", "IPv6", remote_group_id="g")]
    everybody = members("g", "10.0.0.1", "10.1.0.0/16", "2001:db8::1", "::/0")
    seen = desired(NET, everybody, group("s", *both), port("p1", 1, groups=["s"], hybrid_plug=True))
    assert render_sets(seen.ports, seen.remotes) == {
        "NIPv4g": AddressSet("NIPv4g", 4, frozenset({"10.0.0.1", "10.1.0.0/16"}), capacity=CAPACITY),
        "NIPv6g": AddressSet("NIPv6g", 6, frozenset({"2001:db8::1", "::/1", "8000::/1"}), capacity=CAPACITY),
    }


def ours(name: str, *addresses: str, capacity: int = CAPACITY) -> dict[str, AddressSet]:
    return {name: AddressSet(name, 4, frozenset(addresses), capacity=capacity)}


def test_a_changed_member_is_one_line():
    before, after = plan_sets(ours("NIPv4g", "10.0.0.1", "10.0.0.2"), ours("NIPv4g", "10.0.0.2", "10.0.0.3"))
    assert (before, after) == ("add NIPv4g 10.0.0.1\ndel NIPv4g 10.0.0.3\n", "")


def test_a_set_with_other_properties_is_swapped():
    wanted, there = ours("NIPv4g", "10.0.0.1"), ours("NIPv4g", "10.0.0.9", capacity=10)
    iptables = FakeIptables()
    iptables.restore_sets("create NIPv4g hash:net family inet maxelem 10\nadd NIPv4g 10.0.0.9\n")
    iptables.restore_rules(4, "*filter\n-A FORWARD -m set --match-set NIPv4g src -j DROP\nCOMMIT\n")
    left_behind = rendering.temporary_set("NIPv4g")
    iptables.restore_sets(f"create {left_behind} hash:net family inet maxelem 7\n")
    before, after = plan_sets(wanted, {**there, **ours(left_behind, capacity=7)})
    iptables.restore_sets(before + after)
    assert iptables.read_sets() == wanted


def test_unused_sets_of_ours_are_destroyed():
    there = {**ours("NIPv4g"), **ours("NIPv4h"), **ours("theirs"), **ours(rendering.temporary_set("NIPv4g"))}
    before, after = plan_sets(ours("NIPv4g"), there)
    assert before == ""
    assert set(after.splitlines()) == {"destroy NIPv4h", f"destroy {rendering.temporary_set('NIPv4g')}"}


# --- the whole ---


class Kernel:
    def __init__(self, *connections: Connection) -> None:
        self.iptables = CountingIptables()
        self.conntrack = FakeKernelConntrack(*connections)
        self.start()

    def start(self) -> None:
        """As after a restart of the agent."""
        self.firewall = HybridFirewall(self.iptables, self.conntrack)

    def apply(self, *objects: state.Object) -> HybridPlan:
        seen = desired(*objects)
        plan = self.firewall.plan(seen)
        self.firewall.apply(plan)
        again = self.firewall.plan(seen)
        assert not again, again.text()
        assert again.text() == ""
        return plan

    def content(self) -> tuple[object, ...]:
        """Rules and sets; chains have no order."""
        return self.iptables.read_rules(4), self.iptables.read_rules(6), self.iptables.read_sets()


def test_on_the_userspace_datapath_the_bridges_end_of_the_veth_pair_computes_checksums() -> None:
    kernel, netlink = Kernel(), FakeNetlink()
    device = rendering.port_device("qvb", "p1")
    netlink.add_device(HOST, device, "veth")
    kernel.firewall = HybridFirewall(kernel.iptables, kernel.conntrack, netlink)
    plan = kernel.apply(NET, WEB, FRIENDS, hybrid("p1", 1, "web"), hybrid("p2", 2, "web"))  # p2's is not plugged yet
    assert f"ethtool -K {device} tx off" in plan.text().splitlines()
    found = netlink.read_device(HOST, device)
    assert found is not None
    assert not found.tx_checksum


class CountingIptables(FakeIptables):
    reads = 0

    def read_rules(self, family: int) -> dict[str, dict[str, tuple[Rule, ...]]]:
        self.reads += 1
        return super().read_rules(family)


def hybrid(name: str, number: int, *groups: str, **changes: object) -> state.Port:
    return port(name, number, groups=groups, hybrid_plug=True, **changes)


FREE = group("free", rule(protocol=UDP, port_min=9, port_max=9), rule("egress", "IPv6"), stateful=False)
WEB = group("web", rule(protocol=TCP, port_min=80, port_max=80), rule(remote_group_id="friends", protocol=UDP))
FRIENDS = members("friends", "10.0.0.8", "2001:db8::8")
PORTS = [
    hybrid("p1", 1, "web"),
    hybrid("p2", 2, "web", "free"),
    hybrid("p3", 3, "free"),
    hybrid("p4", 4, port_security_enabled=False),
    hybrid("p5", 5, "web", admin_state_up=False),
    port("p6", 6, groups=["web"]),
    hybrid("p7", 7, device_owner="network:dhcp"),
]
ALL = [NET, OUT, OPEN, FREE, WEB, FRIENDS, *PORTS]


def test_the_second_plan_is_empty_also_for_an_agent_that_was_restarted():
    kernel = Kernel()
    assert kernel.apply(*ALL)
    kernel.start()
    assert not kernel.firewall.plan(desired(*ALL))


def test_a_native_port_has_no_rules_here():
    kernel = Kernel()
    kernel.apply(*ALL)
    assert not [text for text in rules_of(kernel) if "tapp6" in text]


def rules_of(kernel: Kernel) -> list[str]:
    tables = [kernel.iptables.read_rules(family) for family in (4, 6)]
    return [rule.text for both in tables for chains in both.values() for held in chains.values() for rule in held]


def test_the_result_depends_on_the_state_alone():
    choose = random.Random(5)
    for _ in range(8):
        wanted = [*ALL[:6], *(entry for entry in PORTS if choose.random() < 0.6)]
        direct, by_way = Kernel(), Kernel()
        direct.apply(*wanted)
        for _ in range(4):
            others = [entry for entry in PORTS if choose.random() < 0.6]
            choose.shuffle(others)
            friends = members("friends", *(f"10.0.0.{choose.randint(1, 9)}" for _ in range(3)))
            by_way.apply(NET, OPEN, group("web", *WEB.rules[choose.randint(0, 2) :]), FREE, friends, *others)
            if choose.random() < 0.5:
                by_way.start()
        by_way.apply(*wanted)
        assert without_zones(by_way) == without_zones(direct)


def without_zones(kernel: Kernel) -> tuple[object, ...]:
    """Zones depend on the history, and with them the marks of their rules."""
    *tables, sets = kernel.content()
    stripped = [
        {
            name: [text.text.split(" -m comment")[0] if " CT --zone" in text.text else text for text in held]
            for chains in family.values()
            for name, held in chains.items()
        }
        for family in tables
    ]
    return *stripped, sets


def test_without_ports_nothing_of_ours_is_left():
    kernel = Kernel()
    empty = kernel.content()
    kernel.apply(*ALL)
    kernel.apply(NET)
    assert kernel.content() == empty


def test_rules_of_others_stay():
    kernel = Kernel()
    theirs = "*filter\n:theirs - [0:0]\n-A theirs -j DROP\n-A FORWARD -j theirs\nCOMMIT\n"
    kernel.iptables.restore_rules(4, theirs)
    kernel.iptables.restore_sets("create theirs hash:net family inet maxelem 5\n")
    before = kernel.content()
    kernel.apply(*ALL)
    chains = kernel.iptables.read_rules(4)["filter"]
    assert [rule.target for rule in chains["FORWARD"]] == [rendering.FORWARD, "theirs"]
    kernel.apply(NET)
    assert kernel.content() == before


def test_duplicate_jumps_are_deleted():
    """Also one without our mark, as Neutron's agent leaves it."""
    kernel = Kernel()
    kernel.apply(*ALL)
    (jump,) = kernel.iptables.read_rules(4)["filter"]["FORWARD"]
    kernel.iptables.restore_rules(4, f"*filter\n-A FORWARD {jump.text}\n-A FORWARD -j {rendering.FORWARD}\nCOMMIT\n")
    kernel.firewall.forget()
    assert kernel.apply(*ALL).text().splitlines() == [
        "iptables *filter",
        f"iptables -D FORWARD {jump.text}",
        f"iptables -D FORWARD -j {rendering.FORWARD}",
        "iptables COMMIT",
    ]


def test_nothing_is_read_where_nothing_has_changed():
    kernel = Kernel()
    kernel.apply(*ALL)
    read = kernel.iptables.reads
    assert not kernel.firewall.plan(desired(*ALL))
    assert kernel.iptables.reads == read
    assert kernel.firewall.plan(desired(*ALL[:-2]))
    assert kernel.iptables.reads > read
    kernel.firewall.forget()
    assert not kernel.firewall.plan(desired(*ALL))


def test_without_hybrid_ports_there_is_nothing_to_do():
    kernel = Kernel()
    kernel.iptables.bridges_pass = False  # and nothing is asked of the kernel
    assert not kernel.firewall.plan(desired(NET, port("p1", 1), port("p2", 2, admin_state_up=False)))


def test_a_kernel_without_br_netfilter_is_an_error_before_any_change():
    kernel = Kernel()
    kernel.iptables.bridges_pass = False
    before = kernel.content()
    with pytest.raises(IptablesError, match="br_netfilter"):
        kernel.firewall.plan(desired(*ALL))
    assert kernel.content() == before


def test_the_setting_is_turned_on():
    kernel = Kernel()
    plan = kernel.apply(*ALL)
    assert plan.settings == SETTINGS
    assert plan.text().splitlines()[:2] == [f"sysctl {name}=1" for name in SETTINGS]
    assert set(kernel.iptables.read_settings().values()) == {True}


def test_an_added_rule_changes_one_chain():
    kernel = Kernel()
    kernel.apply(*ALL)
    more = group("out", *OUT.rules, rule(protocol=TCP))
    port_of_out = hybrid("p8", 8, "out")
    kernel.apply(*ALL, port_of_out)
    plan = kernel.apply(*(entry for entry in ALL if entry.id != "out"), more, port_of_out)
    chains = [line for line in plan.text().splitlines() if " :" in line]
    assert chains == [f"iptables :{rendering.port_chain('i', 'p8')} - [0:0]"]


# --- connections that have ended ---


def connection(source: str, destination: str, protocol: int = TCP, to: int = 80, zone: int = 4097) -> Connection:
    family = 6 if ":" in source else 4
    if protocol in (ICMP, ICMPV6):
        return Connection(zone, family, protocol, source, destination, 7, 0, to, 0)
    return Connection(zone, family, protocol, source, destination, 4000, to)


def found_ended(rules: Iterable[state.Rule], *connections: Connection) -> set[Connection]:
    friends = members("friends", FAR, "10.9.0.0/16", "2001:db8::8")
    seen = desired(NET, friends, group("s", *rules), hybrid("p1", 1, "s"))
    return set(ended_connections({4097: seen.ports[0]}, seen.remotes, connections))


ONE, FAR = "10.0.0.1", "10.0.0.8"


@pytest.mark.parametrize(
    "rules, allowed, forbidden",
    [
        ([], [], [connection(FAR, ONE), connection(ONE, FAR), connection("192.0.2.1", "192.0.2.2")]),
        ([rule()], [connection(FAR, ONE)], [connection(ONE, FAR), connection("2001:db8::8", "2001:db8::1")]),
        ([rule("egress", "IPv6")], [connection("2001:db8::1", "2001:db8::8")], [connection(ONE, FAR)]),
        (
            [rule(protocol=TCP, port_min=80, port_max=81)],
            [connection(FAR, ONE), connection(FAR, ONE, to=81)],
            [connection(FAR, ONE, to=82), connection(FAR, ONE, UDP)],
        ),
        (
            [rule(protocol=ICMP, port_min=8)],
            [connection(FAR, ONE, ICMP, 8)],
            [connection(FAR, ONE, ICMP, 13), connection(ONE, FAR, ICMP, 8)],
        ),
        (
            [rule("ingress", "IPv6", protocol=ICMP)],
            [connection("2001:db8::8", "2001:db8::1", ICMPV6, 128)],
            [connection("2001:db8::8", "2001:db8::1")],
        ),
        (
            [rule(remote_ip_prefix="10.0.0.8/29")],
            [connection(FAR, ONE), connection("10.0.0.15", ONE)],
            [connection("10.0.0.16", ONE)],
        ),
        (
            [rule(remote_group_id="friends")],
            [connection(FAR, ONE), connection("10.9.1.1", ONE)],
            [connection("10.0.0.9", ONE)],
        ),
        ([rule(protocol=0)], [], [connection(FAR, ONE)]),
    ],
)
def test_connections_that_no_rule_allows(rules, allowed, forbidden):
    assert found_ended(rules, *allowed, *forbidden) == set(forbidden)


def test_connections_of_other_zones_and_marked_ones_are_left():
    marked = Connection(4097, 4, TCP, FAR, ONE, 1, 2, mark=ENDED)
    assert found_ended([], connection(FAR, ONE, zone=5), marked) == set()


def test_a_removed_rule_marks_its_connections():
    web, ssh = connection(FAR, ONE), connection(FAR, ONE, to=22)
    kernel = Kernel()
    rules = [rule(protocol=TCP, port_min=number, port_max=number) for number in (80, 22)]
    kernel.apply(NET, group("s", *rules), hybrid("p1", 1, "s"))
    kernel.conntrack.connections = {web, ssh}
    kernel.start()  # nothing of what was before has to be remembered
    plan = kernel.apply(NET, group("s", rules[1]), hybrid("p1", 1, "s"))
    assert plan.text().splitlines()[-1] == "conntrack mark connections that no rule of port p1 allows"
    assert {(entry.destination_port, entry.mark) for entry in kernel.conntrack.connections} == {(80, ENDED), (22, 0)}


def test_a_reused_zone_is_emptied():
    kernel = Kernel()
    kernel.apply(NET, OPEN, hybrid("p1", 1, "open"))
    kernel.conntrack.connections = {connection(FAR, ONE), connection(FAR, ONE, zone=9)}
    plan = kernel.apply(NET, OPEN, hybrid("p2", 2, "open"))
    assert plan.fresh_zones == (4097,)
    assert kernel.conntrack.connections == {connection(FAR, ONE, zone=9)}
