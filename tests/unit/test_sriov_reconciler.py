"""Virtual functions on cards in memory: set for ports, cut and reset after them, through restarts and refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec import structs

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.sriov.config import SriovOptions
from neutrino.agent.sriov.desired import HostState
from neutrino.agent.sriov.reconciler import NOT_KEPT
from neutrino.agent.sriov.teardown import CardTeardown, tear_down
from neutrino.agent.teardown.plan import Facts, Selection, plan_teardown
from neutrino.dataplane.sriov.api import DEAD_VLAN, LinkState, SetFunction, Setting
from neutrino.model.roles import L2, SRIOV
from neutrino.model.sriov import PHYSICAL_FUNCTION
from neutrino.model.state import VirtualFunction
from tests.fakes.sriov import slot
from tests.support.l2 import mac, port
from tests.support.sriov import CARD, OPTIONS, OTHER_CARD, PHYSNET, CardHost, function_port, host_state, policy, vlan

ONE = function_port("p1", 1, revision=5)
LIMITED = function_port("p1", 1, revision=5, qos_policy_id="policy", port_security_enabled=False)


@pytest.fixture
def host(tmp_path: Path) -> CardHost:
    return CardHost(tmp_path)


def test_a_function_is_set_when_its_instance_has_it_and_only_once(host: CardHost) -> None:
    state = host_state([ONE])
    waits = host.reconcile(state)
    assert (waits.wired, waits.waiting, host.sriov.applied) == ({}, {"p1": ""}, [])
    host.plug(1)
    assert host.reconcile(state).wired == {"p1": 5}
    assert host.settings(1) == {"vlan": 100}
    again = host.reconcile(state)
    assert (again.wired, again.changes) == ({"p1": 5}, 0)
    assert len(host.sriov.applied) == 1


def test_a_function_with_another_mac_is_left_alone(host: CardHost) -> None:
    host.sriov.plug(CARD, 1, mac(9))
    outcome = host.reconcile(host_state([ONE]))
    assert (outcome.wired, outcome.waiting, host.settings(1)) == ({}, {"p1": mac(9)}, {})


def test_changes_of_ports_networks_and_policies_reach_the_function(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000, minimum=2_000)]))
    assert host.settings(1) == {"vlan": 100, "spoof_check": False, "max_rate": 10, "min_rate": 2}
    host.reconcile(host_state([ONE], [vlan(number=200)]))
    assert host.settings(1) == {"vlan": 200}
    outcome = host.reconcile(host_state([structs.replace(ONE, admin_state_up=False)]))
    assert (outcome.wired, outcome.silent) == ({}, {"p1": "its admin state is down"})
    assert host.settings(1)["link_state"] is LinkState.DISABLE
    assert host.reconcile(host_state([ONE])).wired == {"p1": 5}


@pytest.mark.parametrize("restarted", [False, True])
def test_an_instance_whose_port_is_gone_is_cut_and_its_function_reset_afterwards(
    host: CardHost, restarted: bool
) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)]))
    if restarted:
        host.restart()
        assert host.reconcile(host_state(), complete=False).changes == 0  # the cache may be old
    host.reconcile(host_state())
    assert host.settings(1)["link_state"] is LinkState.DISABLE
    assert host.reconcile(host_state()).changes == 0
    host.sriov.unplug(CARD, 1)
    host.reconcile(host_state())
    assert host.settings(1) == {}
    host.sriov.change(CARD, 1, max_rate=7)  # another program has it now
    assert host.reconcile(host_state()).changes == 0


@pytest.mark.parametrize("changes", [{"active": False}, {"vif_type": "ovs"}])
def test_a_port_that_is_bound_otherwise_loses_its_function(host: CardHost, changes: dict[str, object]) -> None:
    host.plug(1)
    host.reconcile(host_state([ONE]))
    outcome = host.reconcile(host_state([structs.replace(ONE, **changes)]))
    assert (outcome.wired, host.settings(1)["link_state"]) == ({}, LinkState.DISABLE)


def test_an_instance_that_stops_and_starts(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED]))
    host.sriov.unplug(CARD, 1)
    assert host.reconcile(host_state([LIMITED])).wired == {}
    assert host.settings(1) == {}
    host.plug(1)
    assert host.reconcile(host_state([LIMITED])).wired == {"p1": 5}
    assert host.settings(1) == {"vlan": 100, "spoof_check": False}


def test_the_next_port_gets_the_function_as_it_wants_it(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)]))
    host.sriov.plug(CARD, 1, mac(9))
    second = function_port("p9", 9, function=VirtualFunction(slot(1), trusted=True))
    assert host.reconcile(host_state([second])).wired == {"p9": 1}
    assert host.settings(1) == {"vlan": 100, "trust": True}


def test_a_restart_changes_nothing(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)]))
    host.restart()
    for complete in (False, True):
        outcome = host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)]), complete=complete)
        assert (outcome.wired, outcome.changes) == ({"p1": 5}, 0)


def test_before_the_first_sync_a_function_that_was_set_stays_and_a_new_one_is_set(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)]))
    host.restart()
    host.plug(2)
    cached = host_state([structs.replace(ONE, revision=4), function_port("p2", 2)], [vlan(number=200)])
    outcome = host.reconcile(cached, complete=False)
    assert outcome.wired == {"p1": 4, "p2": 1}
    assert host.settings(1) == {"vlan": 100, "spoof_check": False, "max_rate": 10}
    assert host.settings(2) == {"vlan": 200}
    assert host.reconcile(host_state([LIMITED], policies=[policy(limit=10_000)])).wired == {"p1": 5}
    assert host.settings(2)["link_state"] is LinkState.DISABLE  # it is no port of this host


def test_drift_is_repaired_and_counted(host: CardHost) -> None:
    host.plug(1)
    assert host.reconcile(host_state([ONE])).drift == 0
    host.sriov.change(CARD, 1, vlan=7, spoof_check=False)
    lines, problems = host.reconciler.find(host_state([ONE]), complete=True)
    assert (lines, problems) == (["set VLAN of VF 1 of ens1 to 100", "set spoof check of VF 1 of ens1 to on"], {})
    assert host.reconcile(host_state([ONE])).drift == 2
    assert host.reconciler.find(host_state([ONE]), complete=True) == ([], {})


def test_a_lost_record_costs_nothing_but_the_functions_of_ports_that_are_gone(host: CardHost) -> None:
    host.plug(1)
    host.plug(2)
    host.reconcile(host_state([ONE, function_port("p2", 2)]))
    (host.directory / "sriov.json").write_text("{damaged")
    host.restart()
    assert host.reconcile(host_state([ONE])).changes == 0
    host.reconcile(host_state())
    assert host.settings(1)["link_state"] is LinkState.DISABLE
    assert host.settings(2) == {"vlan": 100}


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_rate_that_is_refused_is_a_problem_of_that_port_alone(host: CardHost) -> None:
    host.sriov.refused = {Setting.MIN_RATE}
    host.plug(1)
    host.plug(2)
    state = host_state([LIMITED, function_port("p2", 2)], policies=[policy(limit=9_000, minimum=2_000)])
    outcome = host.reconcile(state)
    assert outcome.wired == {"p1": 5, "p2": 1}
    assert outcome.problems.keys() == {"p1"}
    assert f"VF {slot(1)} of {CARD}: minimum rate: " in outcome.problems["p1"]
    assert "Invalid argument" in outcome.problems["p1"]
    assert host.settings(1) == {"vlan": 100, "spoof_check": False, "max_rate": 9}
    host.sriov.refused = set()
    assert host.reconcile(state).problems == {}
    assert host.settings(1)["min_rate"] == 2


@pytest.mark.parametrize("setting", [Setting.VLAN, Setting.SPOOF_CHECK])
def test_a_port_is_down_without_an_essential_setting(host: CardHost, setting: Setting) -> None:
    host.sriov.refused = {setting}
    host.plug(1)
    outcome = host.reconcile(host_state([LIMITED]))
    assert (outcome.wired, str(setting) in outcome.problems["p1"]) == ({}, True)


def test_what_a_driver_does_not_have_is_asked_once_and_a_problem(host: CardHost) -> None:
    host.sriov.unsupported = {Setting.LINK_STATE, Setting.TRUST}
    host.plug(1)
    wants = VirtualFunction(slot(1), trusted=True, propagate_uplink_status=False)
    state = host_state([structs.replace(ONE, function=wants)])
    for _ in range(2):
        outcome = host.reconcile(state)
        assert outcome.wired == {"p1": 5}
        text = "link state: its driver cannot set it; trust: its driver cannot set it"
        assert outcome.problems == {"p1": f"VF {slot(1)} of {CARD}: {text}"}
    assert host.reconciler.find(state, complete=True)[0] == []  # `--dry-run` does not try


def test_a_driver_without_link_states_cuts_by_a_vlan_that_nobody_forwards(host: CardHost) -> None:
    host.sriov.unsupported = {Setting.LINK_STATE}
    host.plug(1)
    host.reconcile(host_state([ONE]))
    down = host_state([structs.replace(ONE, admin_state_up=False)])
    for _ in range(2):
        outcome = host.reconcile(down)
        assert (outcome.silent, outcome.problems) == ({"p1": "its admin state is down"}, {})
        assert host.settings(1) == {"vlan": DEAD_VLAN}
    host.restart()
    assert (host.reconcile(down).changes, host.settings(1)) == (0, {"vlan": DEAD_VLAN})
    assert host.reconcile(host_state([ONE])).wired == {"p1": 5}
    assert host.settings(1) == {"vlan": 100}
    host.reconcile(host_state())
    assert host.settings(1) == {"vlan": DEAD_VLAN}
    host.sriov.unplug(CARD, 1)
    host.reconcile(host_state())
    assert host.settings(1) == {}


def test_a_function_that_cannot_be_cut_is_a_problem_of_its_card(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([ONE]))
    host.sriov.refused = {Setting.LINK_STATE}
    assert "is not cut" in host.reconcile(host_state()).faults[CARD]
    host.sriov.refused = set()
    assert host.reconcile(host_state()).faults == {}
    assert host.settings(1)["link_state"] is LinkState.DISABLE


def test_a_setting_that_a_driver_does_not_keep_is_made_once_and_by_the_resync(host: CardHost) -> None:
    """Each setting is notified of: made again after each notification, it would be made for ever."""
    host.sriov.not_kept = {Setting.MAX_RATE}
    host.plug(1)
    state = host_state([LIMITED], policies=[policy(limit=9_000)])
    assert host.reconcile(state).wired == {"p1": 5}
    for _ in range(2):
        outcome = host.reconcile(state)
        assert (outcome.changes, outcome.drift, outcome.wired) == (0, 0, {"p1": 5})
        assert "maximum rate" in outcome.problems["p1"]
        assert NOT_KEPT in outcome.problems["p1"]
    host.sriov.not_kept = set()
    host.reconciler.try_again()
    assert host.reconcile(state).changes == 1
    assert host.reconcile(state).problems == {}
    host.sriov.change(CARD, 1, max_rate=0)
    assert host.reconcile(state).drift == 1, "what was shown is repaired at once"


def test_a_setting_that_a_driver_does_not_show(host: CardHost) -> None:
    host.sriov.change(CARD, 1, spoof_check=None)
    host.sriov.not_kept = {Setting.SPOOF_CHECK}
    host.plug(1)
    state = host_state([ONE])
    assert host.reconcile(state).changes == 2  # the VLAN too
    again = host.reconcile(state)
    assert (again.changes, again.wired, again.problems) == (0, {"p1": 5}, {})
    host.sriov.unplug(CARD, 1)
    host.reconcile(state)
    host.plug(1)
    assert Setting.SPOOF_CHECK in {change.setting for change in applied(host, state)}, "of a new instance"


def applied(host: CardHost, state: HostState) -> list[SetFunction]:
    before = len(host.sriov.applied)
    host.reconcile(state)
    return host.sriov.applied[before:]


@pytest.mark.parametrize("setting", [Setting.VLAN, Setting.SPOOF_CHECK])
def test_a_port_is_down_whose_essential_setting_is_not_kept(host: CardHost, setting: Setting) -> None:
    host.sriov.not_kept = {setting}
    host.plug(1)
    host.reconcile(host_state([LIMITED]))
    for tries_again in (False, True, False):
        if tries_again:
            host.reconciler.try_again()
        outcome = host.reconcile(host_state([LIMITED]))
        assert (outcome.wired, NOT_KEPT in outcome.problems["p1"]) == ({}, True), "it does not flap"
        assert outcome.changes == tries_again


def test_a_cut_that_is_not_shown_is_a_problem_of_its_card(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([ONE]))
    host.sriov.not_kept = {Setting.LINK_STATE}
    host.reconcile(host_state())
    again = host.reconcile(host_state())
    assert (again.changes, "is not cut" in again.faults[CARD]) == (0, True)


# --- cards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"function": VirtualFunction("0000:99:00.1")}, "there is no VF 0000:99:00.1"),
        ({"function": VirtualFunction(slot(3))}, "or it is excluded"),
        ({"function": VirtualFunction(slot(1, 1))}, "is on physical network other, and its segment on rack"),
        ({"function": VirtualFunction("")}, "no pci_slot"),
    ],
)
def test_ports_that_cannot_be_on_the_function(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    host = CardHost(tmp_path, dataclasses.replace(OPTIONS, excluded={CARD: frozenset({slot(3)})}))
    host.sriov.plug(CARD, 3, mac(1))
    host.sriov.plug(OTHER_CARD, 1, mac(1))
    host.plug(2)
    outcome = host.reconcile(host_state([structs.replace(ONE, **changes), function_port("p2", 2)]))
    assert outcome.wired == {"p2": 1}
    assert reason in outcome.problems["p1"]
    assert len(host.sriov.applied) == 1


def test_two_ports_with_one_function(host: CardHost) -> None:
    host.plug(1)
    outcome = host.reconcile(host_state([ONE, structs.replace(ONE, id="p2")]))
    assert (outcome.wired, "port p1's" in outcome.problems["p2"]) == ({"p1": 5}, True)


def test_a_card_that_vanishes_and_returns(host: CardHost) -> None:
    host.plug(1)
    host.reconcile(host_state([ONE]))
    card = host.sriov.remove(CARD)
    outcome = host.reconcile(host_state([ONE]))
    assert outcome.wired == {}
    assert outcome.problems.keys() == {"p1"}
    assert outcome.faults == {CARD: "there is no such device on this host"}
    host.sriov.restore(card)
    host.sriov.change(CARD, 1, vlan=0)
    assert host.reconcile(host_state([ONE])).wired == {"p1": 5}
    assert host.settings(1) == {"vlan": 100}


def test_a_card_that_an_instance_has_as_a_whole_is_not_missing(host: CardHost) -> None:
    host.sriov.remove(CARD)
    whole = port("whole", 7, vif_type=PHYSICAL_FUNCTION, vnic_type="direct-physical")
    assert host.reconcile(host_state([whole])).faults == {}
    assert host.reconcile(host_state([structs.replace(whole, active=False)])).faults.keys() == {CARD}


# --- forwarding entries -----------------------------------------------------------------------------------------------


def test_a_shared_card_forwards_to_the_ports_behind_the_bridge(tmp_path: Path) -> None:
    host = CardHost(tmp_path, SriovOptions({PHYSNET: (CARD,)}, shared={PHYSNET: (CARD,)}))
    behind = {"vif_type": "ovs", "segment_id": "net-segment"}
    ports = [
        ONE,
        port("vm", 7, **behind),
        port("router", 8, **(behind | {"device_owner": "network:router_interface_distributed"})),
        port("dhcp", 9, **(behind | {"device_owner": "network:dhcp"})),
    ]
    host.sriov.entries[CARD].add("02:00:00:00:00:01")  # another program's
    host.reconcile(host_state(ports))
    assert host.sriov.entries[CARD] == {"02:00:00:00:00:01", mac(7), mac(8)}
    assert host.reconcile(host_state(ports)).changes == 0
    host.restart()
    host.reconcile(host_state(ports[:1]), complete=False)
    assert mac(7) in host.sriov.entries[CARD]
    assert host.reconciler.find(host_state(ports[:2]), complete=True)[0] == [
        f"remove forwarding entry {mac(8)} from {CARD}"
    ]
    host.reconcile(host_state(ports[:2]))
    assert host.sriov.entries[CARD] == {"02:00:00:00:00:01", mac(7)}


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_teardown_resets_free_functions_and_cuts_others(tmp_path: Path) -> None:
    host = CardHost(tmp_path, dataclasses.replace(OPTIONS, shared={PHYSNET: (CARD,)}))
    host.plug(1)
    host.plug(2)
    host.sriov.change(CARD, 3, vlan=9)  # never the agent's
    behind = port("vm", 7, vif_type="ovs", segment_id="net-segment")
    host.reconcile(host_state([LIMITED, function_port("p2", 2), behind]))
    host.sriov.unplug(CARD, 1)
    teardown = CardTeardown(host.sriov, host.file, host.options)
    assert teardown.functions() == ([slot(2)], [])
    planned = [change.text() for change in teardown.plan()]
    assert planned[-2] == "set link state of VF 2 of ens1 to disable"
    assert planned[-1] == f"remove forwarding entry {mac(7)} from ens1"
    removed = plan_teardown(L2Options(), Facts("", cards=tuple(teardown.plan())), Selection(frozenset({SRIOV})))
    assert [each.text() for each in removed.removals] == planned
    assert (
        plan_teardown(L2Options(), Facts("", cards=tuple(teardown.plan())), Selection(frozenset({L2}))).removals == ()
    )
    for _ in range(2):
        tear_down(teardown)
        assert (host.settings(1), host.settings(3)) == ({}, {"vlan": 9})
        assert host.settings(2) == {"vlan": 100, "link_state": LinkState.DISABLE}
        assert host.sriov.entries[CARD] == set()
    assert not (tmp_path / "sriov.json").exists()
