"""Minimum bandwidth of ports on the fake switch: queues and filters of uplinks, and the queue of each packet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec import structs

from neutrino.agent.config import check, configuration, uplink_rates
from neutrino.agent.l2.build import device_of
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.values import Address, NamespaceState
from neutrino.dataplane.ovsdb.api import PortSettings, Queue
from neutrino.dataplane.tc.api import Filter, QueueLength, Word, match_mac
from neutrino.dataplane.tc.real import parse_filters
from neutrino.errors import RefusedToStart
from neutrino.model import state
from neutrino.model.qos import MinimumBandwidth, QosPolicy
from tests.fakes import packet
from tests.support.l2 import OPEN, mac, network, port
from tests.support.switch_host import OPTIONS, PEER, SwitchHost, host_state

VLAN, VXLAN = network("net", "vlan", 205, "physnet1"), network("net", "vxlan", 70)
PORTS = (OPEN, port("p1", 1, groups=["open"], qos_policy_id="gold"), port("p2", 2, groups=["open"]))
BUSY = dataclasses.replace(OPTIONS, uplink_rates=(("br-phys", 20_000),), underlay_bridge="br-phys")


def policy(kbps: int, direction: str = "egress") -> QosPolicy:
    return QosPolicy(id="gold", minimum_bandwidths=(MinimumBandwidth(min_kbps=kbps, direction=direction),))


def host_with(net: state.Network, *more: state.Object, options: object = BUSY) -> SwitchHost:
    host = SwitchHost(options)  # type: ignore[arg-type]
    host.reconcile()
    for name in ("p1", "p2"):
        host.plug(name)
    host.reconcile(net, *PORTS, PEER, *more)
    return host


def uplink(host: SwitchHost) -> PortSettings:
    return host.switch.snapshot.bridges["br-phys"].ports["eth1"].settings


def ofport(host: SwitchHost) -> int:
    return host.switch.snapshot.bridges["br-int"].ports["tapp1"].interfaces[0].ofport or 0


def test_a_port_has_a_guaranteed_queue_on_the_uplink_of_its_network() -> None:
    host = host_with(VLAN, policy(15_000))
    qos = uplink(host).qos
    assert qos is not None
    assert (qos.type, qos.other_config) == ("linux-htb", {"max-rate": "20000000"})
    assert qos.queues == {
        0: Queue({"min-rate": "5000000", "max-rate": "20000000", "burst": "50000"}),
        ofport(host): Queue({"min-rate": "15000000", "max-rate": "20000000", "burst": "150000"}),
    }
    number = ofport(host)
    assert host.tc.items == {"eth1": {match_mac(mac(1), -8, number), match_mac(mac(1), -12, number)}}
    sent = packet.tcp((mac(1), "10.0.0.1"), (mac(9), "10.0.0.9"), 80)
    assert [(left.port, left.queue) for left in host.switch.openflow.send("br-int", "tapp1", sent)] == [
        ("eth1", number)
    ]
    other = packet.tcp((mac(2), "10.0.0.2"), (mac(9), "10.0.0.9"), 80)
    assert [(left.port, left.queue) for left in host.switch.openflow.send("br-int", "tapp2", other)] == [("eth1", 0)]


def test_in_a_tunnel_the_queue_is_found_by_the_inner_packet() -> None:
    host = host_with(VXLAN, policy(15_000))
    assert uplink(host).qos is not None
    # IPv4, UDP, VXLAN, destination: the source begins at 42.
    words = Word(0xFA16, 0xFFFF, 40), Word(0x3E000001, 0xFFFFFFFF, 44)
    assert host.tc.items == {"eth1": {Filter(ofport(host), words)}}


def test_without_a_bridge_at_the_tunnel_address_there_is_no_queue() -> None:
    host = host_with(VXLAN, policy(15_000), options=OPTIONS)
    assert (uplink(host), host.tc.items) == (PortSettings(), {})


def test_without_a_configured_rate_the_device_is_the_limit() -> None:
    host = host_with(VLAN, policy(15_000), options=OPTIONS)
    qos = uplink(host).qos
    assert qos is not None
    assert qos.other_config == {"max-rate": "34000000000"}
    assert qos.queues[0].other_config["min-rate"] == "12000"


def test_more_than_the_rate_may_be_promised() -> None:
    host = host_with(VLAN, policy(30_000))
    qos = uplink(host).qos
    assert qos is not None
    assert qos.queues[0].other_config["min-rate"] == "12000"
    assert qos.queues[ofport(host)].other_config["max-rate"] == "30000000"


def test_a_rule_for_ingress_is_for_placement_alone() -> None:
    host = host_with(VLAN)
    before = host.flows()
    host.reconcile(VLAN, *PORTS, PEER, policy(15_000, "ingress"))
    assert (host.flows(), uplink(host), host.tc.items) == (before, PortSettings(), {})


def test_a_change_is_in_place_and_a_restart_changes_nothing() -> None:
    host = host_with(VLAN, policy(15_000))
    flows = host.flows()
    outcome = host.reconcile(VLAN, *PORTS, PEER, policy(10_000))
    assert (outcome.changed, host.flows(), host.tc.writes) == (1, flows, 1)
    host.new_reconciler()
    assert host.reconcile(VLAN, *PORTS, PEER, policy(10_000)).changed == 0
    assert host.reconciler.find(host_state(VLAN, *PORTS, PEER, policy(10_000)), complete=True).plan == ""


def test_nothing_is_left_behind() -> None:
    host = host_with(VLAN)
    clean = host.flows()
    host.reconcile(VLAN, *PORTS, PEER, policy(15_000))
    host.reconcile(VLAN, *PORTS, PEER)
    assert (host.flows(), uplink(host)) == (clean, PortSettings())
    assert host.switch.snapshot.unused == frozenset()


def test_lost_filters_are_drift() -> None:
    host = host_with(VLAN, policy(15_000))
    wanted = dict(host.tc.items)
    assert host.reconciler.drift() == {}
    host.tc.items.clear()
    assert host.reconciler.drift() == {"eth1": (2, 0)}
    host.reconciler.forget("eth1")
    assert "eth1 filter" in host.reconciler.find(host_state(VLAN, *PORTS, PEER, policy(15_000)), complete=True).plan
    host.reconcile(VLAN, *PORTS, PEER, policy(15_000))
    assert host.tc.items == wanted


def test_filters_that_cannot_be_set_are_a_problem_and_tried_again() -> None:
    host = host_with(VLAN)
    host.tc.broken.add("eth1")
    outcome = host.reconcile(VLAN, *PORTS, PEER, policy(15_000))
    assert outcome.refused
    assert outcome.wired.keys() == {"p1", "p2"}
    assert "uplink eth1" in outcome.faults
    host.tc.broken.clear()
    outcome = host.reconcile(VLAN, *PORTS, PEER, policy(15_000))
    assert (outcome.refused, outcome.faults) == (False, {})


def test_before_the_feed_is_synced_filters_are_not_changed() -> None:
    host = host_with(VLAN, policy(15_000))
    moved = structs.replace(PORTS[1], mac_address=mac(7))
    host.new_reconciler()
    host.reconcile(VLAN, PORTS[0], moved, PORTS[2], PEER, policy(15_000), complete=False)
    assert host.tc.writes == 1
    host.reconcile(VLAN, PORTS[0], moved, PORTS[2], PEER, policy(15_000))
    assert host.tc.writes == 2


def test_filters_are_parsed_as_the_program_shows_them() -> None:
    shown = (
        "filter protocol all pref 28276 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:8 not_in_hw \n"
        "  match fa163e00/ffffffff at -8\n  match 00010000/ffff0000 at -4\n"
    )
    none = "filter protocol all pref 28276 u32 chain 0 fh 800: ht divisor 1 \n"
    assert parse_filters(none + shown) == [match_mac("fa:16:3e:00:00:01", -8, 7)]


@pytest.mark.parametrize("text", ["br-ex:fast", "br-ex:1:2:3", ":5", "br-ex:1:1, br-ex:2:2"])
def test_bandwidths_that_cannot_be_parsed_refuse_the_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.ini"
    required = "[feed]\nserver = unix:/s\ncredential_file = /c\n"
    file.write_text(f"{required}[ovs]\nresource_provider_bandwidths = {text}\n")
    with pytest.raises(RefusedToStart, match="resource_provider_bandwidths"):
        check(configuration([str(file)]))


def test_bandwidths_as_in_neutron(tmp_path: Path) -> None:
    file = tmp_path / "agent.ini"
    file.write_text("[ovs]\nresource_provider_bandwidths = br-ex:10000000:9000000, br-a::5, br-b:7, br-c\n")
    assert uplink_rates(configuration([str(file)])) == (("br-ex", 10_000_000), ("br-b", 7))


def test_the_device_of_the_tunnel_address_is_found() -> None:
    class Reads:
        def read(self, namespace: str) -> NamespaceState:
            return NamespaceState(
                addresses=frozenset({Address("br-ex", "192.0.2.1/24"), Address("e", "2001:db8::1/64")})
            )

    class Fails:
        def read(self, namespace: str) -> NamespaceState:
            raise NetlinkError("no")

    assert device_of("192.0.2.1", Reads()) == "br-ex"  # type: ignore[arg-type]
    assert device_of("2001:DB8:0::1", Reads()) == "e"  # type: ignore[arg-type]
    assert device_of("192.0.2.9", Reads()) == ""  # type: ignore[arg-type]
    assert device_of("192.0.2.1", Fails()) == ""  # type: ignore[arg-type]


def test_in_userspace_queues_are_short() -> None:
    """All devices share one socket there, and packets that wait for one fill its buffer."""
    host = host_with(VLAN, policy(15_000), options=dataclasses.replace(BUSY, datapath_type="netdev"))
    assert {item for item in host.tc.items["eth1"] if isinstance(item, QueueLength)} == {
        QueueLength(0, 20),
        QueueLength(ofport(host), 20),
    }


def test_a_port_of_a_local_network_leaves_the_guarantees_of_others_alone() -> None:
    host = host_with(VXLAN, policy(15_000))
    host.plug("p3")
    local = port("p3", 3, "local", groups=["open"], qos_policy_id="gold")
    outcome = host.reconcile(VXLAN, network("local", "local", 0), *PORTS, PEER, policy(20_000), local)
    assert not outcome.faults
    qos = uplink(host).qos
    assert qos is not None
    assert qos.queues[ofport(host)].other_config["min-rate"] == "20000000"


def test_a_device_with_the_queues_of_another_program_gets_no_filters() -> None:
    host = host_with(VLAN)
    host.switch.ovsdb.set_foreign_qos("eth1")
    outcome = host.reconcile(VLAN, *PORTS, PEER, policy(15_000))
    assert "not ours" in outcome.faults["port eth1"]
    assert host.reconciler.tc.read("eth1") == frozenset()
