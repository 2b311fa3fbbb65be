"""Devices of DHCP and router ports on the bridge: plugged by port id, as instances are.

The L2 role notices an interface with a port's id and wires it like any other. On the kernel datapath the device is an
internal port, which ovs-vswitchd creates in the host's namespace and which is then moved into the service's namespace. On
the userspace datapath it is a veth pair, as an internal port there does not survive a restart of ovs-vswitchd.
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from neutrino.dataplane.netlink.api import MoveDevice, Netlink, NetlinkError
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.ovsdb.api import Bridge, Change, DeletePort, Ovsdb, SetPort, Snapshot

MARK = "neutrino"  # the key in external_ids
SERVICE = "service"
SETTLE_SECONDS = 5.0  # for ovs-vswitchd to close a deleted device, before another of its name is plugged
DEVICE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Plug:
    """A switch port that should exist."""

    bridge: str
    name: str  # of the device on the bridge
    port_id: str
    mac: str
    internal: bool = False  # ovs-vswitchd creates the device
    mark: str = SERVICE  # identifies the port as ours


def plan_plugs(wanted: Iterable[Plug], snapshot: Snapshot) -> tuple[Change, ...]:
    return tuple(change for plug in wanted if not _is_met(change := _set_port(plug), snapshot))


def plan_unplugging(names: Iterable[str], snapshot: Snapshot) -> tuple[Change, ...]:
    """Remove these devices from whatever bridge they are on."""
    interfaces = snapshot.interfaces()
    return tuple(DeletePort(interfaces[name][0], name) for name in names if name in interfaces)


def is_service(external_ids: Mapping[str, str]) -> bool:
    """Whether the interface was plugged for a router."""
    return external_ids.get(MARK) == SERVICE


def _set_port(plug: Plug) -> SetPort:
    # The keys that Nova sets for instances, so that the L2 role treats all ports alike.
    ids = {"iface-id": plug.port_id, "iface-status": "active", "attached-mac": plug.mac, MARK: plug.mark}
    return SetPort(plug.bridge, plug.name, "internal" if plug.internal else "", external_ids=ids)


def _is_met(change: SetPort, snapshot: Snapshot) -> bool:
    port = snapshot.bridges.get(change.bridge, Bridge("")).ports.get(change.name)
    if port is None or not port.interfaces:
        return False
    interface = port.interfaces[0]
    return change.type in ("", interface.type) and change.external_ids.items() <= interface.external_ids.items()


@dataclasses.dataclass(frozen=True)
class Plugging:
    """Applies plugs. Blocking."""

    netlink: Netlink
    ovsdb: Callable[[], Ovsdb]

    def plug(self, plugs: Iterable[Plug], *, unplug: Iterable[str] = (), recreated: Collection[str] = ()) -> int:
        """Plug what is missing; the number of changes.

        `recreated` are devices of new veth pairs: ovs-vswitchd still has the deleted device of that name open and would
        never notice the new one, so its port is removed first.
        """
        ovsdb, desired = self.ovsdb(), tuple(plugs)
        snapshot = ovsdb.read()
        wanted = {plug.name for plug in desired}
        names = [*(name for name in unplug if name not in wanted), *recreated]
        removed = plan_unplugging(names, snapshot) if names else ()
        if removed:
            ovsdb.apply(removed, settle=SETTLE_SECONDS if recreated else 0.0)
        added = plan_plugs(desired, ovsdb.read() if removed else snapshot)
        if added:
            ovsdb.apply(added)
        return len(removed) + len(added)

    def bring_devices(self, plugs: Collection[Plug], namespace: str, present: Collection[str]) -> None:
        """Plug internal ports that are not `present` in the namespace, and move them there."""
        missing = [plug.name for plug in plugs if plug.internal and plug.name not in present]
        if not missing:
            return
        self.plug(plugs)
        # ovs-vswitchd creates the device some time after its row is committed.
        deadline = time.monotonic() + DEVICE_SECONDS
        while waiting := [name for name in missing if self.netlink.read_device(HOST, name) is None]:
            if time.monotonic() > deadline:
                raise NetlinkError(f"ovs-vswitchd has not created {', '.join(waiting)}")
            time.sleep(0.01)
        self.netlink.apply(HOST, [MoveDevice(name, namespace) for name in missing])
