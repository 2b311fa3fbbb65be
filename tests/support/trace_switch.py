"""The tracer on a real Open vSwitch of the tests, for a host of the fake dataplane."""

from __future__ import annotations

import dataclasses

from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.trace.drift import ObjectDrift
from neutrino.agent.trace.local import LocalPorts
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.switch import SwitchState, SwitchWalk
from neutrino.agent.trace.tracer import HostTracer
from neutrino.agent.trace.trail import AtSwitch, Trail
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.ovsdb.api import Bridge, Interface, Port, Snapshot
from neutrino.model.trace import Packet, PointKind
from tests.fakes.netlink import FakeNetlink
from tests.fakes.packet import Packet as FakePacket
from tests.support.l2 import FakeHost
from tests.support.openvswitch import OpenVSwitch


def model_packet(sent: FakePacket, **values: object) -> Packet:
    """A packet of the fake switch as a value of traces."""
    six = sent.fields["dl_type"] == 0x86DD
    ports = ("tp_src", "tp_dst") if "icmp_type" not in sent.fields else ("tp_src", "icmp_type")
    known = {
        "eth_src": sent["dl_src"],
        "eth_dst": sent["dl_dst"],
        "source": sent["ipv6_src" if six else "nw_src"],
        "destination": sent["ipv6_dst" if six else "nw_dst"],
        "protocol": sent.fields["nw_proto"],
        "source_port": sent.fields.get(ports[0], 0),
        "destination_port": sent.fields.get(ports[1], 0),
        "icmp_code": sent.fields.get("icmp_code", 0),
    }
    return Packet(**{**known, **values})  # type: ignore[arg-type]


def snapshot(host: FakeHost) -> Snapshot:
    bridges = {}
    for bridge in host.switch.bridges.values():
        ports = {}
        for entry in bridge.ports.values():
            ids = {"iface-id": entry.name} if entry.name in host.ofports else {}
            ports[entry.name] = Port(
                entry.name, interfaces=(Interface(entry.name, ofport=entry.number, external_ids=ids),)
            )
        bridges[bridge.name] = Bridge(bridge.name, ports=ports)
    return Snapshot(bridges)


@dataclasses.dataclass
class TracedHost:
    """Implements `Switching`."""

    host: FakeHost
    switch: OpenVSwitch

    def __post_init__(self) -> None:
        self.inspection = RealInspection(self.switch.run_directory)
        self.openflow = OvsOfctl(self.switch.run_directory)

    def current(self) -> ReconcilerView:
        desired = self.host.desired
        assert desired is not None
        options = dataclasses.replace(desired.options, bridge_mappings=(("physnet1", "br-phys"),))
        rendered = self.host.renderer.render(desired)
        owners = {key: own for bridge in rendered.flows for key, own in self.host.renderer.owners(bridge).items()}
        return ReconcilerView(
            snapshot(self.host), dataclasses.replace(desired, options=options), rendered.flows, owners
        )

    async def view(self) -> ReconcilerView:
        return self.current()

    def tracer(self) -> HostTracer:
        netlink = FakeNetlink()
        walk = NamespaceWalk(netlink, self.inspection, lambda *where: "", lambda where: False)
        local = LocalPorts(netlink, self.inspection, lambda port_id: None)
        return HostTracer(self, self.inspection, local, walk, ObjectDrift(self.openflow.read_flows))

    def leaves(self, bridge: str, entry: str, sent: FakePacket) -> tuple[set[str], Trail]:
        """The names of the ports at which copies of a packet leave the switch."""
        trail = Trail(with_texts=True)
        walk = SwitchWalk(SwitchState(self.current(), self.inspection.ports()), self.inspection, trail)
        tags = (sent.vlan,) if sent.vlan is not None else ()
        number = self.host.switch.bridges[bridge].port_named(entry).number
        walk.run(AtSwitch(bridge, number, model_packet(sent), tags))
        names = {each.port.name for each in walk.deliveries}
        physical = {each.note.removeprefix("by ") for each in trail.exits if _is_physical(each.point)}
        return names | physical, trail


def _is_physical(point: object) -> bool:
    return getattr(point, "kind", None) is PointKind.PHYSICAL
