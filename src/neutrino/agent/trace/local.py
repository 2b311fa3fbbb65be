"""Where packets enter and leave the switch on this host: devices of instances, and devices that lead into namespaces."""

import dataclasses
from collections.abc import Callable
from typing import Final, Protocol

from neutrino.agent.trace.host_rules import HostRules
from neutrino.agent.trace.links import Links
from neutrino.agent.trace.owners import silent_cause
from neutrino.agent.trace.switch import Delivery, SwitchState
from neutrino.agent.trace.trail import AtDevice, AtSwitch, Place, Trail
from neutrino.dataplane.inspection.api import Inspection, Tuple5
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.openflow.trace import SwitchPort
from neutrino.model.state import Port
from neutrino.model.trace import Cause, Packet, Point, PointKind

IFACE_ID: Final = "iface-id"
_KERNEL_KINDS: Final = ("system", "tap")  # whose devices the kernel has
# Bytes around an inner IP packet, outer Ethernet header not counted: IPv4 header, UDP, VXLAN or Geneve, inner Ethernet.
_OVERHEAD: Final = {"vxlan": 50, "geneve": 50, "gre": 42, "": 42}
_LONGER_HEADER: Final = 20  # of IPv6

FindNamespace = Callable[[str], tuple[str, str] | None]
"""The namespace and the device of a port of the API that a role of this agent has plugged; None: it is another's."""


class PortFilter(Protocol):
    """The firewall on the Linux bridge of a hybrid port."""

    def passes(self, port: Port, packet: Packet, direction: str, state: SwitchState, trail: Trail) -> bool:
        """Whether the packet passes; if not, its exit is on the trail. Blocking."""
        ...


@dataclasses.dataclass(frozen=True)
class LocalPorts:
    netlink: Netlink
    inspection: Inspection
    find: FindNamespace
    filter: PortFilter | None = None
    host_rules: HostRules | None = None  # that packets of tunnels pass

    @property
    def links(self) -> Links:
        return Links(self.netlink, self.inspection, self.host_rules)

    def enter(self, port_id: str, packet: Packet, state: SwitchState, trail: Trail) -> Place | None:
        """A packet that the device of a port sends into the switch."""
        desired = state.view.desired
        port, device = desired.host_state.ports.get(port_id), state.of_port(port_id)
        if device is None:
            trail.drop(packet, Cause.NO_DEVICE, f"the switch has no device of port {port_id}")
            return None
        if port is not None and port.hybrid_plug and self.filter is not None:
            if (silent := silent_cause(desired, port_id)) is not None:
                trail.drop(packet, *silent)
                return None
            if not self.filter.passes(port, packet, "egress", state, trail):
                return None
        elif not self._sends(device, packet, trail):
            return None
        return AtSwitch(device.bridge, device.ofport, packet)

    def _sends(self, port: SwitchPort, packet: Packet, trail: Trail) -> bool:
        """Whether the device of a port sends a packet: an instance has the MTU of its device, and no other."""
        device = self.netlink.read_device(HOST, port.name) if port.kind in _KERNEL_KINDS else None
        if fault := self.links.fault(port):
            trail.drop(packet, Cause.LINK_DOWN, f"{fault}: the instance sends nothing")
        elif device is not None and device.mtu and packet.size > device.mtu:
            trail.drop(packet, Cause.PACKET_TOO_BIG, f"{packet.size} bytes; device {port.name} takes {device.mtu}")
        else:
            if device is not None and device.mtu:
                trail.observe("device", port.name, "input", note=f"takes {device.mtu} bytes")
            return True
        return False

    def deliver(self, delivery: Delivery, state: SwitchState, trail: Trail) -> list[Place]:
        """A copy that the switch outputs to a device of this host."""
        packet, name = delivery.packet, delivery.port.name
        port_id = delivery.interface.external_ids.get(IFACE_ID, "") if delivery.interface is not None else ""
        if not port_id:
            trail.consume(packet, f"to device {name}, which is not a port of the API")
            return []
        if (inside := self.find(port_id)) is not None:
            trail.observe("device", name, "output", owner=("port", port_id), note=f"into {inside[0]} by {inside[1]}")
            return [AtDevice(*inside, packet)]
        port = state.view.desired.host_state.ports.get(port_id)
        if port is not None and port.hybrid_plug and self.filter is not None:
            if not self.filter.passes(port, packet, "ingress", state, trail):
                return []
        elif delivery.port.kind in _KERNEL_KINDS and not self._receives(delivery.port, packet, trail):
            return []
        trail.observe("device", name, "output", owner=("port", port_id))
        trail.leave(packet, Point(kind=PointKind.PORT, port_id=port_id))
        return []

    def _receives(self, port: SwitchPort, packet: Packet, trail: Trail) -> bool:
        name = port.name
        device = self.netlink.read_device(HOST, name)
        if device is None:
            trail.drop(packet, Cause.NO_DEVICE, f"device {name} does not exist, though the switch has its port")
        elif not device.up:
            trail.drop(packet, Cause.LINK_DOWN, f"device {name} is down")
        elif fault := self.links.fault(port):
            trail.drop(packet, Cause.LINK_DOWN, f"{fault}: the instance gets nothing")
        elif device.mtu and packet.size > device.mtu:
            trail.drop(packet, Cause.PACKET_TOO_BIG, f"{packet.size} bytes; device {name} takes {device.mtu}")
        else:
            return True
        return False

    def tunnel_mtu(self, peer: str, kind: str) -> int:
        """The largest IP packet that fits into a tunnel to a peer; 0 if that is not known."""
        route = self.inspection.route(HOST, Tuple5(0, "", peer), "")
        device = self.netlink.read_device(HOST, route.device) if route.device else None
        mtu = route.mtu or (device.mtu if device is not None else 0)
        return max(mtu - _OVERHEAD.get(kind, 50) - (_LONGER_HEADER if ":" in peer else 0), 0) if mtu else 0
