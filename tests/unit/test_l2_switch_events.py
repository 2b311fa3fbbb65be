"""Events of the switch that need a reconciliation of the L2 role, and those that do not."""

from __future__ import annotations

import pytest

from neutrino.agent.l2.pipeline import DEAD_VLAN
from neutrino.agent.l2.switch_events import SwitchEvents
from neutrino.dataplane.ovsdb.api import Bridge, Interface, InterfaceEvent, Port, Snapshot
from neutrino.model import state
from tests.support.l2 import port

PORTS: dict[str, state.Object] = {"p1": port("p1", 1), "moving": port("moving", 2, active=False)}
VLAN = {"net_uuid": "net"}


def plugged(
    what: str = "changed", iface: str = "p1", ofport: int | None = 5, tag: int | None = None, bridge: str = "br-int"
) -> InterfaceEvent:
    interface = Interface("tap1", ofport=ofport, external_ids={"iface-id": iface})
    row = Port("tap1", tag=tag, other_config=VLAN if tag else {}, interfaces=(interface,))
    return InterfaceEvent(what, bridge, row, interface)  # type: ignore[arg-type]


@pytest.fixture
def events() -> SwitchEvents:
    return SwitchEvents("br-int", Snapshot())


def test_a_new_device_needs_one_when_it_has_its_ofport(events: SwitchEvents) -> None:
    assert not events.need_reconciliation(plugged("added", ofport=None), PORTS, {})
    assert events.need_reconciliation(plugged(ofport=5), PORTS, {})
    assert not events.need_reconciliation(plugged(ofport=5, tag=7), PORTS, {"tap1": 7})


def test_a_device_that_the_switch_cannot_open_needs_one(events: SwitchEvents) -> None:
    assert not events.need_reconciliation(plugged("added", ofport=None), PORTS, {})
    assert events.need_reconciliation(plugged(ofport=-1), PORTS, {})


@pytest.mark.parametrize("iface", ["unknown", "moving"])
def test_one_of_an_unknown_port_or_an_inactive_binding_needs_one_at_once(events: SwitchEvents, iface: str) -> None:
    assert events.need_reconciliation(plugged("added", iface, ofport=None), PORTS, {})


def test_ports_of_other_bridges_need_one(events: SwitchEvents) -> None:
    """Such as the bridge of a trunk."""
    assert events.need_reconciliation(plugged("added", ofport=None, bridge="tbr-1"), PORTS, {})


@pytest.mark.parametrize("tags", [{}, {"tap2": 7}, {"tap1": 8}], ids=["none", "of another", "another tag"])
def test_a_tag_that_others_have_set_needs_one(tags: dict[str, int | None]) -> None:
    before = plugged(tag=8)
    bridge = Bridge("br-int", ports={"tap1": before.port})
    events = SwitchEvents("br-int", Snapshot(bridges={"br-int": bridge}))
    assert events.need_reconciliation(plugged(tag=DEAD_VLAN), PORTS, tags)


def test_a_change_beside_our_tag_needs_one(events: SwitchEvents) -> None:
    assert events.need_reconciliation(plugged("added"), PORTS, {})
    assert events.need_reconciliation(plugged(iface="p2", tag=7), PORTS, {"tap1": 7})


def test_other_controllers_of_the_bridge_need_one() -> None:
    """The event is that of its own interface, which has not changed."""
    interface = Interface("br-int", "internal", 65534)
    row = Port("br-int", interfaces=(interface,))
    snapshot = Snapshot(bridges={"br-int": Bridge("br-int", ports={"br-int": row})})
    event = InterfaceEvent("changed", "br-int", row, interface)
    assert SwitchEvents("br-int", snapshot).need_reconciliation(event, PORTS, {"tap1": 7})


def test_a_removed_device_needs_one_and_is_new_when_it_is_back(events: SwitchEvents) -> None:
    assert events.need_reconciliation(plugged("added"), PORTS, {})
    assert events.need_reconciliation(plugged("removed"), PORTS, {})
    assert not events.need_reconciliation(plugged("added", ofport=None), PORTS, {})
