"""Which external events Nova needs, derived once by comparing a port or a floating IP before and after a change.

Nova waits for `network-vif-plugged` while it starts a server, so a missing event stops a boot for minutes. It keeps a
cache of each server's addresses, and `network-changed` tells it to read the port again: it is sent for what that cache
holds (addresses, MAC, binding, floating IPs, which ports a server has), and not for what Nova asks for when it needs
it, such as security groups, names or DNS.

Only ports of servers concern Nova: an owner that starts with `compute:` and a device that is a server's id. Baremetal
nodes of Nova have such ports too; ports whose owner starts with `baremetal:` are Ironic's own business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VIF_PLUGGED = "network-vif-plugged"
VIF_UNPLUGGED = "network-vif-unplugged"
VIF_DELETED = "network-vif-deleted"
NETWORK_CHANGED = "network-changed"

COMPLETED = "completed"
FAILED = "failed"

COMPUTE_OWNER = "compute:"

CACHED_BY_NOVA = (
    "device_id",
    "mac_address",
    "binding:vnic_type",
    "binding:profile",
    "binding:vif_type",
    "binding:vif_details",
)
"""Port attributes, beside the fixed IPs, that Nova keeps a copy of."""

Resource = Mapping[str, Any]

_SERVER_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NovaEvent:
    """One external event. Two that are equal tell Nova nothing that one does not."""

    name: str
    server_uuid: str
    tag: str
    status: str | None = None

    @property
    def is_status_change(self) -> bool:
        """Whether it tells about a port's status; the others tell about its data."""
        return self.name in (VIF_PLUGGED, VIF_UNPLUGGED)

    def as_dict(self) -> dict[str, str]:
        """The event as Nova's API takes it."""
        event = {"name": self.name, "server_uuid": self.server_uuid, "tag": self.tag}
        return event if self.status is None else {**event, "status": self.status}


def is_server_port(port: Resource) -> bool:
    """Whether a server of Nova owns the port."""
    owner, device = port.get("device_owner") or "", port.get("device_id") or ""
    return owner.startswith(COMPUTE_OWNER) and _SERVER_ID.fullmatch(device) is not None


def vif_plugged(port: Resource) -> list[NovaEvent]:
    """The port is wired, whatever its status says: on a live migration's target, while its binding is at the source."""
    return [_event(VIF_PLUGGED, port, COMPLETED)] if is_server_port(port) else []


def events_for_port(before: Resource | None, after: Resource | None) -> list[NovaEvent]:
    """What Nova has to know of a port that was created (no `before`), updated, or deleted (no `after`)."""
    if after is None:
        return [_event(VIF_DELETED, before)] if before is not None and is_server_port(before) else []
    if not is_server_port(after):
        return []
    events = _status_events(before.get("status") if before is not None else None, after)
    if before is not None and _cached(before) != _cached(after):
        events.append(_event(NETWORK_CHANGED, after))
    return events


def events_for_floating_ip(
    before: Resource | None, after: Resource | None, ports: Mapping[str, Resource]
) -> list[NovaEvent]:
    """What Nova has to know of a floating IP that was created, updated or deleted.

    `ports` has, by id, the port it was on and the port it is on, as far as they exist. A floating IP that goes
    straight from one server to another concerns both.
    """
    if _association(before) == _association(after):
        return []
    concerned = dict.fromkeys(state["port_id"] for state in (before, after) if state and state.get("port_id"))
    found = (ports[port_id] for port_id in concerned if port_id in ports)
    return [_event(NETWORK_CHANGED, port) for port in found if is_server_port(port)]


def _status_events(old: str | None, port: Resource) -> list[NovaEvent]:
    new = port.get("status")
    if new == old:
        return []
    if new == "ACTIVE":
        return [_event(VIF_PLUGGED, port, COMPLETED)]
    if new == "DOWN" and old == "ACTIVE":
        return [_event(VIF_UNPLUGGED, port, COMPLETED)]
    if new == "ERROR" and old != "ACTIVE":
        return [_event(VIF_PLUGGED, port, FAILED)]
    return []


def _event(name: str, port: Resource, status: str | None = None) -> NovaEvent:
    return NovaEvent(name, port["device_id"], port["id"], status)


def _cached(port: Resource) -> tuple[object, ...]:
    addresses = {(ip.get("subnet_id"), ip.get("ip_address")) for ip in port.get("fixed_ips") or ()}
    return (addresses, *(port.get(name) or None for name in CACHED_BY_NOVA))


def _association(floating_ip: Resource | None) -> tuple[object, ...] | None:
    if floating_ip is None or not floating_ip.get("port_id"):
        return None
    return tuple(floating_ip.get(name) for name in ("port_id", "fixed_ip_address", "floating_ip_address"))
