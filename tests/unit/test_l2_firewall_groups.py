"""Firewall groups of instance ports on the fake switch: what passes, in addition to security groups."""

from __future__ import annotations

import pytest

from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.extensions.firewall_groups import REJECTED, FirewallGroups, generation, group_owner
from neutrino.agent.l2.pipeline import EXTENSION_TABLES, INGRESS_TABLES
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.model import state
from neutrino.model.qos import BandwidthLimit, QosPolicy
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.firewall import ICMP, TCP, UDP, group, rule
from tests.support.l2 import OPEN, OUT, Cloud, mac, network, port
from tests.support.switch_host import SwitchHost

EVERYTHING = (rule(), rule(version=6))
SORTS = {
    "filtered": {"groups": ["open"]},
    "without port security": {"port_security_enabled": False},
    "hybrid": {"groups": ["open"], "hybrid_plug": True},
}


def end(number: int, version: int = 4) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}" if version == 4 else f"2001:db8::{number:x}"


class Net:
    """Port 1 has the group; port 2 on the same host and port 3 on another have none."""

    def __init__(self, **sort: object) -> None:
        self.cloud = Cloud("h1", "h2")
        self._sort = {"groups": ["open"], **sort}

    def apply(self, *objects: state.Object, group_id: str = "group-1", **changes: object) -> None:
        self.cloud.apply(
            *(network("net"), OPEN, OUT, *objects),
            port("p1", 1, firewall_group_id=group_id, **{**self._sort, **changes}),  # type: ignore[arg-type]
            port("p2", 2, groups=["open"]),
            port("p3", 3, host="h2", groups=["open"]),
        )
        for name, host in self.cloud.hosts.items():
            assert host.desired is not None
            assert not any(host.plans(host.desired)), f"a second plan of {name} is not empty"

    def passes(self, sent: Packet) -> bool:
        source = next(number for number in (1, 2, 3) if mac(number) == sent["dl_src"])
        target = next(number for number in (1, 2, 3) if mac(number) == sent["dl_dst"])
        arrived = self.cloud.send("h2" if source == 3 else "h1", f"p{source}", sent)
        return f"p{target}" in arrived


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS)
@pytest.mark.parametrize("other", [2, 3], ids=["same host", "other host"])
@pytest.mark.parametrize("version", [4, 6])
def test_default_deny_and_state(sort: dict[str, object], other: int, version: int) -> None:
    net = Net(**sort)
    web = packet.tcp(end(other, version), end(1, version), 80)
    out = packet.udp(end(1, version), end(other, version), 53)
    net.apply(group())
    assert not net.passes(web)
    assert not net.passes(out)
    net.apply(group(ingress=(rule(protocol=TCP, version=version, dport=80),)))
    assert not net.passes(packet.reply(web)), "there is no connection yet"
    assert net.passes(web)
    assert net.passes(packet.reply(web))
    assert net.passes(web)
    assert not net.passes(out)
    net.apply(group(egress=(rule(protocol=UDP, version=version),)))
    assert net.passes(out)
    assert net.passes(packet.reply(out))
    assert not net.passes(web)
    net.apply(group_id="")
    assert net.passes(web)


def test_rules_in_order_by_protocol_ports_and_addresses() -> None:
    net = Net()
    net.apply(
        group(
            ingress=(
                rule("deny", TCP, dport=85),
                rule(protocol=TCP, dport=(80, 90), source="10.0.0.2/32"),
                rule("reject", UDP, dport=53),
                rule(protocol=UDP, sport=(1000, 2000)),
                rule(protocol=ICMP, destination="10.0.0.1"),
                rule("deny", source="10.0.0.0/24"),
                rule(protocol=TCP, dport=443),
            )
        )
    )
    two, three, here = end(2), end(3), end(1)
    assert [net.passes(packet.tcp(two, here, p)) for p in (79, 80, 85, 90, 91)] == [False, True, False, True, False]
    assert not net.passes(packet.tcp(three, here, 80))
    assert [net.passes(packet.udp(two, here, p, source_port=1500)) for p in (53, 54)] == [False, True]
    assert not net.passes(packet.udp(two, here, 54, source_port=2001))
    assert net.passes(packet.icmp(three, here))
    assert not net.passes(packet.tcp(two, here, 443)), "the deny before it counts"


def test_what_is_rejected_is_copied_to_be_answered_in_the_opening_direction_alone() -> None:
    net = Net()
    here = net.cloud.hosts["h1"]
    web, out = packet.tcp(end(2), end(1), 80), packet.tcp(end(1), end(2), 81)

    def copied(sent: Packet) -> list[int]:
        switch = here.switch.bridges["br-int"]
        switch.copied.clear()
        assert not net.passes(sent)
        assert all(cookie == cookie_of(group_owner("group-1")) for _, cookie in switch.copied)
        return [table for table, _ in switch.copied]

    net.apply(group(ingress=(rule(protocol=TCP, dport=80),), egress=(rule(protocol=TCP, dport=81),)))
    assert net.passes(web)
    assert here.switch.read_meters("br-int") == {}
    net.apply(group(ingress=(rule("reject", TCP, dport=80),), egress=(rule("reject", TCP, dport=81),)))
    assert [*here.switch.read_meters("br-int").values()] == [REJECTED]
    assert copied(web) == [INGRESS_TABLES[0]]
    assert [table in EXTENSION_TABLES for table in copied(out)] == [True]
    assert copied(packet.reply(web)) == [], "of a connection that was allowed before"
    net.apply(group(ingress=(rule("deny", TCP, dport=80),)))
    assert copied(web) == []
    assert here.switch.read_meters("br-int") == {}


def test_a_packet_must_pass_security_groups_too() -> None:
    net = Net(groups=["out"])
    net.apply(group(ingress=EVERYTHING, egress=EVERYTHING))
    assert not net.passes(packet.tcp(end(2), end(1), 80))
    assert net.passes(packet.tcp(end(1), end(2), 80))


def test_a_change_ends_connections_that_it_forbids_whoever_sends_next() -> None:
    web, ssh = packet.tcp(end(2), end(1), 80), packet.tcp(end(2), end(1), 22)
    before = group(ingress=(rule(protocol=TCP, dport=80), rule(protocol=TCP, dport=22)))
    after = group(ingress=(rule("deny", UDP), rule(protocol=TCP, dport=22)))
    for first, then in ((web, packet.reply(web)), (packet.reply(web), web)):
        net = Net()
        net.apply(before)
        for sent in (web, packet.reply(web), ssh, packet.reply(ssh)):
            assert net.passes(sent)
        net.apply(after)
        assert not net.passes(first)
        assert not net.passes(then)
        assert net.passes(packet.reply(ssh))
        assert net.passes(ssh)
        net.apply(before)
        assert net.passes(web)


def test_two_ports_of_one_host_keep_their_own_state() -> None:
    """The first lets it out and commits it; to the second, what it sends back is no reply."""
    cloud = Cloud("h1")
    opened = group(egress=EVERYTHING)
    closed = group(id="closed")
    ports = (
        port("p1", 1, groups=["open"], firewall_group_id="group-1"),
        port("p2", 2, groups=["open"], firewall_group_id="closed"),
    )
    cloud.apply(network("net"), OPEN, opened, closed, *ports)
    sent = packet.udp(end(1), end(2), 53)
    assert not cloud.send("h1", "p1", sent)
    assert not cloud.send("h1", "p2", packet.reply(sent))


def test_a_group_that_is_down_or_unknown_drops_all_but_what_addresses_need() -> None:
    net = Net()
    for objects in ((group(ingress=EVERYTHING, egress=EVERYTHING, admin_state_up=False),), ()):
        net.apply(*objects)
        assert not net.passes(packet.icmp(end(2), end(1)))
        assert not net.passes(packet.tcp(end(1), end(2), 80))
        asked = packet.arp_request(mac(2), "10.0.0.2", "10.0.0.1")
        assert "p1" in net.cloud.send("h1", "p2", asked)
        solicited = packet.neighbour(packet.NEIGHBOUR_SOLICITATION, end(1, 6), end(2, 6), "2001:db8::2")
        assert net.passes(solicited)
        assert net.passes(packet.udp(end(1), end(2), 67, source_port=68))


def test_rules_are_flows_once_for_all_ports_of_a_group() -> None:
    many = group(ingress=tuple(rule(protocol=TCP, dport=number) for number in range(1, 201)))

    def count(ports: int) -> int:
        cloud = Cloud("h1")
        several = (port(f"p{n}", n, groups=["open"], firewall_group_id="group-1") for n in range(1, ports + 1))
        cloud.apply(network("net"), OPEN, many, *several)
        tables = {*EXTENSION_TABLES, *INGRESS_TABLES}
        return len([flow for flow in cloud.hosts["h1"].switch.read_flows("br-int", 0, 0) if flow.table in tables])

    assert count(20) - count(10) == 10 * 4
    assert count(10) < 2 * 200 + 100


def test_without_groups_there_are_no_flows() -> None:
    net = Net()
    net.apply(group(ingress=EVERYTHING), group_id="")
    used = [flow for flow in net.cloud.hosts["h1"].switch.read_flows("br-int", 0, 0) if "reg11" in flow.text()]
    assert used == []


def test_a_port_of_a_router_is_filtered_in_the_router() -> None:
    net = Net(device_owner="network:router_interface")
    net.apply(group())
    assert net.passes(packet.tcp(end(2), end(1), 80))


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS)
def test_a_port_with_limits_and_a_group_has_both(sort: dict[str, object]) -> None:
    limits = (BandwidthLimit(max_kbps=1000), BandwidthLimit(max_kbps=2000, direction="ingress"))
    limited = QosPolicy(id="qos", bandwidth_limits=limits, dscp_mark=46)
    net = Net(**sort, qos_policy_id="qos")
    web, out = packet.tcp(end(2), end(1), 80), packet.tcp(end(1), end(2), 81)
    net.apply(limited, group(ingress=(rule(protocol=TCP, dport=80),)))
    metered = net.cloud.hosts["h1"].switch.bridges["br-int"].metered
    assert not net.passes(out)
    assert not metered, "a packet that is dropped does not count towards the limit"
    assert net.passes(web)
    assert net.passes(packet.reply(web))
    assert len(metered) == 2, "of each direction"


def test_the_mark_depends_on_what_decides() -> None:
    one = group(ingress=EVERYTHING)
    assert generation(one) == generation(group(ingress=EVERYTHING, id="other", revision=9)) != 0
    assert generation(one) != generation(group(egress=EVERYTHING))
    assert generation(one) != generation(group(ingress=EVERYTHING, admin_state_up=False))


def test_statuses() -> None:
    net = Net()
    net.apply(group(revision=3))
    assert net.cloud.hosts["h1"].desired is not None
    host_state = net.cloud.hosts["h1"].desired.host_state

    def statuses(wired: set[str], **failed: str) -> list[ObjectStatus]:
        return [*FirewallGroups().statuses(host_state, wired, failed)]

    def one(status: str, reason: str = "") -> list[ObjectStatus]:
        return [ObjectStatus("firewall_group", "group-1", status, 3, reason)]

    assert statuses({"p1", "p2"}) == one("ACTIVE")
    assert statuses({"p2"}, p1="no VLAN") == one("ERROR", "no VLAN")
    failed = {group_owner("group-1"): "rejected"}
    assert [*FirewallGroups().statuses(host_state, {"p1", "p2"}, failed)] == one("ERROR", "rejected")
    assert statuses({"p2"}) == []


def switch_host() -> SwitchHost:
    host = SwitchHost()
    host.reconcile()
    host.plug("p1")
    return host


MEMBER = (network("net"), OPEN, port("p1", 1, groups=["open"], firewall_group_id="group-1"))


def test_a_rule_that_was_removed_does_not_come_back_from_an_old_cache() -> None:
    host = switch_host()
    ssh = rule(protocol=TCP, destination_port_first=22, destination_port_last=22)
    old, new = (group(ingress=rules, egress=(rule(),)) for rules in ((ssh,), ()))
    host.reconcile(*MEMBER, old)
    host.reconcile(*MEMBER, new)
    flows = host.flows()
    host.new_reconciler()
    host.reconcile(*MEMBER, old, complete=False)
    assert host.flows() == flows


def test_a_group_with_a_rejected_flow_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its `deny`, the rule after it would allow what must not pass."""
    host = switch_host()
    supports = host.switch.openflow._supports
    monkeypatch.setattr(
        host.switch.openflow, "_supports", lambda flow: "ct_nw_src=10.0.0.9" not in str(flow.key) and supports(flow)
    )
    rules = (rule("deny", source_ip_address="10.0.0.9/32"), rule())
    outcome = host.reconcile(*MEMBER, group(ingress=rules, egress=(rule(),)))
    assert group_owner("group-1") in outcome.faults
    assert not [flow for flow in host.flows() if "reg11=" in flow and "ct(commit" in flow]
