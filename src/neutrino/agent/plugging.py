"""Devices of DHCP and routers on the bridge: plugged as instances are, by the id of their port. Pure.

The L2 role sees a device with a port's id appear and wires it like any other. On the kernel's datapath the switch makes the
device (an internal port), which is then moved into its namespace; on the one in userspace it is a veth pair, as internal
ports there do not survive a restart of the switch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from neutrino.dataplane.ovsdb.api import Bridge, Change, DeletePort, SetPort, Snapshot

MARK = "neutrino"
SERVICE = "service"
SETTLE_SECONDS = 5.0  # for the switch to let go of a device that is gone, before another of its name is plugged


@dataclasses.dataclass(frozen=True)
class Plug:
    bridge: str
    name: str  # of the device on the bridge
    port_id: str
    mac: str
    internal: bool = False  # the switch makes the device


def plan_plugs(wanted: Iterable[Plug], snapshot: Snapshot) -> tuple[Change, ...]:
    return tuple(change for plug in wanted if not _is_met(change := _set_port(plug), snapshot))


def plan_unplugging(names: Iterable[str], snapshot: Snapshot) -> tuple[Change, ...]:
    """Take these devices off whatever bridge they are on."""
    places = snapshot.interfaces()
    return tuple(DeletePort(places[name][0], name) for name in names if name in places)


def is_service(external_ids: Mapping[str, str]) -> bool:
    """Whether a device on the bridge was plugged from here."""
    return external_ids.get(MARK) == SERVICE


def _set_port(plug: Plug) -> SetPort:
    return SetPort(
        plug.bridge,
        plug.name,
        "internal" if plug.internal else "",
        external_ids={
            "iface-id": plug.port_id,
            "iface-status": "active",
            "attached-mac": plug.mac,
            MARK: SERVICE,
        },
    )


def _is_met(change: SetPort, snapshot: Snapshot) -> bool:
    port = snapshot.bridges.get(change.bridge, Bridge("")).ports.get(change.name)
    if port is None:
        return False
    interface = port.interfaces[0]
    return change.type in ("", interface.type) and change.external_ids.items() <= interface.external_ids.items()
