"""QoS of ports on the fake switch: which policy is in effect, and what it contributes, changes and leaves behind."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from msgspec import structs

from neutrino.agent.config import configuration
from neutrino.agent.l2.build import describe, load
from neutrino.agent.l2.extension_api import METER_IDS
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.dataplane.openflow.api import Meter, MetersRejected
from neutrino.dataplane.ovsdb.api import PortSettings, Qos, Queue, SetPort
from neutrino.model import state
from neutrino.model.agents import EXTENSIONS
from neutrino.model.qos import BandwidthLimit, MinimumBandwidth, PacketRateLimit, QosPolicy
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, mac, network, port
from tests.support.switch_host import SwitchHost, host_state

NET = network("net", "vlan", 205, "physnet1")


def policy(
    *rules: BandwidthLimit | PacketRateLimit | MinimumBandwidth, dscp: int | None = None, name: str = "gold"
) -> QosPolicy:
    return QosPolicy(
        id=name,
        bandwidth_limits=tuple(rule for rule in rules if isinstance(rule, BandwidthLimit)),
        packet_rate_limits=tuple(rule for rule in rules if isinstance(rule, PacketRateLimit)),
        minimum_bandwidths=tuple(rule for rule in rules if isinstance(rule, MinimumBandwidth)),
        dscp_mark=dscp,
    )


def limit(kbps: int, direction: str = "egress", burst: int = 0) -> BandwidthLimit:
    return BandwidthLimit(max_kbps=kbps, direction=direction, max_burst_kbps=burst)


def packets(kpps: int, direction: str = "egress", burst: int = 0) -> PacketRateLimit:
    return PacketRateLimit(max_kpps=kpps, direction=direction, max_burst_kpps=burst)


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


class QosHost(SwitchHost):
    """Two ports on a network, of which p1 has the policy `gold`."""

    def __init__(self, *, device: str = "", **changes: object) -> None:
        super().__init__()
        self.objects = (NET, OPEN, port("p1", 1, groups=["open"], qos_policy_id="gold", **changes), self.peer(2))
        self.reconcile()
        for name in ("p1", "p2"):
            ids = {"iface-id": name}
            self.switch.ovsdb.apply([SetPort("br-int", f"tap{name}", device, external_ids=ids)])

    def peer(self, number: int) -> state.Port:
        return port(f"p{number}", number, groups=["open"])

    def meters(self) -> list[Meter]:
        found = self.switch.openflow.read_meters("br-int")
        assert {*found} <= {*METER_IDS}
        return sorted(found.values(), key=lambda meter: (meter.unit, meter.rate))

    def settings(self, name: str = "tapp1") -> PortSettings:
        return self.switch.snapshot.bridges["br-int"].ports[name].settings

    def send(self, name: str, sent: Packet) -> list[tuple[str, Packet]]:
        found = self.switch.openflow.send("br-int", f"tap{name}", sent)
        return [(delivery.port, delivery.packet) for delivery in found]

    def metered(self, name: str, sent: Packet) -> list[Meter]:
        """The meters that a packet passes."""
        bridge = self.switch.openflow.bridges["br-int"]
        bridge.metered.clear()
        self.send(name, sent)
        return [bridge.meters[number] for number, count in bridge.metered.items() for _ in range(count)]


def test_a_port_with_every_limit() -> None:
    host = QosHost()
    gold = policy(limit(1000), limit(2000, "ingress"), packets(1), packets(3, "ingress", 5), dscp=46)
    outcome = host.reconcile(*host.objects, gold)
    assert outcome.wired.keys() == {"p1", "p2"}
    bandwidth, sent, received = Meter(1000, "kbps", 800), Meter(1000, "pktps", 800), Meter(3000, "pktps", 5000)
    assert host.meters() == [bandwidth, sent, received]
    rate = {"max-rate": "2000000", "min-rate": "2000000", "burst": "200000"}
    assert host.settings() == PortSettings(qos=Qos("linux-htb", {"max-rate": "2000000"}, {0: Queue(rate)}))
    assert host.settings("tapp2") == PortSettings()
    assert host.metered("p1", packet.udp(end(1), end(2), 53)) == [bandwidth, sent]
    assert host.metered("p2", packet.udp(end(2), end(1), 53)) == [received]
    assert host.metered("p2", packet.udp(end(2), end(9), 53)) == []
    assert host.reconcile(*host.objects, gold).changed == 0
    host.new_reconciler()  # as after a restart
    assert host.reconcile(*host.objects, gold).changed == 0
    assert host.reconciler.find(host_state(*host.objects, gold), complete=True).plan == ""


@pytest.mark.parametrize("changes", [{}, {"port_security_enabled": False}, {"hybrid_plug": True}])
def test_every_sort_of_port_is_limited_in_both_directions(changes: dict[str, object]) -> None:
    host = QosHost(**changes)
    host.reconcile(*host.objects, policy(limit(1000), packets(2, "ingress"), dscp=10))
    assert host.metered("p1", packet.tcp(end(1), end(2), 80)) == [Meter(1000, "kbps", 800)]
    assert host.metered("p2", packet.tcp(end(2), end(1), 80)) == [Meter(2000, "pktps", 1600)]


@pytest.mark.parametrize("version", [4, 6])
def test_packets_are_marked(version: int) -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(dscp=46))
    ends = [(mac(n), f"10.0.0.{n}" if version == 4 else f"2001:db8::{n}") for n in (1, 2)]
    ((name, arrived),) = host.send("p1", packet.udp(ends[0], ends[1], 53))
    assert (name, arrived.fields["ip_dscp"]) == ("tapp2", 46)
    ((name, arrived),) = host.send("p2", packet.udp(ends[1], ends[0], 53))
    assert (name, arrived.fields.get("ip_dscp")) == ("tapp1", None)
    assert host.meters() == []


def test_what_is_not_ip_passes_the_meter_unmarked() -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(limit(1000), dscp=46))
    request = packet.arp_request(mac(1), "10.0.0.1", "10.0.0.2")
    assert host.metered("p1", request) == [Meter(1000, "kbps", 800)]
    assert {name for name, _ in host.send("p1", request)} == {"tapp2", "eth1"}


def test_packets_of_each_direction_have_a_meter() -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(packets(2, "egress"), packets(3, "ingress")))
    assert host.metered("p1", packet.tcp(end(1), end(2), 80)) == [Meter(2000, "pktps", 1600)]
    assert host.metered("p2", packet.tcp(end(2), end(1), 80)) == [Meter(3000, "pktps", 2400)]


@pytest.mark.parametrize("device", ["dpdkvhostuserclient", "internal"])
def test_a_device_that_cannot_be_shaped_has_a_meter(device: str) -> None:
    host = QosHost(device=device)
    host.reconcile(*host.objects, policy(limit(2000, "ingress", 100)))
    assert host.settings() == PortSettings()
    assert host.metered("p2", packet.tcp(end(2), end(1), 80)) == [Meter(2000, "kbps", 100)]
    assert host.metered("p1", packet.tcp(end(1), end(2), 80)) == []


def test_copies_of_a_packet_pass_no_meter() -> None:
    """The switch ends the list of all copies where a meter drops one."""
    host = QosHost()
    host.reconcile(*host.objects, policy(packets(2, "ingress")))
    request = packet.arp_request(mac(2), "10.0.0.2", "10.0.0.1")
    assert host.metered("p2", request) == []
    assert {name for name, _ in host.send("p2", request)} == {"tapp1", "eth1"}


def test_a_changed_limit_changes_no_flow() -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(limit(1000), limit(1000, "ingress"), packets(1)))
    before, numbers = host.flows(), {*host.switch.openflow.read_meters("br-int")}
    outcome = host.reconcile(*host.objects, policy(limit(5000, burst=300), limit(7000, "ingress"), packets(4)))
    assert outcome.changed == 3
    assert host.flows() == before
    assert {*host.switch.openflow.read_meters("br-int")} == numbers
    assert host.meters() == [Meter(5000, "kbps", 300), Meter(4000, "pktps", 3200)]
    qos = host.settings().qos
    assert qos is not None
    assert qos.queues[0].other_config["max-rate"] == "7000000"


@pytest.mark.parametrize("how", ["policy deleted", "policy removed from the port", "rules removed", "unplugged"])
def test_nothing_is_left_behind(how: str) -> None:
    host = QosHost()
    without = (*host.objects[:2], structs.replace(host.objects[2], qos_policy_id=""), host.objects[3])
    host.reconcile(*without)
    clean = host.flows()
    gold = policy(limit(1000), limit(1000, "ingress"), packets(1), dscp=8)
    host.reconcile(*host.objects, gold)
    assert host.flows() != clean
    if how == "unplugged":
        host.unplug("p1")
        host.reconcile(*host.objects, gold)
        host.plug("p1")
    objects = {
        "policy deleted": host.objects,
        "policy removed from the port": (*without, gold),
        "rules removed": (*host.objects, policy()),
        "unplugged": without,
    }[how]
    host.reconcile(*objects)
    assert (host.meters(), host.settings()) == ([], PortSettings())
    assert host.switch.snapshot.unused == frozenset()
    if how != "unplugged":  # the port has another ofport
        assert host.flows() == clean


def test_a_port_has_its_own_policy_or_its_networks() -> None:
    host = QosHost()
    net = structs.replace(NET, qos_policy_id="silver")
    ports = (
        port("p1", 1, groups=["open"], qos_policy_id="gold"),
        port("p2", 2, groups=["open"]),
        port("p3", 3, device_owner="network:dhcp"),
        port("p4", 4, device_owner="network:router_interface", qos_policy_id="gold"),
        port("p5", 5, groups=["open"], device_owner="neutron:anything"),  # any project may set it on its port
    )
    for name in ("p3", "p4", "p5"):
        host.plug(name)
    policies = policy(limit(1000)), policy(limit(2000), name="silver")
    host.reconcile(net, OPEN, *ports, *policies)
    rates = {
        each.id: [meter.rate for meter in host.metered(each.id, packet.udp(end(n), end(99), 53))]
        for n, each in enumerate(ports, 1)
    }
    assert rates == {"p1": [1000], "p2": [2000], "p3": [], "p4": [1000], "p5": [2000]}


def test_a_rate_of_zero_is_no_limit() -> None:
    host = QosHost()
    host.reconcile(*host.objects)
    clean = host.flows()
    host.reconcile(*host.objects, policy(limit(0), limit(0, "ingress"), packets(0), packets(0, "ingress")))
    assert (host.flows(), host.meters(), host.settings()) == (clean, [], PortSettings())


def test_rates_and_bursts_that_openflow_cannot_hold_are_capped() -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(limit(1), packets(2**31 - 1, burst=2**31 - 1)))
    assert host.meters() == [Meter(1, "kbps", 1), Meter(2**32 - 1, "pktps", 2**32 - 1)]


def test_a_live_migrated_port_has_its_limits_when_its_binding_becomes_active() -> None:
    host = QosHost(active=False)
    gold = policy(limit(1000), limit(2000, "ingress"))
    host.reconcile(*host.objects, gold)
    assert host.send("p1", packet.tcp(end(1), end(2), 80)) == []
    order: list[str] = []
    openflow, ovsdb = host.switch.openflow, host.switch.ovsdb
    for target, name in ((openflow, "apply_meters"), (openflow, "apply_flows"), (ovsdb, "apply")):
        _record(order, target, name)
    arrived = structs.replace(host.objects[2], active=True)
    host.reconcile(*host.objects[:2], arrived, host.objects[3], gold)
    assert [*dict.fromkeys(order)] == ["apply", "apply_meters", "apply_flows"]
    assert host.metered("p1", packet.tcp(end(1), end(2), 80)) == [Meter(1000, "kbps", 800)]
    assert host.settings().qos is not None


def _record(order: list[str], target: object, name: str) -> None:
    call = getattr(target, name)

    def recorded(*args: object, **kwargs: object) -> object:
        order.append(name)
        return call(*args, **kwargs)

    setattr(target, name, recorded)


def test_a_policy_of_many_ports_costs_one_meter_each() -> None:
    host = SwitchHost()
    names = [f"q{number}" for number in range(500)]
    ports = [
        port(name, 1, groups=["open"], qos_policy_id="gold", mac_address=f"fa:16:3e:01:{n >> 8:02x}:{n & 255:02x}")
        for n, name in enumerate(names)
    ]
    host.reconcile()
    for name in names:
        host.plug(name)
    host.reconcile(NET, OPEN, *ports, policy(limit(1000)))
    before = host.switch.openflow.read_flows("br-int", 0, 0)
    assert len(host.switch.openflow.read_meters("br-int")) == 500
    outcome = host.reconcile(NET, OPEN, *ports, policy(limit(3000)))
    assert outcome.changed == 500
    assert {*host.switch.openflow.read_meters("br-int").values()} == {Meter(3000, "kbps", 2400)}
    assert host.switch.openflow.read_flows("br-int", 0, 0) == before


def test_before_the_feed_is_synced_limits_are_added_and_not_removed() -> None:
    host = QosHost()
    gold = policy(limit(1000), limit(2000, "ingress"))
    host.reconcile(*host.objects, gold)
    host.new_reconciler()
    flows = host.flows()
    host.reconcile(*host.objects, complete=False)  # the policy is not in the cache
    assert (host.flows(), host.meters()) == (flows, [Meter(1000, "kbps", 800)])
    assert host.settings().qos is not None


def test_the_extension_of_a_neutron_configuration_is_built_in(tmp_path: Path) -> None:
    file = tmp_path / "agent.ini"
    file.write_text("[agent]\nextensions = qos\n")
    conf = configuration([str(file)])
    assert load(conf) == BUILT_IN
    assert describe(conf).configurations[EXTENSIONS] == ["qos"]


def test_a_rejected_meter_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    host = QosHost()
    host.reconcile(*host.objects, policy(limit(1000)))
    apply = host.switch.openflow.apply_meters

    def full(bridge: str, *, add: dict[int, Meter], change: dict[int, Meter], delete: Collection[int]) -> None:
        apply(bridge, add={}, change=change, delete=delete)
        if add:
            raise MetersRejected(dict.fromkeys(add, "OFPMMFC_OUT_OF_METERS"))

    monkeypatch.setattr(host.switch.openflow, "apply_meters", full)
    outcome = host.reconcile(*host.objects, policy(packets(1)))  # one meter is removed, and another rejected
    assert "p2" in outcome.wired
    assert any("OFPMMFC_OUT_OF_METERS" in text for text in outcome.faults.values())
