"""Ports of instances on the integration bridge, and those that were plugged since a snapshot. Pure.

Neutron's native firewall opens nothing for a port that it does not know, but the bridge switches what no flow of the
firewall catches. So on the way back such ports get the VLAN of ports that must not talk, as Neutron's agent gives it to
ports that it cannot wire; it wires them when it is started.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from neutrino.dataplane.ovsdb.api import MARK, SetPort, Snapshot

DEAD_VLAN: Final = 4095  # of Neutron's agent too
HYBRID: Final = "qvo"  # filtered by iptables, whose chains go by the device's name


def plugged(snapshot: Snapshot, bridge: str) -> Iterator[tuple[str, int, str]]:
    """Devices with their ofport and port's id; not internal ports, whose devices are in namespaces."""
    if bridge not in snapshot.bridges:
        return
    for port in snapshot.bridges[bridge].ports.values():
        for interface in port.interfaces:
            port_id = interface.external_ids.get("iface-id")
            if port_id and (interface.ofport or 0) > 0 and interface.type in ("", "system"):
                yield interface.name, interface.ofport or 0, port_id


def numbers(snapshot: Snapshot, bridge: str) -> dict[str, int]:
    """The ofports of instances, by device; the ports that an agent has plugged for its own services are left out."""
    ours = {name for name, (_, _, interface) in snapshot.interfaces().items() if MARK in interface.external_ids}
    return {device: ofport for device, ofport, _ in plugged(snapshot, bridge) if device not in ours}


def plan_dead(saved: Mapping[str, int], snapshot: Snapshot, bridge: str) -> list[SetPort]:
    """Silence what was plugged, or plugged anew, since the ofports were saved: saved flows name these numbers."""
    since = numbers(snapshot, bridge).items() - saved.items()
    return [
        SetPort(bridge, device, tag=DEAD_VLAN, make=False)
        for device, _ in sorted(since)
        if not device.startswith(HYBRID)
    ]
