"""Trunk bridges: patches for what is plugged and bound, planned from snapshots of OVSDB."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.agent.l2.desired import HostState, L2Options
from neutrino.agent.l2.extensions.trunks import TrunkStatuses
from neutrino.agent.l2.trunks import parents, plan_trunks
from neutrino.dataplane.ovsdb.api import DeleteBridge, DeletePort, Interface, SetBridge, SetPort
from neutrino.model.state import Port
from neutrino.model.trunks import parent_patch, subport_patch, trunk_bridge
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l2 import OPEN, network
from tests.support.l2 import port as l2_port
from tests.support.switch_host import SwitchHost, host_state

OPTIONS = L2Options()
TRUNK = "0c6b2f3e-0000-4000-8000-000000000001"
BRIDGE = trunk_bridge(TRUNK)
MAC = "fa:16:3e:00:00:01"


def port(number: int, vlan: int = 0, **values: object) -> Port:
    key = f"{number:08x}-0000-4000-8000-000000000000"
    known = {"id": key, "network_id": "n", "mac_address": MAC, "host": "h1", "trunk_id": TRUNK, "trunk_vlan": vlan}
    return Port(**{**known, **values})  # type: ignore[arg-type]


PARENT, RED, GREEN = port(1), port(2, 10), port(3, 20)
PORTS = {each.id: each for each in (PARENT, RED, GREEN)}


@pytest.fixture
def ovsdb() -> FakeOvsdb:
    """The parent's device is plugged, as os-vif does it."""
    made = FakeOvsdb()
    made.apply([SetBridge("br-int"), SetBridge(BRIDGE, datapath_type="system")])
    made.apply([SetPort(BRIDGE, "tap1", external_ids={"iface-id": PARENT.id})])
    return made


def wire(ovsdb: FakeOvsdb, ports: dict[str, Port], *, complete: bool = True) -> int:
    changes = plan_trunks(OPTIONS, ports, ovsdb.read(), complete=complete).changes
    ovsdb.apply(changes)
    assert plan_trunks(OPTIONS, ports, ovsdb.read(), complete=complete).changes == ()
    return len(changes)


def names(ovsdb: FakeOvsdb, bridge: str) -> set[str]:
    return set(ovsdb.read().bridges[bridge].ports) - {bridge}


def test_each_port_of_a_trunk_has_a_patch(ovsdb: FakeOvsdb) -> None:
    wire(ovsdb, PORTS)
    inner, outer = ovsdb.read().bridges["br-int"].ports, ovsdb.read().bridges[BRIDGE].ports
    pairs = {PARENT: parent_patch(PARENT.id), RED: subport_patch(RED.id), GREEN: subport_patch(GREEN.id)}
    for each, (here, there) in pairs.items():
        (one,), (other,) = inner[here].interfaces, outer[there].interfaces
        assert (one.type, one.options["peer"], other.type, other.options["peer"]) == ("patch", there, "patch", here)
        assert one.external_ids["iface-id"] == each.id
        assert "iface-id" not in other.external_ids  # that end is not the port
        assert outer[there].tag == (each.trunk_vlan or None)
    assert outer[pairs[PARENT][1]].trunks == (0,)  # untagged packets alone
    assert len(names(ovsdb, "br-int")) == 3
    assert parents(PORTS.values()) == {PARENT.id}


def test_nothing_is_wired_before_the_parent_is_plugged() -> None:
    ovsdb = FakeOvsdb()
    ovsdb.apply([SetBridge("br-int")])
    assert wire(ovsdb, PORTS) == 0
    ovsdb.apply([SetBridge(BRIDGE), SetPort(BRIDGE, "tap9", external_ids={"iface-id": "another"})])
    assert wire(ovsdb, PORTS) == 0


def test_a_subport_is_added_moved_and_removed_alone(ovsdb: FakeOvsdb) -> None:
    wire(ovsdb, {PARENT.id: PARENT, RED.id: RED})
    assert wire(ovsdb, PORTS) == 2
    other = port(2, 11)
    assert wire(ovsdb, {**PORTS, RED.id: other}) == 1  # the tag
    left = plan_trunks(OPTIONS, {PARENT.id: PARENT, GREEN.id: GREEN}, ovsdb.read(), complete=True).changes
    here, there = subport_patch(RED.id)
    assert set(left) == {DeletePort("br-int", here), DeletePort(BRIDGE, there)}


def test_a_bridge_that_the_instance_has_left_is_deleted(ovsdb: FakeOvsdb) -> None:
    wire(ovsdb, PORTS)
    ovsdb.apply([DeletePort(BRIDGE, "tap1")])
    assert DeleteBridge(BRIDGE) in plan_trunks(OPTIONS, PORTS, ovsdb.read(), complete=True).changes
    assert plan_trunks(OPTIONS, PORTS, ovsdb.read(), complete=False).changes == ()  # the cache may be old
    wire(ovsdb, {})
    assert set(ovsdb.read().bridges) == {"br-int"}
    assert names(ovsdb, "br-int") == set()


def test_a_bridge_with_other_devices_stays(ovsdb: FakeOvsdb) -> None:
    wire(ovsdb, PORTS)
    wire(ovsdb, {})
    assert names(ovsdb, BRIDGE) == {"tap1"}
    assert names(ovsdb, "br-int") == set()


def test_bridges_of_others_stay(ovsdb: FakeOvsdb) -> None:
    ovsdb.apply([SetBridge("tbr-someones"), SetPort("br-int", "spi-someones", "patch")])
    wire(ovsdb, {})
    assert "tbr-someones" in ovsdb.read().bridges
    assert "spi-someones" in names(ovsdb, "br-int")


def test_a_device_that_is_gone_counts_only_in_a_live_migration(ovsdb: FakeOvsdb) -> None:
    bridge = ovsdb.read().bridges[BRIDGE]
    gone = Interface("tap1", ofport=-1, external_ids={"iface-id": PARENT.id})
    lost = dataclasses.replace(bridge.ports["tap1"], interfaces=(gone,))
    bridges = {**ovsdb.read().bridges, BRIDGE: dataclasses.replace(bridge, ports={**bridge.ports, "tap1": lost})}
    snapshot = dataclasses.replace(ovsdb.read(), bridges=bridges)
    assert plan_trunks(OPTIONS, PORTS, snapshot, complete=True).changes == ()
    coming = port(1, active=False)
    assert plan_trunks(OPTIONS, {coming.id: coming}, snapshot, complete=True).changes != ()


# --- on a whole host --------------------------------------------------------------------------------------------------


def test_a_trunk_is_wired_as_ports_of_the_integration_bridge() -> None:
    host = SwitchHost()
    nets = network("net"), network("red", number=102)
    parent = l2_port("p1", 1, groups=["open"], revision=3, trunk_id=TRUNK)
    red = l2_port("p2", 2, groups=["open"], revision=4, network_id="red", trunk_id=TRUNK, trunk_vlan=10)
    objects = (*nets, OPEN, parent, red)
    assert host.reconcile(*objects).wired == {}  # also not by a device in a bridge that is not ours
    host.switch.ovsdb.apply([SetBridge(BRIDGE)])
    host.plug("p1", BRIDGE)
    outcome = host.reconcile(*objects)
    assert (outcome.wired, outcome.ancillary, outcome.problems) == ({"p1": 3, "p2": 4}, frozenset(), {})
    tags = {name: each.tag for name, each in host.switch.snapshot.bridges["br-int"].ports.items()}
    assert tags["tpi-p1"] != tags["spi-p2"]  # each its own network's
    assert host.reconcile(*objects).changed == 0
    host.new_reconciler()
    assert host.reconcile(*objects).changed == 0
    outcome = host.reconcile(*nets, OPEN, parent)
    assert outcome.wired == {"p1": 3}
    assert "spi-p2" not in host.switch.snapshot.bridges["br-int"].ports
    assert host.reconciler.find(host_state(*objects), complete=True).plan.count("set port") >= 2


def test_the_target_of_a_live_migration_prepares_the_parent() -> None:
    host = SwitchHost()
    parent = l2_port("p1", 1, groups=["open"], trunk_id=TRUNK, active=False)
    host.switch.ovsdb.apply([SetBridge(BRIDGE)])
    host.plug("p1", BRIDGE)
    outcome = host.reconcile(network("net"), OPEN, parent)
    assert (outcome.prepared, outcome.wired) == ({"p1"}, {})


def test_a_trunk_with_a_port_that_is_not_wired_is_reported() -> None:
    ports = {each.id: each for each in (PARENT, RED, GREEN)}

    def reported(wired: set[str], failed: dict[str, str]) -> list[tuple[str, str, str]]:
        statuses = TrunkStatuses().statuses(HostState(ports=ports), wired, failed)
        return [(each.id, each.status, each.reason) for each in statuses]

    assert reported(set(), {}) == []  # nothing is plugged yet
    assert reported({PARENT.id, RED.id}, {}) == [(TRUNK, "ACTIVE", "")]
    assert reported({PARENT.id}, {RED.id: "no room"}) == [(TRUNK, "ERROR", "no room")]
    assert reported({PARENT.id}, {"another": "no room"}) == [(TRUNK, "ACTIVE", "")]
