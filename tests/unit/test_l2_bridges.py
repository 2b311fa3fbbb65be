"""Bridges, patches, tunnels and tags: planned from snapshots of OVSDB, and nothing planned twice."""

import dataclasses

import pytest

from neutrino.agent.config import configuration
from neutrino.agent.l2.bridges import (
    patch_names,
    plan_bridges,
    plan_fail_modes,
    plan_tags,
    read_plugged,
)
from neutrino.agent.l2.build import l2_options
from neutrino.agent.l2.desired import HostState, L2Options, TunnelPort, Uplink, resolve, wanted_segments
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.local_vlans import allocate, restore
from neutrino.agent.l2.plan import Renderer, plan
from neutrino.agent.l2.tunnels import plan_stale_tunnels, plan_tunnels, tunnel_name
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK
from neutrino.dataplane.ovsdb.api import DeletePort, SetBridge, SetManager, SetPort
from neutrino.model.state import Host
from tests.fakes import packet
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.fakes.ovsdb import FakeOvsdb
from tests.support.l2 import OPEN, mac, network, port

OPTIONS = L2Options(
    bridge_mappings=(("physnet1", "br-ex"),),
    tunnel_types=("vxlan", "gre"),
    local_ip="192.0.2.1",
    datapath_type="netdev",
)
HOSTS = [
    Host(id="h2", tunneling_ip="192.0.2.2", tunnel_types=("vxlan", "geneve")),
    Host(id="h3", tunneling_ip="192.0.2.3", tunnel_types=("vxlan", "gre")),
]


@pytest.fixture
def ovsdb() -> FakeOvsdb:
    made = FakeOvsdb()
    made.apply([SetBridge("br-ex"), SetPort("br-ex", "eth1")])
    return made


def configure(ovsdb: FakeOvsdb, options: L2Options = OPTIONS, hosts: list[Host] = HOSTS) -> None:
    ovsdb.apply(plan_bridges(options, ovsdb.read()).changes)
    ovsdb.apply(plan_tunnels(options, hosts, ovsdb.read()).changes)


def test_bridges_patches_and_tunnels_are_created(ovsdb):
    configure(ovsdb)
    bridges = ovsdb.read().bridges
    assert set(bridges["br-int"].ports) == {"br-int", "patch-tun", "int-br-ex"}
    assert set(bridges["br-tun"].ports) == {"br-tun", "patch-int", "vxlan-c0000202", "vxlan-c0000203", "gre-c0000203"}
    assert set(bridges["br-ex"].ports) == {"br-ex", "eth1", "phy-br-ex"}
    assert (bridges["br-int"].fail_mode, bridges["br-int"].datapath_type) == ("secure", "netdev")
    assert (bridges["br-ex"].fail_mode, bridges["br-ex"].datapath_type) == ("", "netdev")
    assert not bridges["br-ex"].external_ids, "the operator's: without our mark"
    assert bridges["br-tun"].ports["vxlan-c0000202"].interfaces[0].options["remote_ip"] == "192.0.2.2"


def test_the_second_plan_is_empty(ovsdb):
    configure(ovsdb)
    assert plan_bridges(OPTIONS, ovsdb.read()).changes == ()
    assert plan_tunnels(OPTIONS, HOSTS, ovsdb.read()).changes == ()


@pytest.mark.parametrize(
    ("found", "wanted", "changes"),
    [("", "system", ()), ("system", "system", ()), ("", "netdev", ("netdev",)), ("netdev", "system", ("system",))],
)
def test_a_physical_bridge_gets_the_datapath_type_unless_it_has_it(
    found: str, wanted: str, changes: tuple[str]
) -> None:
    ovsdb = FakeOvsdb()
    ovsdb.apply([SetBridge("br-ex", datapath_type=found, fail_mode="standalone")])
    options = L2Options(bridge_mappings=(("physnet1", "br-ex"),), datapath_type=wanted)
    planned = [each for each in plan_bridges(options, ovsdb.read()).changes if isinstance(each, SetBridge)]
    assert tuple(each.datapath_type for each in planned if each.name == "br-ex") == changes
    assert all(each.fail_mode == "standalone" for each in planned if each.name == "br-ex")


def test_the_mac_table_of_a_physical_bridge_has_the_configured_size() -> None:
    ovsdb = FakeOvsdb()
    ovsdb.apply(
        [SetBridge("br-ex", datapath_type="system", fail_mode="secure", other_config={"mcast-snooping-size": "9"})]
    )
    options = L2Options(bridge_mappings=(("physnet1", "br-ex"),), mac_table_size=50000)
    plan = plan_bridges(options, ovsdb.read())
    expected = "set bridge br-ex datapath_type=system fail_mode=secure other_config:mac-table-size=50000"
    assert [line for line in plan.text().splitlines() if "br-ex " in line and "set bridge" in line] == [expected]
    ovsdb.apply(plan.changes)
    assert plan_bridges(options, ovsdb.read()).changes == ()
    kept = {"mcast-snooping-size": "9", "mac-table-size": "50000"}
    assert ovsdb.read().bridges["br-ex"].other_config == kept
    assert not ovsdb.read().bridges["br-int"].other_config


@pytest.mark.parametrize(
    ("mode", "idle", "text"),
    [
        ("", ["br-ex"], "set bridge br-ex datapath_type=netdev fail_mode=secure"),
        ("standalone", ["br-ex"], "set bridge br-ex datapath_type=netdev fail_mode=secure"),
        ("standalone", [], ""),  # it has flows, which the switch would delete
        ("secure", ["br-ex"], ""),
    ],
)
def test_a_physical_bridge_becomes_secure_while_it_has_no_flows(mode: str, idle: list[str], text: str) -> None:
    ovsdb = FakeOvsdb()
    ovsdb.apply([SetBridge("br-ex", datapath_type="netdev", fail_mode=mode)])
    plan = plan_fail_modes(OPTIONS, ovsdb.read(), idle)
    assert plan.text() == text
    ovsdb.apply(plan.changes)
    assert plan_fail_modes(OPTIONS, ovsdb.read(), idle).changes == ()


def test_managers_are_added_and_others_stay():
    ovsdb = FakeOvsdb()
    ovsdb.apply([SetManager("ptcp:9")])
    options = L2Options(managers=("ptcp:6640:127.0.0.1",))
    plan = plan_bridges(options, ovsdb.read())
    assert plan.text().startswith("set manager ptcp:6640:127.0.0.1\n")
    ovsdb.apply(plan.changes)
    assert ovsdb.read().managers == {"ptcp:9", "ptcp:6640:127.0.0.1"}
    assert plan_bridges(options, ovsdb.read()).changes == ()


def test_ofports_are_read_from_a_snapshot(ovsdb):
    configure(ovsdb)
    ovsdb.apply([SetPort("br-int", "tap1", external_ids={"iface-id": "p1"}), SetPort("br-int", "foreign")])
    plugged = read_plugged(OPTIONS, HOSTS, ovsdb.read())
    assert plugged.uplinks == (Uplink("physnet1", "br-ex", 2, 2),)
    assert (plugged.patch_tun, plugged.patch_int) == (1, 1)
    assert plugged.tunnels == (TunnelPort(2, "vxlan", "h2"), TunnelPort(3, "vxlan", "h3"), TunnelPort(4, "gre", "h3"))
    assert plugged.ports == {"p1": 3}


def test_a_missing_physical_bridge_is_a_problem_of_its_network():
    ovsdb = FakeOvsdb()
    planned = plan_bridges(OPTIONS, ovsdb.read())
    assert planned.problems == {"physnet1": "bridge br-ex does not exist"}
    ovsdb.apply(planned.changes)
    assert set(ovsdb.read().bridges) == {"br-int", "br-tun"}


def test_a_stale_tunnel_is_deleted_and_foreign_ports_are_not(ovsdb):
    configure(ovsdb)
    ovsdb.apply([SetPort("br-tun", "vxlan-foreign", "vxlan")])
    planned = plan_stale_tunnels(OPTIONS, HOSTS[:1], ovsdb.read())
    assert planned.changes == (DeletePort("br-tun", "vxlan-c0000203"), DeletePort("br-tun", "gre-c0000203"))


def test_a_changed_option_changes_the_tunnels(ovsdb):
    configure(ovsdb)
    changed = dataclasses.replace(OPTIONS, local_ip="192.0.2.9", vxlan_udp_port=8472)
    planned = plan_tunnels(changed, HOSTS, ovsdb.read())
    assert [change.name for change in planned.changes] == ["vxlan-c0000202", "vxlan-c0000203", "gre-c0000203"]
    assert "options:dst_port=8472" in planned.text()


def test_hosts_that_no_tunnel_can_reach(ovsdb):
    hosts = [Host(id="a", tunnel_types=("vxlan",))]
    hosts += [
        Host(id=name, tunneling_ip=ip, tunnel_types=("vxlan",)) for name, ip in (("b", "192.0.2.1"), ("c", "fd00::1"))
    ]
    ovsdb.apply(plan_bridges(OPTIONS, ovsdb.read()).changes)
    planned = plan_tunnels(OPTIONS, hosts, ovsdb.read())
    assert planned.changes == ()
    assert set(planned.problems) == {"a", "b", "c"}
    assert planned.problems["b"] == "its address for tunnels, 192.0.2.1, is this host's own"


def test_tags_are_set_kept_and_corrected(ovsdb):
    configure(ovsdb)
    ovsdb.apply([SetPort("br-int", f"tap{n}", external_ids={"iface-id": f"p{n}"}) for n in (1, 2)])
    ovsdb.apply([SetPort("br-int", "foreign", tag=1)])
    state = HostState(
        networks={"net": network("net", "vlan", 205, "physnet1")},
        ports={"p1": port("p1", 1), "p2": port("p2", 2, admin_state_up=False)},
    )

    def planned() -> tuple[object, ...]:
        snapshot = ovsdb.read()
        plugged = read_plugged(OPTIONS, HOSTS, snapshot)
        ports = snapshot.bridges["br-int"].ports.values()
        held = restore((entry.tag, entry.other_config) for entry in ports)
        vlans = allocate(wanted_segments(state, plugged), held, foreign=[1])
        return plan_tags(resolve(state, plugged, vlans, OPTIONS), snapshot).changes

    ovsdb.apply(planned())
    ports = ovsdb.read().bridges["br-int"].ports
    assert (ports["tap1"].tag, ports["tap2"].tag, ports["foreign"].tag) == (2, 4095, 1)
    assert planned() == ()
    ovsdb.apply([SetPort("br-int", "tap1", tag=77)])
    assert [(change.name, change.tag) for change in planned()] == [("tap1", 2)]


def test_a_host_from_its_configuration_to_its_packets():
    """Bridges, flows and tags on a fake Open vSwitch, as the agent applies them; after a restart of the switch, again."""
    host = FakeOpenVSwitch()
    host.ovsdb.apply([SetBridge("br-ex"), SetPort("br-ex", "eth1")])
    configure(host.ovsdb)
    host.ovsdb.apply([SetPort("br-int", f"tap{n}", external_ids={"iface-id": f"p{n}"}) for n in (1, 2)])
    state = HostState(
        networks={"net": network("net", "vlan", 205, "physnet1")},
        ports={f"p{n}": port(f"p{n}", n, groups=["open"]) for n in (1, 2)},
        security_groups={"open": OPEN},
    )

    def apply() -> list[str]:
        plugged = read_plugged(OPTIONS, HOSTS, host.snapshot)
        vlans = allocate(wanted_segments(state, plugged), {})
        desired = resolve(state, plugged, vlans, OPTIONS)
        host.ovsdb.apply(plan_tags(desired, host.snapshot).changes)
        plans = [
            plan(bridge, flows, host.openflow.read_flows(bridge, COOKIE, COOKIE_MASK))
            for bridge, flows in Renderer(BUILT_IN).render(desired).flows.items()
        ]
        for entry in plans:
            host.openflow.apply_flows(entry.bridge, add=entry.set, delete=entry.delete)
        return [entry.bridge for entry in plans if entry]

    asked = packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2")
    assert sorted(apply()) == ["br-ex", "br-int", "br-tun"]
    left = host.openflow.send("br-int", "tap1", asked)
    assert sorted((each.port, each.packet.vlan) for each in left) == [("eth1", 205), ("tap2", None)]
    assert apply() == []
    host.restart()
    assert host.openflow.send("br-int", "tap1", asked) == []
    assert sorted(apply()) == ["br-ex", "br-int", "br-tun"]
    assert len(host.openflow.send("br-int", "tap1", asked)) == 2


def test_names_of_patch_ports_and_tunnels():
    assert patch_names("br-ex") == ("int-br-ex", "phy-br-ex")
    long = patch_names("br-provider-network")
    assert [len(name) for name in long] == [15, 15]
    assert patch_names("br-provider-networl") != long
    assert tunnel_name("vxlan", "10.0.0.1") == "vxlan-0a000001"
    assert len(tunnel_name("geneve", "fd00::1")) == 15
    assert tunnel_name("geneve", "fd00::1") == tunnel_name("geneve", "FD00:0::1")


@pytest.mark.parametrize("tos", ["inherit", "184"])
def test_the_dscp_of_tunnel_packets_is_set_and_reset(ovsdb, tos):
    def found() -> set[str | None]:
        ports = ovsdb.read().bridges["br-tun"].ports.values()
        return {port.interfaces[0].options.get("tos") for port in ports if "remote_ip" in port.interfaces[0].options}

    configure(ovsdb)
    assert found() == {None}
    marked = dataclasses.replace(OPTIONS, tunnel_tos=tos)
    configure(ovsdb, marked)
    assert found() == {tos}
    assert plan_tunnels(marked, HOSTS, ovsdb.read()).changes == ()
    configure(ovsdb)
    assert found() == {"0"}
    assert plan_tunnels(OPTIONS, HOSTS, ovsdb.read()).changes == ()


@pytest.mark.parametrize(
    "text, tos",
    [("", ""), ("dscp = 46", "184"), ("dscp_inherit = true", "inherit"), ("dscp = 46\ndscp_inherit = 1", "inherit")],
)
def test_the_dscp_of_tunnel_packets_is_an_option(tmp_path, text, tos):
    file = tmp_path / "agent.ini"
    file.write_text(f"[agent]\n{text}\n")
    assert l2_options(configuration([str(file)])).tunnel_tos == tos
