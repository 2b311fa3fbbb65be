"""Virtual functions: what ports want of them, and the changes that bring it about."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from msgspec import structs

from neutrino.agent.sriov.desired import NotWired, max_rate, min_rate, render
from neutrino.agent.sriov.plan import cut, plan, released
from neutrino.dataplane.sriov.api import DEAD_VLAN, LinkState, SetFunction, Setting, Settings
from neutrino.model.state import AddressPair, VirtualFunction
from tests.fakes.sriov import FakeSriov, slot
from tests.support.l2 import mac, network
from tests.support.sriov import CARD, function_port, host_state, policy, vlan


def settings_of(
    *, of_network: dict[str, Any] | None = None, limit: int = 0, minimum: int = 0, **changes: Any
) -> Settings:
    one = function_port("p1", 1, qos_policy_id="policy", **changes)
    net = structs.replace(vlan(), **(of_network or {}))
    return render(one, host_state([one], [net], [policy(limit=limit, minimum=minimum)])).settings


def test_a_port_as_it_is_by_default() -> None:
    assert settings_of() == Settings(vlan=100)


def test_a_flat_network_has_no_vlan() -> None:
    one = function_port("p1", 1)
    assert render(one, host_state([one], [network("net", "flat", 0, "rack")])).settings.vlan == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"port_security_enabled": False}, {"spoof_check": False}),
        ({"allowed_address_pairs": (AddressPair("", "10.0.0.9"),)}, {}),
        ({"allowed_address_pairs": (AddressPair(mac(1).upper(), "10.0.0.9"),)}, {}),
        ({"allowed_address_pairs": (AddressPair(mac(9), "10.0.0.9"),)}, {"spoof_check": False}),
        ({"function": VirtualFunction(slot(1), trusted=True)}, {"trust": True}),
        ({"function": VirtualFunction(slot(1), propagate_uplink_status=False)}, {"link_state": LinkState.ENABLE}),
        ({"admin_state_up": False}, {"link_state": LinkState.DISABLE}),
        ({"of_network": {"admin_state_up": False}}, {"link_state": LinkState.DISABLE}),
        ({"limit": 5400}, {"max_rate": 5}),
        ({"limit": 5500, "minimum": 300}, {"max_rate": 6, "min_rate": 1}),
    ],
)
def test_what_ports_and_policies_change(changes: dict[str, Any], expected: dict[str, object]) -> None:
    assert settings_of(**changes) == dataclasses.replace(Settings(vlan=100), **expected)  # type: ignore[arg-type]


def test_the_policy_of_a_network_applies_to_its_ports() -> None:
    one, net = function_port("p1", 1), structs.replace(vlan(), qos_policy_id="policy")
    assert render(one, host_state([one], [net], [policy(limit=8000)])).settings.max_rate == 8
    assert max_rate(None) == min_rate(None) == max_rate(policy()) == 0


@pytest.mark.parametrize(
    ("changes", "networks", "reason"),
    [
        ({"function": VirtualFunction("")}, [vlan()], "no pci_slot"),
        ({"function": None}, [vlan()], "no pci_slot"),
        ({}, [vlan("another")], "network is not known"),
        ({"segment_id": "gone"}, [vlan()], "segment is not known"),
        ({}, [network("net")], "type vxlan"),
    ],
)
def test_ports_that_cannot_have_a_function(changes: dict[str, Any], networks: list[Any], reason: str) -> None:
    one = function_port("p1", 1, **changes)
    with pytest.raises(NotWired, match=reason):
        render(one, host_state([one], networks))


# --- plans ------------------------------------------------------------------------------------------------------------

SAMPLES = [
    Settings(vlan=vlan_id, spoof_check=checked, trust=trust, link_state=link, max_rate=most, min_rate=least)
    for vlan_id, checked, trust, link, (most, least) in itertools.product(
        (0, 100), (True, False), (True, False), LinkState, ((0, 0), (10, 5), (100, 50), (0, 20), (5, 0))
    )
]


def applied(changes: list[SetFunction], actual: Settings) -> Settings:
    sriov = FakeSriov(CARD)
    sriov.change(CARD, 0, **dataclasses.asdict(actual))
    for change in changes:
        sriov.set(change)  # refuses a minimum rate above the maximum, as the kernel does
    return sriov.function(CARD, 0).settings


def test_every_state_is_reached_from_every_other_and_then_nothing_is_planned() -> None:
    for wanted, actual in itertools.product(SAMPLES[::3], SAMPLES[::7]):
        reached = applied(plan(CARD, 0, wanted, actual), actual)
        assert reached == wanted
        assert plan(CARD, 0, wanted, reached) == []


def test_a_link_goes_down_first_and_up_last() -> None:
    up, down = Settings(vlan=1, link_state=LinkState.ENABLE, max_rate=5), Settings(vlan=2, link_state=LinkState.DISABLE)
    assert plan(CARD, 0, down, up)[0].setting is Setting.LINK_STATE
    assert plan(CARD, 0, up, down)[-1].setting is Setting.LINK_STATE


def test_a_driver_without_link_states_cuts_by_a_vlan() -> None:
    actual = Settings(vlan=100)
    (change,) = plan(CARD, 3, cut(actual), actual, {Setting.LINK_STATE})
    assert change == SetFunction(CARD, 3, Setting.VLAN, DEAD_VLAN)
    assert change.text() == "set VLAN of VF 3 of ens1 to 4095"
    assert plan(CARD, 3, cut(actual), Settings(vlan=DEAD_VLAN), {Setting.LINK_STATE}) == []


def test_settings_that_a_driver_does_not_tell_are_set_only_to_be_on() -> None:
    silent = Settings(spoof_check=None, trust=None)
    assert plan(CARD, 0, Settings(spoof_check=False, trust=False), silent) == []
    on = plan(CARD, 0, Settings(spoof_check=True, trust=True), silent)
    assert [change.setting for change in on] == [Setting.SPOOF_CHECK, Setting.TRUST]
    assert plan(CARD, 0, released(silent), silent) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (SetFunction("e", 1, Setting.LINK_STATE, LinkState.AUTO), "set link state of VF 1 of e to auto"),
        (SetFunction("e", 1, Setting.SPOOF_CHECK, 0), "set spoof check of VF 1 of e to off"),
        (SetFunction("e", 1, Setting.MAX_RATE, 10, 5), "set maximum rate of VF 1 of e to 10 Mbit/s"),
        (SetFunction("e", 1, Setting.MIN_RATE, 0), "set minimum rate of VF 1 of e to none"),
    ],
)
def test_a_change_in_words(change: SetFunction, text: str) -> None:
    assert change.text() == text
