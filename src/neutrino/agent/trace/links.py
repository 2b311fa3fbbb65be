"""Links of devices by which packets enter and leave this host: what is down, or has no carrier, passes nothing.

The switch does not tell: `ofproto/trace` outputs to a port whatever its link is. Asked of the kernel at the time of the
trace. Ports without a device there, as those of DPDK, and devices in other namespaces count as up.
"""

import dataclasses
from collections.abc import Iterable

from neutrino.agent.trace.host_rules import HostRules
from neutrino.dataplane.inspection.api import Inspection, Tuple5
from neutrino.dataplane.netlink.api import Netlink
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.openflow.trace import SwitchPort

_SYSTEM = "system"  # kind of ports that are devices of the kernel, which others have created: uplinks, taps, veth pairs


@dataclasses.dataclass(frozen=True)
class Links:
    netlink: Netlink
    inspection: Inspection
    rules: HostRules | None = None  # of the kernel's stack, where packets of tunnels pass it

    def dropped_by_rules(self, kind: str, local: str, peer: str, *, sent: bool) -> str:
        """Why rules of this host drop packets of a tunnel; empty if they do not."""
        return self.rules.fault(kind, local, peer, sent=sent) if self.rules is not None else ""

    def fault(self, port: SwitchPort) -> str:
        """Why the device of a port passes nothing; empty if it does."""
        return self._device_fault(port.name) if port.kind == _SYSTEM else ""

    def underlay_fault(self, peer: str, ports: Iterable[SwitchPort]) -> str:
        """Why nothing passes between this host and the tunnel address of another one."""
        route = self.inspection.route(HOST, Tuple5(0, "", peer), "")
        if not route.device:
            return ""  # the switch may have a route of its own
        uplinks = [each for each in ports if each.bridge == route.device and each.kind == _SYSTEM]
        if not uplinks:
            return self._device_fault(route.device)
        faults = [self.fault(uplink) for uplink in uplinks]  # the address is on a bridge: any uplink of it will do
        return faults[0] if all(faults) else ""

    def _device_fault(self, name: str) -> str:
        device = self.netlink.read_device(HOST, name)
        if device is None or (device.up and device.carrier):
            return ""
        return f"device {name} has no carrier" if device.up else f"device {name} is down"
