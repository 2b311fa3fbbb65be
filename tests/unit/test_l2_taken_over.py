"""What Neutron's agent leaves on a switch is used or replaced; a later start of that agent is noticed and undone."""

from __future__ import annotations

import dataclasses

import pytest

from neutrino.agent.guard.gate import Bridges, GuardOptions
from neutrino.agent.l2.controllers import plan_controllers
from neutrino.agent.l2.hybrid.firewall import allocate_zones
from neutrino.agent.l2.trunks import plan_trunks
from neutrino.agent.l2.tunnels import plan_stale_tunnels, plan_tunnels, read_tunnels
from neutrino.dataplane.openflow.api import COOKIE as OURS
from neutrino.dataplane.openflow.api import COOKIE_MASK, Meter, flow
from neutrino.dataplane.ovsdb.api import (
    NO_CONTROLLER,
    Bridge,
    Change,
    DeleteBridge,
    DeletePort,
    Interface,
    Port,
    SetBridge,
    SetControllers,
    SetPort,
    Snapshot,
)
from neutrino.model.agents import NEUTRON_AGENT
from neutrino.model.state import Host
from neutrino.model.trunks import parent_patch, subport_patch, trunk_bridge
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l2 import OPEN, mac, network, port
from tests.support.neutron_flows import BRIDGES, COOKIE, neutron_flows
from tests.support.switch_host import OPTIONS, PEER, SwitchHost, host_state

NEUTRON = frozenset({"tcp:127.0.0.1:6633"})
OBJECTS = (network("net"), OPEN, PEER, port("p1", 1, "net", groups=["open"]), port("p2", 2, "net", groups=["open"]))


# --- controllers ------------------------------------------------------------------------------------------------------


class TakenOver(SwitchHost):
    """Without the option: what is removed has come after the start."""

    def __init__(self) -> None:
        super().__init__()
        self.serving: set[str] = set()
        self.restart()
        self.reconcile()  # bridges and patch ports
        for port_id in ("p1", "p2"):
            self.plug(port_id)

    def restart(self) -> None:
        bridges = Bridges(
            lambda: self.switch.ovsdb, self.switch.openflow, GuardOptions(), "br-int", ("br-tun",), ("br-phys",)
        )
        made = self.new_reconciler()
        made.tables.foreign = bridges.removable
        made.is_served = self.serving.__contains__

    def set_controllers(self, targets: frozenset[str]) -> None:
        self.switch.ovsdb.apply([SetControllers(bridge, targets) for bridge in BRIDGES])

    def controllers(self) -> set[frozenset[str]]:
        return {self.switch.snapshot.bridges[bridge].controllers for bridge in BRIDGES}

    def our_flows(self) -> dict[str, frozenset[object]]:
        return {bridge: self.switch.openflow.read_flows(bridge, OURS, COOKIE_MASK) for bridge in BRIDGES}

    def foreign(self) -> list[str]:
        return [text for bridge in BRIDGES for text in self.flows(bridge) if f"cookie={COOKIE:#x}" in text]


def test_controllers_of_neutrons_agent_are_replaced_and_no_flow_is_lost() -> None:
    host = TakenOver()
    host.reconcile(*OBJECTS)
    host.set_controllers(NEUTRON)
    host.reconcile(*OBJECTS)
    before = host.our_flows()
    assert all(before.values())
    assert host.controllers() == {frozenset({NO_CONTROLLER})}
    host.set_controllers(NEUTRON)
    assert host.our_flows() == before, "one replaces another"
    host.reconcile(*OBJECTS)
    assert host.controllers() == {frozenset({NO_CONTROLLER})}
    assert host.reconcile(*OBJECTS).changed == 0


def test_a_neutron_agent_that_is_started_later_is_named_and_its_flows_are_removed() -> None:
    host = TakenOver()
    host.reconcile(*OBJECTS)
    host.set_controllers(NEUTRON)
    assert host.reconcile(*OBJECTS).faults == {}, "left behind by an agent that was stopped"
    before = host.our_flows()
    host.set_controllers(NEUTRON)
    host.serving |= NEUTRON
    for bridge in BRIDGES:  # some replace ours under the same key
        host.switch.openflow.apply_flows(bridge, add=neutron_flows(bridge, 3), delete=())
    assert host.our_flows() != before
    outcome = host.reconcile(*OBJECTS)
    assert "tcp:127.0.0.1:6633" in outcome.faults[NEUTRON_AGENT]
    assert (host.foreign(), host.our_flows()) == ([], before)

    late = flow(0, 200, "reg3=0", "set_queue:0,resubmit(,0)", cookie=COOKIE)  # by ovs-ofctl, which needs no controller
    host.switch.openflow.apply_flows("br-int", add=[late], delete=())
    assert host.reconciler.drift(whole=False) == {"br-int": (0, 1)}
    host.reconciler.forget("br-int")
    host.reconcile(*OBJECTS)
    assert host.foreign() == []
    assert not host.reconciler.has_neutron_agent_left()
    host.serving.clear()
    assert host.reconciler.has_neutron_agent_left()
    assert host.reconcile(*OBJECTS).faults == {}


def test_controllers_of_the_operator_stay() -> None:
    def planned(name: str, *targets: str) -> list[frozenset[str]]:
        snapshot = Snapshot({name: Bridge(name, controllers=frozenset(targets))})
        changes = plan_controllers(OPTIONS, snapshot).changes
        return [change.targets for change in changes if isinstance(change, SetControllers)]

    assert planned("br-phys", "tcp:192.0.2.9:6653", "ptcp:6654") == []
    assert planned("br-phys", "tcp:192.0.2.9:6653", *NEUTRON) == [{"tcp:192.0.2.9:6653"}]
    assert planned("br-phys", "tcp:[::1]:6633", "ptcp:6654") == [{NO_CONTROLLER, "ptcp:6654"}]
    assert planned("br-int", "punix:/run/debug") == []
    assert planned("br-int", "tcp:192.0.2.9:6653") == [{NO_CONTROLLER}]
    assert planned("br-tun", NO_CONTROLLER) == []
    assert planned("br-others", *NEUTRON) == []
    both = {name: Bridge(name, controllers=frozenset({"tcp:192.0.2.7:6633"})) for name in ("br-int", "br-phys")}
    assert len(plan_controllers(OPTIONS, Snapshot(both)).changes) == 2, "Neutron has one address for all bridges"


def test_fail_modes_are_set_where_a_controller_keeps_the_flows() -> None:
    host = TakenOver()
    host.switch.ovsdb.apply([SetBridge("br-phys", fail_mode="standalone"), SetControllers("br-phys", NEUTRON)])
    host.switch.openflow.apply_flows("br-phys", add=[flow(0, n, "", "NORMAL") for n in range(3)], delete=())
    host.reconcile(*OBJECTS)
    assert host.switch.snapshot.bridges["br-phys"].fail_mode == "secure"


# --- tunnels ----------------------------------------------------------------------------------------------------------

V6 = dataclasses.replace(OPTIONS, local_ip="fd00::1", tunnel_types=("vxlan", "gre"))
V6_HOSTS = [Host(id="h2", tunneling_ip="fd00::2", tunnel_types=("vxlan", "gre"))]
FLOW = {"in_key": "flow", "out_key": "flow", "local_ip": "fd00::1"}


def tunnel(name: str, kind: str, address: str, ofport: int | None, **more: str) -> Port:
    return Port(name, interfaces=(Interface(name, kind, ofport, options={**FLOW, "remote_ip": address, **more}),))


def tunnels(*ports: Port) -> Snapshot:
    return Snapshot({"br-tun": Bridge("br-tun", ports={port.name: port for port in ports})})


def test_tunnels_of_neutron_are_used_under_their_names() -> None:
    left = tunnels(
        tunnel("vxlan-nqe2hxo3t", "vxlan", "fd00::2", 4, egress_pkt_mark="0"),
        tunnel("gre-nqe2hxo3tbc", "ip6gre", "fd00:0::2", 5, packet_type="legacy_l2"),
    )
    changes = {each.name: each for each in plan_tunnels(V6, V6_HOSTS, left).changes if isinstance(each, SetPort)}
    assert changes.keys() == {"vxlan-nqe2hxo3t", "gre-nqe2hxo3tbc"}
    assert changes["gre-nqe2hxo3tbc"].type == "ip6gre", "another type would be another port"
    assert changes["gre-nqe2hxo3tbc"].options["remote_ip"] == "fd00:0::2"
    assert [(each.ofport, each.network_type) for each in read_tunnels(V6, V6_HOSTS, left)] == [(4, "vxlan"), (5, "gre")]
    assert plan_stale_tunnels(V6, V6_HOSTS, left).changes == ()


def test_of_two_tunnels_with_equal_endpoints_the_numbered_one_is_used() -> None:
    left = tunnels(tunnel("vxlan-aaa", "vxlan", "fd00::2", -1), tunnel("vxlan-zzz", "vxlan", "fd00::2", 4))
    assert [each.ofport for each in read_tunnels(V6, V6_HOSTS, left)] == [4]
    assert plan_stale_tunnels(V6, V6_HOSTS, left).changes == (DeletePort("br-tun", "vxlan-aaa"),)


def test_tunnels_of_neutron_to_no_host_are_removed_after_the_flows() -> None:
    host = TakenOver()
    host.reconcile(*OBJECTS)
    options = {"in_key": "flow", "out_key": "flow", "remote_ip": "192.0.2.77"}
    host.switch.ovsdb.apply([SetPort("br-tun", "vxlan-c000024d", "vxlan", options=options)])
    host.switch.ovsdb.apply([SetPort("br-tun", "gre-monitor", "gre", options={"remote_ip": "192.0.2.99", "key": "7"})])
    host.reconcile(*OBJECTS, complete=False)
    assert "vxlan-c000024d" in host.switch.snapshot.bridges["br-tun"].ports
    host.reconcile(*OBJECTS)
    ports = host.switch.snapshot.bridges["br-tun"].ports
    assert "vxlan-c000024d" not in ports
    assert "gre-monitor" in ports, "an operator's, with a key of its own"


# --- local VLANs, meters, zones, trunks ---------------------------------------------------------------------------------


def test_rows_without_a_device_do_not_take_the_vlan_of_plugged_ports() -> None:
    """Neutron's agent gives their VLAN to other networks; an operator counted 1,591 of them among 1,634 ports."""
    host = TakenOver()
    old = {"net_uuid": "gone", "network_type": "vxlan", "physical_network": "None", "segmentation_id": "7", "tag": "5"}
    new = {**old, "net_uuid": "net", "segmentation_id": "100"}
    host.reconcile()
    orphans = {
        f"tapgone{n}": Port(f"tapgone{n}", 5, old, {}, (Interface(f"tapgone{n}", ofport=-1),)) for n in range(40)
    }
    for name in ("tapp1", "tapp2"):
        host.switch.ovsdb.apply([SetPort("br-int", name, tag=5, other_config=new)])
    held = host.switch.snapshot.bridges["br-int"]
    host.switch.ovsdb._snapshot = dataclasses.replace(
        host.switch.snapshot,
        bridges={**host.switch.snapshot.bridges, "br-int": dataclasses.replace(held, ports={**held.ports, **orphans})},
    )
    host.reconcile(*OBJECTS)
    assert (host.tag("p1"), host.tag("p2")) == (5, 5)


def test_meters_of_removed_flows_are_removed() -> None:
    host = TakenOver()
    host.reconcile(*OBJECTS)
    host.switch.openflow.apply_meters("br-int", add={7: Meter(100), 9: Meter(5)}, change={}, delete=())
    metered = flow(59, 100, "in_port=3", "meter:7,resubmit(,60)", cookie=COOKIE)
    host.switch.openflow.apply_flows("br-int", add=[metered], delete=())
    host.set_controllers(NEUTRON)
    host.switch.openflow.apply_flows("br-int", add=[metered], delete=())
    host.reconcile(*OBJECTS)
    assert set(host.switch.openflow.read_meters("br-int")) == {9}


@pytest.mark.parametrize(("group", "zone"), [("", 0xC001), ("group", 4097)])
def test_a_zone_of_neutrons_hybrid_driver_is_kept_unless_firewall_groups_have_zones_there(
    group: str, zone: int
) -> None:
    made = port("p1", 1, "net", groups=["open"], firewall_group_id=group)
    host = TakenOver()
    desired = host.reconciler.view(host_state(network("net"), OPEN, made), complete=True).desired
    assert allocate_zones(["p1"], {"p1": 0xC001}, desired) == {"p1": zone}


TRUNK = "11111111-2222-3333-4444-555555555555"
PARENT, SUBPORT = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "ffffffff-bbbb-cccc-dddd-eeeeeeeeeeee"


def neutrons_trunk() -> list[Change]:
    bridge = trunk_bridge(TRUNK)
    changes: list[Change] = [SetBridge("br-int"), SetBridge(bridge)]
    for port_id, (inner, outer), tag in (
        (PARENT, (f"tpi-{PARENT}"[:15], f"tpt-{PARENT}"[:15]), None),
        (SUBPORT, (f"spi-{SUBPORT}"[:15], f"spt-{SUBPORT}"[:15]), 10),
    ):
        ids = {"iface-id": port_id, "attached-mac": mac(1)}
        changes.append(SetPort("br-int", inner, "patch", options={"peer": outer}, external_ids=ids))
        changes.append(SetPort(bridge, outer, "patch", tag=tag, options={"peer": inner}, external_ids=ids))
    return changes


def test_patches_of_neutrons_trunks_are_used_under_their_names() -> None:
    assert (len(parent_patch(PARENT)[0]), len(subport_patch(SUBPORT)[1])) == (15, 15), "as Neutron names them"
    ovsdb = FakeOvsdb()
    ovsdb.apply([*neutrons_trunk(), SetPort(trunk_bridge(TRUNK), "tap1", external_ids={"iface-id": PARENT})])
    before = {name: set(bridge.ports) for name, bridge in ovsdb.read().bridges.items()}
    ports = {
        PARENT: port(PARENT, 1, trunk_id=TRUNK),
        SUBPORT: port(SUBPORT, 2, trunk_id=TRUNK, trunk_vlan=10),
    }
    ovsdb.apply(plan_trunks(OPTIONS, ports, ovsdb.read(), complete=True).changes)
    assert {name: set(bridge.ports) for name, bridge in ovsdb.read().bridges.items()} == before
    assert plan_trunks(OPTIONS, ports, ovsdb.read(), complete=True).changes == ()


def test_a_trunk_of_neutron_that_the_instance_has_left_is_removed() -> None:
    ovsdb = FakeOvsdb()
    ovsdb.apply(neutrons_trunk())
    assert plan_trunks(OPTIONS, {}, ovsdb.read(), complete=False).changes == ()
    changes = plan_trunks(OPTIONS, {}, ovsdb.read(), complete=True).changes
    assert DeleteBridge(trunk_bridge(TRUNK)) in changes
    ovsdb.apply(changes)
    assert set(ovsdb.read().bridges["br-int"].ports) == {"br-int"}
