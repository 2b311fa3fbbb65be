"""Reconciliations on a whole fake Open vSwitch: what they apply, leave alone and report."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.reconciler import HYBRID
from neutrino.dataplane.openflow.api import (
    COOKIE,
    COOKIE_MASK,
    DatapathFeatures,
    Flow,
    FlowsRejected,
    OpenFlowError,
    flow,
)
from neutrino.dataplane.ovsdb.api import SetBridge, SetPort
from neutrino.model import state
from tests.support.l2 import OPEN, group, network, port, rule
from tests.support.switch_host import OPTIONS, PEER, SwitchHost

NET = network("net")


@pytest.fixture
def host() -> SwitchHost:
    return SwitchHost()


def test_a_plugged_port_is_wired_at_its_revision(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    outcome = host.reconcile(NET, OPEN, port("p1", 1, groups=["open"], revision=7))
    assert outcome.wired == {"p1": 7}
    assert outcome.problems == {}
    assert host.tag("p1") == 1


def test_the_target_of_a_live_migration_has_the_port_plugged_and_not_wired(host: SwitchHost) -> None:
    host.reconcile()
    objects = (NET, OPEN, port("p1", 1, groups=["open"], active=False))
    assert host.reconcile(*objects).prepared == frozenset()
    host.plug("p1")
    outcome = host.reconcile(*objects)
    assert (outcome.prepared, outcome.wired) == ({"p1"}, {})
    assert host.tag("p1") == DEAD_VLAN
    outcome = host.reconcile(NET, OPEN, port("p1", 1, groups=["open"]))  # it was activated
    assert (outcome.prepared, outcome.wired.keys()) == (frozenset(), {"p1"})


def test_a_second_reconciliation_changes_nothing(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    objects = (NET, OPEN, PEER, port("p1", 1, groups=["open"]))
    host.reconcile(*objects)
    host.reconcile(*objects)  # the tunnel has got its number
    assert host.reconcile(*objects).changed == 0
    host.new_reconciler()  # nor does an agent that remembers nothing
    assert host.reconcile(*objects).changed == 0


def test_local_vlans_survive_a_restart_of_the_agent(host: SwitchHost) -> None:
    host.reconcile()
    first, second = network("a", number=1), network("b", number=2)
    for name in ("p1", "p2"):
        host.plug(name)
    host.reconcile(first, second, port("p1", 1, "a"), port("p2", 2, "b"))
    before = host.tag("p2")
    host.unplug("p1")
    host.new_reconciler()
    host.reconcile(first, second, port("p2", 2, "b"))
    assert host.tag("p2") == before == 2


@pytest.mark.parametrize("restarted", [False, True], ids=["remembered", "restarted"])
def test_a_port_that_was_down_does_not_take_back_a_vlan_that_another_network_has(
    host: SwitchHost, restarted: bool
) -> None:
    """The `other_config` of its device still has the old VLAN."""
    host.reconcile()
    first, second = network("a", number=1), network("b", number=2)
    host.plug("p1")
    host.reconcile(first, port("p1", 1, "a"))
    host.reconcile(first, port("p1", 1, "a", admin_state_up=False))
    assert host.tag("p1") == DEAD_VLAN
    host.plug("p2")
    host.reconcile(first, second, port("p1", 1, "a", admin_state_up=False), port("p2", 2, "b"))
    assert host.tag("p2") == 1
    if restarted:
        host.new_reconciler()
    host.reconcile(first, second, port("p1", 1, "a"), port("p2", 2, "b"))
    assert (host.tag("p1"), host.tag("p2")) == (2, 1)


def test_an_unknown_port_must_not_talk(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("unknown")
    assert host.reconcile().wired == {}
    assert host.tag("unknown") == DEAD_VLAN


def test_before_synced_nothing_is_removed(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.plug("p2")
    objects = (NET, OPEN, PEER, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]))
    host.reconcile(*objects)
    host.reconcile(*objects)
    before, tunnels = host.flows(), set(host.switch.snapshot.bridges["br-tun"].ports)
    host.new_reconciler()
    host.reconcile(complete=False)  # an agent without a cache, and no server
    assert host.flows() == before
    assert set(host.switch.snapshot.bridges["br-tun"].ports) == tunnels
    assert host.tag("p2") == 1
    # With an old cache: what it knows is added where it is missing, and what is there is not changed back.
    host.new_reconciler()
    host.reconcile(NET, OPEN, port("p1", 1), complete=False)
    assert before <= host.flows()
    assert host.reconcile(*objects).wired.keys() == {"p1", "p2"}
    assert host.flows() == before


def test_a_rule_that_was_removed_does_not_come_back_from_an_old_cache(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    member = state.GroupMembers(id="friends", members=frozenset({state.Member("10.0.0.9", "fa:16:3e:00:00:09")}))
    emptied = msgspec.structs.replace(member, members=frozenset())
    old = group("g", rule(protocol=6, port_min=80, port_max=80), rule(remote_group_id="friends"))
    new = group("g", rule(remote_group_id="friends"))
    host.reconcile(NET, old, member, port("p1", 1, groups=["g"]))
    host.reconcile(NET, new, emptied, port("p1", 1, groups=["g"]))
    before = host.flows()
    host.new_reconciler()
    host.reconcile(NET, old, member, port("p1", 1, groups=["g"]), complete=False)
    assert host.flows() == before
    # A switch that has lost all flows gets those of the cache: better than none.
    host.switch.restart()
    host.reconciler.forget()
    host.reconcile(NET, old, member, port("p1", 1, groups=["g"]), complete=False)
    assert any("tp_dst=80" in line for line in host.flows())


def hybrid(name: str, number: int, group_id: str = "g") -> state.Port:
    return port(name, number, groups=[group_id], hybrid_plug=True)


def rules(host: SwitchHost) -> str:
    return "\n".join(
        rule.text for chains in host.iptables.read_rules(4).values() for each in chains.values() for rule in each
    )


def test_a_hybrid_port_is_filtered_from_the_cache_on_a_host_that_was_restarted(host: SwitchHost) -> None:
    """Without a server: the rules are as old as the cache, but the port is filtered."""
    web = group("g", rule(protocol=6, port_min=80, port_max=80))
    host.reconcile()
    host.plug("p1")
    assert host.reconcile(NET, web, hybrid("p1", 1), complete=False).wired.keys() == {"p1"}
    assert "--dport 80" in rules(host)


def test_a_hybrid_ports_filter_is_not_replaced_from_the_cache(host: SwitchHost) -> None:
    old = group("g", rule(protocol=6, port_min=80, port_max=80))
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, group("g"), hybrid("p1", 1))
    before = rules(host)
    host.new_reconciler()
    assert host.reconcile(NET, old, hybrid("p1", 1), complete=False).wired.keys() == {"p1"}
    assert rules(host) == before


def test_a_hybrid_port_that_has_no_filter_waits_for_the_server(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, group("g"), hybrid("p1", 1))
    host.new_reconciler()
    host.plug("p2")
    outcome = host.reconcile(NET, group("g"), hybrid("p1", 1), hybrid("p2", 2), complete=False)
    assert outcome.wired.keys() == {"p1"}
    assert outcome.problems == {"p2": "the server has not sent its security groups yet"}
    outcome = host.reconcile(NET, group("g"), hybrid("p1", 1), hybrid("p2", 2))
    assert (outcome.wired.keys(), outcome.problems) == ({"p1", "p2"}, {})


def test_a_new_network_from_an_old_cache_does_not_take_the_vlan_of_one_it_does_not_know(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, port("p1", 1))
    host.new_reconciler()
    host.plug("p2")
    host.reconcile(network("other", number=9), port("p2", 2, "other"), complete=False)
    assert host.tag("p2") == 2
    assert host.tag("p1") == 1


def test_a_tag_changed_by_hand_is_corrected(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, port("p1", 1))
    host.switch.ovsdb.apply([SetPort("br-int", "tapp1", tag=77)])
    host.reconcile(NET, port("p1", 1))
    assert host.tag("p1") == 1


def test_flows_and_ports_of_others_are_left_alone(host: SwitchHost) -> None:
    host.reconcile()
    foreign = flow(0, 7, "in_port=99", "drop", cookie=0x1234)
    host.switch.openflow.apply_flows("br-int", add=[foreign], delete=[])
    host.switch.ovsdb.apply([SetPort("br-int", "theirs", tag=12), SetPort("br-tun", "gre-theirs", "gre")])
    host.plug("p1")
    host.reconcile(NET, PEER, port("p1", 1))
    host.reconcile()
    assert foreign in host.switch.openflow.read_flows("br-int", 0x1234, 0xFFFF)
    assert host.switch.snapshot.bridges["br-int"].ports["theirs"].tag == 12
    assert "gre-theirs" in host.switch.snapshot.bridges["br-tun"].ports


def test_a_restarted_switch_gets_all_its_flows_again(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, port("p1", 1))
    before = host.flows()
    host.switch.restart()
    assert host.reconciler.drift(whole=False)
    host.reconciler.forget()
    host.reconcile(NET, port("p1", 1))
    assert host.flows() == before


def test_flows_deleted_by_hand_are_found_and_counted(host: SwitchHost) -> None:
    host.reconcile()
    gone = next(iter(host.switch.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)))
    assert host.reconciler.drift() == {}
    host.switch.openflow.apply_flows("br-int", add=[], delete=[gone])
    assert host.reconciler.drift(whole=False) == {"br-int": (1, 0)}
    assert host.reconciler.drift() == {"br-int": (1, 0)}


def test_a_hybrid_ports_filter_that_another_program_flushes_is_drift_and_comes_back(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    objects = NET, group("g"), hybrid("p1", 1)
    host.reconcile(*objects)
    before = host.iptables.read_rules(4)
    assert host.reconciler.drift() == {}
    host.iptables.restore_rules(4, "*filter\n:FORWARD - [0:0]\nCOMMIT\n")  # as a reload of firewalld
    found = host.reconciler.drift()
    assert found.keys() == {HYBRID}
    for name in found:
        host.reconciler.forget(name)
    host.reconcile(*objects)
    assert host.iptables.read_rules(4) == before
    assert host.reconciler.drift() == {}


def test_where_no_port_is_hybrid_drift_reads_no_iptables(host: SwitchHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.reconcile(NET)
    monkeypatch.setattr(host.iptables, "read_rules", None)
    assert host.reconciler.drift() == {}


def test_a_physical_network_without_its_bridge_is_a_fault_and_the_rest_works() -> None:
    options = L2Options(
        bridge_mappings=(("physnet1", "br-phys"), ("physnet2", "br-none")),
        tunnel_types=("vxlan",),
        local_ip="192.0.2.1",
    )
    host = SwitchHost(options)
    host.reconcile()
    host.plug("p1")
    host.plug("p2")
    outcome = host.reconcile(NET, network("flat", "flat", 0, "physnet2"), port("p1", 1), port("p2", 2, "flat"))
    assert outcome.faults == {"physnet2": "bridge br-none does not exist"}
    assert outcome.problems == {"p2": "no bridge is mapped to physical network physnet2"}
    assert "p1" in outcome.wired


def test_a_port_on_another_bridge_is_up_and_not_wired(host: SwitchHost) -> None:
    host.switch.ovsdb.apply([SetBridge("br-theirs")])
    host.reconcile()
    host.plug("p1", "br-theirs")
    before = host.flows()
    assert host.reconcile(NET, port("p1", 1, revision=3)).wired == {"p1": 3}
    assert host.flows() == before


# --- features of the datapath, and rejected flows ---

REMOTE = state.Forwarding(
    id="r1", network_id="net", host="h2", mac_address="fa:16:3e:00:00:09", ip_addresses=("10.0.0.9", "2001:db8::9")
)


def answers_neighbours(host: SwitchHost) -> bool:
    return any("nd_options_type" in line for line in host.flows("br-tun"))


def test_neighbours_are_answered_where_the_datapath_can_do_it(host: SwitchHost) -> None:
    host.switch.openflow.features = DatapathFeatures(nd_extension=False)
    host.reconcile()
    host.plug("p1")
    objects = (NET, OPEN, PEER, REMOTE, port("p1", 1, groups=["open"]))
    for _ in range(2):  # the tunnel gets its number
        outcome = host.reconcile(*objects)
    assert (outcome.wired.keys(), outcome.problems, outcome.faults) == ({"p1"}, {}, {})
    assert not answers_neighbours(host)
    assert any("arp_tpa=10.0.0.9" in line for line in host.flows("br-tun"))
    # A switch that is started anew may be another one.
    host.switch.openflow.features = DatapathFeatures(nd_extension=True)
    host.switch.restart()
    host.reconciler.forget()
    host.reconcile(*objects)
    assert answers_neighbours(host)


def test_a_datapath_with_unreadable_features_gets_flows_that_every_datapath_supports(
    host: SwitchHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(bridge: str) -> DatapathFeatures:
        raise OpenFlowError("no answer")

    host.reconcile()
    host.plug("p1")
    objects = (NET, OPEN, PEER, REMOTE, port("p1", 1, groups=["open"]))
    host.new_reconciler()
    with monkeypatch.context() as patched:
        patched.setattr(host.switch.openflow, "read_features", unreadable)
        host.reconcile(*objects)
        assert host.reconcile(*objects).wired.keys() == {"p1"}
        assert not answers_neighbours(host)
    host.reconcile(*objects)
    assert answers_neighbours(host)


def test_features_are_read_again_after_a_rejected_flow(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    objects = (NET, OPEN, PEER, port("p1", 1, groups=["open"]))
    host.reconcile(*objects)
    host.reconcile(*objects)
    host.switch.openflow.features = DatapathFeatures(nd_extension=False)
    outcome = host.reconcile(*objects, REMOTE)
    assert outcome.refused
    assert "OFPBAC_BAD_SET_ARGUMENT" in outcome.faults["network net"]
    outcome = host.reconcile(*objects, REMOTE)
    assert (outcome.refused, outcome.faults) == (False, {})


class Rejecting:
    """A switch that rejects flows with a text; `names`: whether its error names them."""

    def __init__(self, host: SwitchHost, text: str, *, names: bool = True) -> None:
        self.switch, self.text, self.names = host.switch.openflow, text, names
        self.tries: list[tuple[Flow, ...]] = []
        host.reconciler.tables.openflow = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        return getattr(self.switch, name)

    def apply_flows(self, bridge: str, *, add: tuple[Flow, ...], delete: tuple[Flow, ...]) -> None:
        self.tries.append(tuple(add))
        found = {each.key: "OFPBAC_BAD" for each in add if self.text in each.text()}
        if found:
            raise FlowsRejected("OFPBAC_BAD", found if self.names else {})
        self.switch.apply_flows(bridge, add=add, delete=delete)


NAMES = pytest.mark.parametrize("names", [True, False], ids=["named", "not named"])


@NAMES
def test_a_rejected_flow_of_a_port_costs_that_port_and_no_other(host: SwitchHost, names: bool) -> None:
    host.reconcile()
    for name in ("p1", "p2", "p3"):
        host.plug(name)
    switch = Rejecting(host, "arp_spa=10.0.0.1,", names=names)
    ports = [port(f"p{number}", number, groups=["open"]) for number in (1, 2, 3)]
    outcome = host.reconcile(NET, OPEN, *ports)
    assert outcome.wired.keys() == {"p2", "p3"}
    assert outcome.refused
    assert outcome.problems.keys() == {"p1"}
    for part in ("rejected a flow of br-int", "OFPBAC_BAD"):
        assert part in outcome.problems["p1"]
    if names:
        assert "ARP_SPOOFING" in outcome.problems["p1"]
        assert "arp_spa=10.0.0.1" in outcome.problems["p1"]
    # None of its flows is there: it must not send without the ones that check what it sends.
    cookie = cookie_of("port p1")
    assert not host.switch.openflow.read_flows("br-int", cookie, 0xFFFFFFFFFFFFFFFF)
    assert host.reconciler.drift(whole=False) == {}
    assert host.reconciler.drift() == {}

    # It is not sent again and again, and what others need is one bundle as ever.
    switch.tries.clear()
    host.plug("p4")
    outcome = host.reconcile(NET, OPEN, *ports, port("p4", 4, groups=["open"]))
    assert (len(switch.tries), outcome.refused) == (1, False)
    assert outcome.wired.keys() == {"p2", "p3", "p4"}
    assert outcome.problems.keys() == {"p1"}

    # Now and then it is; and when the switch takes it, the port is there.
    assert host.reconciler.tables.retry_rejected()
    switch.text = "nothing"
    outcome = host.reconcile(NET, OPEN, *ports, port("p4", 4, groups=["open"]))
    assert outcome.wired.keys() == {"p1", "p2", "p3", "p4"}
    assert not host.reconciler.tables.retry_rejected()


@NAMES
def test_a_change_of_a_port_that_is_rejected_leaves_it_as_it_was(host: SwitchHost, names: bool) -> None:
    host.reconcile()
    host.plug("p1")
    web = group("g", rule(protocol=6, port_min=80, port_max=80))
    host.reconcile(NET, web, port("p1", 1, groups=["g"]))
    before = host.flows()
    Rejecting(host, "tp_dst=99", names=names)
    other = group("g", rule(protocol=6, port_min=99, port_max=99))
    assert host.reconcile(NET, other, port("p1", 1, groups=["g"])).wired == {}
    assert host.flows() == before
    third = group("g", rule(protocol=6, port_min=77, port_max=77))
    assert host.reconcile(NET, third, port("p1", 1, groups=["g"])).wired.keys() == {"p1"}
    assert not any("tp_dst=80" in line for line in host.flows())
    host.reconcile(NET)
    assert host.reconciler.drift(whole=False) == {}


@NAMES
def test_a_rejected_flow_of_a_network_leaves_the_others_and_the_ports_alone(host: SwitchHost, names: bool) -> None:
    host.reconcile()
    first, second = network("net", number=1), network("other", number=2)
    for name in ("p1", "p2"):
        host.plug(name)
    objects = (first, second, OPEN, PEER, port("p1", 1, groups=["open"]), port("p2", 2, "other", groups=["open"]))
    host.reconcile(*objects)
    Rejecting(host, "arp_tpa=10.0.0.9", names=names)
    known = msgspec.structs.replace(
        REMOTE, id="r2", network_id="other", ip_addresses=("10.0.0.8",), mac_address="fa:16:3e:00:00:08"
    )
    outcome = host.reconcile(*objects, REMOTE, known)
    assert outcome.wired.keys() == {"p1", "p2"}
    assert outcome.problems == {}
    assert outcome.faults.keys() == {"network net"}
    for part in ("br-tun, RESPONDER", "OFPBAC_BAD", "arp_tpa=10.0.0.9"):
        assert part in outcome.faults["network net"]
    there = "\n".join(host.flows("br-tun"))
    assert "arp_tpa=10.0.0.8" in there
    assert "dl_dst=fa:16:3e:00:00:09" in there  # the rest of what is known of that machine
    assert host.reconcile(*objects, REMOTE, known).changed == 0
    assert host.reconcile(*objects, known).faults == {}


def test_the_number_of_bundles_is_bounded(host: SwitchHost) -> None:
    host.reconcile()
    for number in range(1, 400):
        host.plug(f"p{number}")
    switch = Rejecting(host, "table=0,", names=False)
    ports = [
        port(f"p{number}", 1, mac_address=f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}")
        for number in range(1, 400)
    ]
    assert host.reconcile(NET, OPEN, *ports).wired == {}
    assert len(switch.tries) < 250


def test_a_switch_that_does_not_answer_is_no_rejection(host: SwitchHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object, **options: object) -> None:
        raise OpenFlowError("no answer")

    host.reconcile()
    host.plug("p1")
    monkeypatch.setattr(host.switch.openflow, "apply_flows", away)
    with pytest.raises(OpenFlowError):
        host.reconcile(NET, OPEN, port("p1", 1, groups=["open"]))


def test_connections_of_a_removed_rule_are_flushed(host: SwitchHost) -> None:
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, OPEN, port("p1", 1, groups=["open"]))
    host.connections.flushed.clear()  # of its addresses, which are new here
    host.reconcile(NET, OPEN, port("p1", 1, groups=["open"]))
    assert host.connections.flushed == []
    closed = msgspec.structs.replace(OPEN, rules=())
    host.reconcile(NET, closed, port("p1", 1, groups=["open"]))
    assert {entry.local for entry in host.connections.flushed} >= {"10.0.0.1", "2001:db8::1"}


def test_a_dry_run_shows_the_changes_and_applies_none(host: SwitchHost) -> None:
    from tests.support.switch_host import host_state

    host.reconcile()
    host.plug("p1")
    before = host.flows(), host.switch.snapshot
    found = host.new_reconciler().find(host_state(NET, port("p1", 1)), complete=True)
    assert "set port br-int tapp1 tag=1" in found.plan
    assert "br-int + " in found.plan
    assert (host.flows(), host.switch.snapshot) == before
    host.new_reconciler()
    host.reconcile(NET, port("p1", 1))
    assert host.new_reconciler().find(host_state(NET, port("p1", 1)), complete=True).plan == ""


def test_drop_flows_deletes_only_our_flows(host: SwitchHost) -> None:
    host.reconcile()
    foreign = flow(0, 7, "in_port=99", "drop", cookie=0x1234)
    host.switch.openflow.apply_flows("br-int", add=[foreign], delete=[])
    host.reconciler.drop_flows()
    assert host.switch.openflow.read_flows("br-int", 0, 0) == {foreign}


def test_without_a_firewall_ports_are_still_kept_from_spoofing() -> None:
    host = SwitchHost(dataclasses.replace(OPTIONS, filters=False))
    host.reconcile()
    host.plug("p1")
    host.reconcile(NET, OPEN, port("p1", 1, groups=["open"]))
    ours = cookie_of("port p1")
    tables = {entry.table for entry in host.switch.openflow.read_flows("br-int", ours, 0xFFFFFFFFFFFFFFFF)}
    assert tables == {0, 24, 25, 60}
