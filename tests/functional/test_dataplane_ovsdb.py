"""The contract of the OVSDB driver, on the fake database and on a real one."""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable, Iterator

import pytest

from neutrino.agent.l2.bridges import plan_bridges, read_plugged
from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.tunnels import plan_tunnels
from neutrino.dataplane.ovsdb.api import (
    NO_CONTROLLER,
    NO_TAG,
    ConfigurePort,
    DeleteBridge,
    DeletePort,
    DeleteUnused,
    InterfaceEvent,
    Ovsdb,
    OvsdbError,
    PortSettings,
    Qos,
    Queue,
    SetBridge,
    SetControllers,
    SetManager,
    SetPort,
    SetVlanLimit,
)
from neutrino.dataplane.ovsdb.real import RealOvsdb
from neutrino.model.state import Host
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.openvswitch import OpenVSwitch
from tests.support.waiting import eventually

INT = SetBridge("br-int", datapath_type="dummy", fail_mode="secure", external_ids={"owner": "us"})
TAP = SetPort("br-int", "tap1", "dummy", external_ids={"iface-id": "port-1", "attached-mac": "fa:16:3e:00:00:01"})


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture(params=["fake", "real"])
def ovsdb(request: pytest.FixtureRequest) -> Iterator[Ovsdb]:
    if request.param == "fake":
        yield FakeOvsdb()
        return
    server: OpenVSwitch = request.getfixturevalue("switch")
    driver = RealOvsdb(server.database)
    yield driver
    driver.apply([DeleteBridge(name) for name in driver.read().bridges])
    driver.close()


@pytest.fixture
def wait(ovsdb: Ovsdb) -> Callable[..., InterfaceEvent]:
    """Waits for an event of an interface; those of others, and other kinds, are passed over."""
    events: queue.Queue[InterfaceEvent] = queue.Queue()
    ovsdb.subscribe(lambda batch: [events.put(event) for event in batch])  # type: ignore[func-returns-value]

    def wait_for(name: str, what: str, condition: Callable[[InterfaceEvent], bool] = lambda _: True) -> InterfaceEvent:
        while True:
            event = events.get(timeout=10)
            if (event.interface.name, event.what) == (name, what) and condition(event):
                return event

    return wait_for


def test_bridges(ovsdb):
    ovsdb.apply([INT, SetBridge("br-tun", datapath_type="dummy")])
    bridges = ovsdb.read().bridges
    assert set(bridges) == {"br-int", "br-tun"}
    made = bridges["br-int"]
    assert (made.datapath_type, made.fail_mode, dict(made.external_ids)) == ("dummy", "secure", {"owner": "us"})
    assert set(made.ports) == {"br-int"}
    ovsdb.apply([DeleteBridge("br-tun"), DeleteBridge("br-none")])
    assert set(ovsdb.read().bridges) == {"br-int"}


SHAPED = PortSettings(
    {"ingress_policing_rate": "1000", "other_config:mark": "1"},
    Qos("linux-htb", {"max-rate": "5000000"}, {0: Queue({"min-rate": "1000"}), 3: Queue({}, dscp=12)}),
)


def settings(ovsdb: Ovsdb) -> PortSettings:
    return ovsdb.read().bridges["br-int"].ports["tap1"].settings


def rows(server: OpenVSwitch, table: str) -> set[str]:
    return {*server.vsctl("--bare", "--columns=_uuid", "list", table).split()}


def test_settings_of_a_port_are_read_back_equal_and_removed(ovsdb):
    ovsdb.apply([INT, TAP])
    assert settings(ovsdb) == PortSettings()
    ovsdb.apply([ConfigurePort("tap1", SHAPED), ConfigurePort("gone", SHAPED)])
    assert settings(ovsdb) == SHAPED
    less = PortSettings({"ingress_policing_burst": "7"}, Qos("linux-hfsc", {}, {3: Queue({"max-rate": "9"})}))
    ovsdb.apply([ConfigurePort("tap1", less)])
    assert settings(ovsdb) == less
    ovsdb.apply([ConfigurePort("tap1", PortSettings())])
    assert settings(ovsdb) == PortSettings()
    assert ovsdb.read().unused == frozenset()


def test_a_change_of_settings_is_an_event(ovsdb, wait):
    ovsdb.apply([INT, TAP])
    wait("tap1", "added")
    ovsdb.apply([ConfigurePort("tap1", SHAPED)])
    wait("tap1", "changed", lambda event: event.port.settings == SHAPED)


def test_qos_rows_of_a_deleted_port_are_unused_until_they_are_deleted(ovsdb):
    ovsdb.apply([INT, TAP])
    ovsdb.apply([ConfigurePort("tap1", SHAPED)])
    ovsdb.apply([DeletePort("br-int", "tap1")])
    unused = ovsdb.read().unused
    assert unused
    ovsdb.apply([DeleteUnused(unused)])
    assert ovsdb.read().unused == frozenset()


def test_qos_changes_in_place_and_that_of_others_stays(switch):
    """On the real database: no row is replaced or left behind."""
    driver = RealOvsdb(switch.database)
    try:
        driver.apply([INT, TAP])
        driver.apply([ConfigurePort("tap1", SHAPED)])
        before = rows(switch, "qos"), rows(switch, "queue")
        assert (len(before[0]), len(before[1])) == (1, 2)
        more = Qos("linux-htb", {"max-rate": "1"}, {0: Queue({"min-rate": "2"}), 3: Queue({}, dscp=13)})
        driver.apply([ConfigurePort("tap1", PortSettings(qos=more))])
        assert (rows(switch, "qos"), rows(switch, "queue")) == before
        assert settings(driver).qos == more
        driver.apply([ConfigurePort("tap1", PortSettings())])
        assert (rows(switch, "qos"), rows(switch, "queue")) == (set(), set())
        switch.vsctl("set", "port", "tap1", "qos=@q", "--", "--id=@q", "create", "qos", "type=linux-noop")
        eventually(lambda: driver.read().bridges["br-int"].ports["tap1"].foreign_qos)
        assert (settings(driver), driver.read().unused) == (PortSettings(), frozenset())
    finally:
        driver.apply([DeleteBridge("br-int")])
        driver.close()
        switch.vsctl("--all", "destroy", "qos")


# As Neutron's agent makes them: bandwidth limits of a port, and minimum bandwidths of several uplinks in one row.
NEUTRON_LIMIT = (
    *("--", "--id=@q0", "create", "queue", "other_config:max-rate=4000000", "other_config:burst=3200000"),
    *("external_ids:port=tap1", "external_ids:type=bandwidth_limit", "external_ids:queue-num=0"),
    *("--", "--id=@qos", "create", "qos", "type=linux-htb", "queues:0=@q0", "other_config:max-rate=4294967295"),
    *("external_ids:id=tap1", "external_ids:_type=bandwidth_limit", "--", "set", "port", "tap1", "qos=@qos"),
    *("--", "set", "interface", "tap1", "ingress_policing_rate=2000", "ingress_policing_burst=1600"),
)
NEUTRON_MINIMUM = (
    *("--", "--id=@q5", "create", "queue", "other_config:min-rate=1000000", "external_ids:port=p5"),
    *("external_ids:type=minimum_bandwidth", "external_ids:queue-num=5"),
    *("--", "--id=@qos", "create", "qos", "type=linux-htb", "queues:5=@q5", "external_ids:_type=minimum_bandwidth"),
    *("external_ids:id=0f4a", "--", "set", "port", "tap1", "qos=@qos", "--", "set", "port", "tap2", "qos=@qos"),
)


def test_qos_of_neutrons_agent_counts_as_ours(switch):
    driver = RealOvsdb(switch.database)
    try:
        driver.apply([INT, TAP, dataclasses.replace(TAP, name="tap2", external_ids={})])
        switch.vsctl(*NEUTRON_LIMIT[1:])
        limit = Qos("linux-htb", {"max-rate": "4294967295"}, {0: Queue({"max-rate": "4000000", "burst": "3200000"})})
        policing = {"ingress_policing_rate": "2000", "ingress_policing_burst": "1600"}
        eventually(lambda: settings(driver) == PortSettings(policing, limit))
        before = rows(switch, "qos"), rows(switch, "queue")
        ours = Qos("linux-htb", {"max-rate": "5"}, {0: Queue({"max-rate": "5"})})
        driver.apply([ConfigurePort("tap1", PortSettings(qos=ours))])
        assert settings(driver) == PortSettings(qos=ours)
        assert (rows(switch, "qos"), rows(switch, "queue")) == before, "changed in place: the device keeps its queues"
        assert switch.vsctl("get", "qos", *before[0], "external_ids") == "{neutrino=extension}"
        assert switch.vsctl("get", "interface", "tap1", "ingress_policing_rate") == "0"

        switch.vsctl(*NEUTRON_MINIMUM[1:])
        eventually(lambda: len(rows(switch, "qos")) == 2 and driver.read().unused)
        driver.apply([ConfigurePort(name, PortSettings(qos=ours)) for name in ("tap1", "tap2")])
        driver.apply([DeleteUnused(driver.read().unused)])
        assert (len(rows(switch, "qos")), len(rows(switch, "queue"))) == (2, 2), "one for each port, none of Neutron's"
        assert "minimum_bandwidth" not in switch.vsctl("list", "qos") + switch.vsctl("list", "queue")
    finally:
        driver.apply([DeleteBridge("br-int")])
        driver.close()
        switch.vsctl("--all", "destroy", "qos", "--", "--all", "destroy", "queue")


def test_controllers_are_replaced_and_flows_stay(switch):
    """A bridge that lost its last controller, or got its first one, would lose all its flows."""
    driver = RealOvsdb(switch.database)
    address = f"unix:{switch.directory}/br-int.mgmt"
    try:
        driver.apply([INT], wait=10)
        switch.vsctl("set-controller", "br-int", "tcp:127.0.0.1:6633")
        switch.call("ovs-ofctl", "add-flow", address, "cookie=5,priority=7,arp,actions=drop")
        eventually(lambda: driver.read().bridges["br-int"].controllers == {"tcp:127.0.0.1:6633"})
        driver.apply(
            [SetControllers("br-int", frozenset({NO_CONTROLLER})), SetControllers("gone", frozenset())], wait=10
        )
        assert driver.read().bridges["br-int"].controllers == {NO_CONTROLLER}
        assert "cookie=0x5" in switch.call("ovs-ofctl", "dump-flows", address)
        switch.vsctl("set-controller", "br-int", "tcp:127.0.0.1:6633")
        assert "cookie=0x5" in switch.call("ovs-ofctl", "dump-flows", address)
        switch.vsctl("set-fail-mode", "br-int", "standalone")
        assert "cookie=0x5" in switch.call("ovs-ofctl", "dump-flows", address), "with a controller it may be changed"
    finally:
        driver.apply([DeleteBridge("br-int")])
        driver.close()


def test_other_controllers_are_a_change_of_the_bridge(ovsdb, wait):
    ovsdb.apply([INT])
    wait("br-int", "added")
    ovsdb.apply([SetControllers("br-int", frozenset({NO_CONTROLLER}))])
    wait("br-int", "changed", lambda _: ovsdb.read().bridges["br-int"].controllers == {NO_CONTROLLER})


def test_a_port_and_its_tag(ovsdb):
    ovsdb.apply([INT, TAP])
    ovsdb.apply([SetPort("br-int", "tap1", tag=7, other_config={"net_uuid": "net", "tag": "7"})])
    port = ovsdb.read().bridges["br-int"].ports["tap1"]
    assert (port.tag, dict(port.other_config)) == (7, {"net_uuid": "net", "tag": "7"})
    (interface,) = port.interfaces
    assert interface.type == "dummy"
    assert dict(interface.external_ids) == dict(TAP.external_ids)
    ovsdb.apply([SetPort("br-int", "tap1", tag=NO_TAG, other_config={"segmentation_id": "5"})])
    port = ovsdb.read().bridges["br-int"].ports["tap1"]
    assert (port.tag, dict(port.other_config)) == (None, {"net_uuid": "net", "tag": "7", "segmentation_id": "5"})
    ovsdb.apply([DeletePort("br-int", "tap1"), DeletePort("br-int", "tap2")])
    assert set(ovsdb.read().bridges["br-int"].ports) == {"br-int"}


def test_setting_a_tag_does_not_recreate_an_unplugged_port(ovsdb):
    ovsdb.apply([INT, TAP])
    ovsdb.apply([SetPort("br-int", "tap1", tag=7, make=False)])
    assert ovsdb.read().bridges["br-int"].ports["tap1"].tag == 7
    ovsdb.apply([DeletePort("br-int", "tap1")])
    ovsdb.apply([SetPort("br-int", "tap1", tag=9, other_config={"tag": "9"}, make=False)])
    assert "tap1" not in ovsdb.read().bridges["br-int"].ports


def test_applied_twice_nothing_changes(ovsdb):
    changes = [INT, TAP, SetPort("br-int", "tap1", tag=7, other_config={"net_uuid": "net"})]
    ovsdb.apply(changes)
    eventually(lambda: numbered(ovsdb))
    before = ovsdb.read()
    ovsdb.apply(changes)
    assert ovsdb.read() == before


def test_managers_are_added(ovsdb):
    first, second = "ptcp:0:127.0.0.1", "punix:nowhere"
    ovsdb.apply([SetManager(first)])
    ovsdb.apply([SetManager(first), SetManager(second)])
    eventually(lambda: ovsdb.read().managers == {first, second})


def test_the_limit_of_vlan_tags(ovsdb):
    assert ovsdb.read().vlan_limit == 1
    ovsdb.apply([SetVlanLimit(0)])
    eventually(lambda: ovsdb.read().vlan_limit == 0)
    ovsdb.apply([SetVlanLimit(2)])
    eventually(lambda: ovsdb.read().vlan_limit == 2)


def numbered(ovsdb: Ovsdb) -> bool:
    """Whether the switch has given every interface a number."""
    return all(interface.ofport for _, _, interface in ovsdb.read().interfaces().values())


def test_settle_waits_until_the_switch_has_applied_a_change(ovsdb):
    ovsdb.apply([INT, TAP], wait=30)
    assert numbered(ovsdb)


def test_the_types_that_the_switch_supports(switch):
    driver = RealOvsdb(switch.database)
    try:
        eventually(lambda: "netdev" in set(driver.read().datapath_types))
        assert {"vxlan", "internal", "patch"} <= set(driver.read().interface_types)
    finally:
        driver.close()


def test_patch_and_tunnel_ports(ovsdb):
    ovsdb.apply(
        [
            INT,
            SetBridge("br-tun", datapath_type="dummy", fail_mode="secure"),
            SetPort("br-int", "patch-tun", "patch", options={"peer": "patch-int"}),
            SetPort("br-tun", "patch-int", "patch", options={"peer": "patch-tun"}),
            SetPort("br-tun", "vxlan-c0000202", "vxlan", options={"remote_ip": "192.0.2.2", "key": "flow"}),
        ]
    )
    eventually(lambda: numbered(ovsdb))
    ports = ovsdb.read().bridges["br-tun"].ports
    (patch,), (tunnel,) = ports["patch-int"].interfaces, ports["vxlan-c0000202"].interfaces
    assert (patch.type, dict(patch.options)) == ("patch", {"peer": "patch-tun"})
    assert (tunnel.type, tunnel.options["remote_ip"]) == ("vxlan", "192.0.2.2")
    assert tunnel.ofport
    assert tunnel.ofport > 0


def test_the_second_plan_of_bridges_is_empty(ovsdb):
    options = L2Options(
        bridge_mappings=(("physnet1", "br-ex"),),
        tunnel_types=("vxlan", "gre"),
        local_ip="fd00::1",
        datapath_type="dummy",
        mac_table_size=50000,
    )
    hosts = [Host(id="h2", tunneling_ip="fd00::2", tunnel_types=("vxlan", "gre"))]
    ovsdb.apply([SetBridge("br-ex", datapath_type="dummy", other_config={"mac-aging-time": "60"})])
    ovsdb.apply(plan_bridges(options, ovsdb.read()).changes)
    assert ovsdb.read().bridges["br-ex"].other_config == {"mac-aging-time": "60", "mac-table-size": "50000"}
    ovsdb.apply(plan_tunnels(options, hosts, ovsdb.read()).changes)
    assert plan_bridges(options, ovsdb.read()).changes == ()
    assert plan_tunnels(options, hosts, ovsdb.read()).changes == ()
    eventually(lambda: numbered(ovsdb))
    plugged = read_plugged(options, hosts, ovsdb.read())
    assert plugged.patch_tun
    assert plugged.patch_int
    assert [entry.physical_network for entry in plugged.uplinks] == ["physnet1"]
    assert [(entry.network_type, entry.host) for entry in plugged.tunnels] == [("vxlan", "h2"), ("gre", "h2")]


def test_events(ovsdb, wait):
    ovsdb.apply([INT])
    ovsdb.apply([TAP])
    added = wait("tap1", "added")
    assert (added.bridge, added.interface.external_ids["iface-id"]) == ("br-int", "port-1")
    if not added.interface.ofport:
        wait("tap1", "changed", lambda event: bool(event.interface.ofport))
    ovsdb.apply([SetPort("br-int", "tap1", tag=9)])
    assert wait("tap1", "changed", lambda event: event.port.tag is not None).port.tag == 9
    ovsdb.apply([DeletePort("br-int", "tap1")])
    removed = wait("tap1", "removed")
    assert removed.interface.external_ids["iface-id"] == "port-1"


def test_a_refused_change_changes_nothing(ovsdb):
    ovsdb.apply([INT])
    before = set(ovsdb.read().bridges["br-int"].ports)
    with pytest.raises(OvsdbError):
        ovsdb.apply([TAP, SetPort("br-none", "tap2", "dummy")])
    assert set(ovsdb.read().bridges["br-int"].ports) == before


def test_a_port_of_another_bridge_is_not_taken_over(ovsdb):
    ovsdb.apply([INT, SetBridge("br-ex", datapath_type="dummy"), TAP])
    with pytest.raises(OvsdbError):
        ovsdb.apply([SetPort("br-ex", "tap1", "dummy")])
    assert "tap1" in ovsdb.read().bridges["br-int"].ports


def test_a_port_that_another_program_plugs_is_an_event(switch):
    driver = RealOvsdb(switch.database)
    events: queue.Queue[InterfaceEvent] = queue.Queue()
    driver.apply([INT])
    eventually(lambda: numbered(driver))
    driver.subscribe(lambda batch: [events.put(event) for event in batch])  # type: ignore[func-returns-value]
    switch.vsctl(
        "add-port", "br-int", "tap9", "--", "set", "interface", "tap9", "type=dummy", "external_ids:iface-id=p9"
    )
    try:
        event = events.get(timeout=30)
        assert (event.what, event.interface.external_ids["iface-id"]) == ("added", "p9")
    finally:
        driver.apply([DeleteBridge("br-int")])
        driver.close()


def test_a_stopped_switch_does_not_block_transactions():
    with OpenVSwitch() as server:
        driver = RealOvsdb(server.database, timeout=10)
        driver.apply([INT, TAP])
        eventually(lambda: numbered(driver))
        server.stop_switch()
        started = time.monotonic()
        driver.apply([SetPort("br-int", "tap1", tag=6)])
        assert driver.read().bridges["br-int"].ports["tap1"].tag == 6
        assert time.monotonic() - started < 8  # and not the ten that the driver would wait
        driver.apply([SetPort("br-int", "tap1", tag=7)], wait=0.1)
        assert driver.read().bridges["br-int"].ports["tap1"].tag == 7
        driver.close()


def test_the_replica_reconnects_without_removal_events():
    with OpenVSwitch() as server:
        driver = RealOvsdb(server.database)
        driver.apply([INT, TAP])
        eventually(lambda: numbered(driver))
        events: list[InterfaceEvent] = []
        driver.subscribe(events.extend)
        server.restart_database()
        server.vsctl("add-port", "br-int", "tap9", "--", "set", "interface", "tap9", "type=dummy")
        eventually(lambda: any(event.interface.name == "tap9" for event in events))
        assert not [event for event in events if event.what == "removed"]
        driver.close()


def test_no_database():
    with pytest.raises(OvsdbError):
        RealOvsdb("unix:/nonexistent/db.sock", timeout=1)
