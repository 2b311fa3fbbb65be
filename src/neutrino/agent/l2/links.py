"""The links by which packets leave the host: of the underlay and of the bridges of physical networks.

A link is a device of the kernel. Of the underlay it is the device with the tunnel address or, if that is a bridge of Open
vSwitch, those that the bridge has; the same for bridges of physical networks. Devices that are none of the kernel's, as of
DPDK, are not seen.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from neutrino.agent.l2.bridges import KERNEL_TYPES
from neutrino.agent.l2.desired import L2Options
from neutrino.dataplane.netlink.api import Netlink, NetlinkError
from neutrino.dataplane.netlink.values import HOST, Device
from neutrino.dataplane.ovsdb.api import MARK, Ovsdb, OvsdbError, Snapshot

LOG = logging.getLogger(__name__)
UNDERLAY = "underlay"
MAX_LINKS = 50  # in a report
State = Literal["up", "disabled", "no carrier", "missing"]


@dataclass(frozen=True, slots=True)
class Link:
    device: str
    use: str  # the underlay, or the physical network that it leads to
    state: State

    @property
    def is_up(self) -> bool:
        return self.state == "up"


def link_devices(options: L2Options, snapshot: Snapshot) -> dict[str, str]:
    """The devices whose links carry packets of instances to other machines, each with its use."""
    uses = {bridge: f"physical network {name}" for name, bridge in options.bridge_mappings}
    found: dict[str, str] = {}
    if options.underlay_bridge:
        if options.underlay_bridge in snapshot.bridges:
            uses[options.underlay_bridge] = UNDERLAY
        else:
            found[options.underlay_bridge] = UNDERLAY
    for bridge, use in sorted(uses.items()):
        found |= dict.fromkeys(_uplinks(bridge, snapshot), use)
    return found


def _uplinks(bridge: str, snapshot: Snapshot) -> Iterator[str]:
    """The devices of a bridge that are neither ours nor an instance's."""
    for _, port in sorted(snapshot.bridges[bridge].ports.items() if bridge in snapshot.bridges else ()):
        for interface in port.interfaces:
            is_foreign = not interface.external_ids.keys() & {MARK, "iface-id"}
            if interface.type in KERNEL_TYPES and interface.name != bridge and is_foreign:
                yield interface.name


def state_of(device: Device | None) -> State:
    if device is None:
        return "missing"
    if not device.up:
        return "disabled"
    return "up" if device.carrier else "no carrier"


def reader(options: L2Options, ovsdb: Callable[[], Ovsdb], netlink: Netlink) -> Callable[[], tuple[Link, ...]]:
    """Reads the links; blocking. If they cannot be read, there are none: the state of the dataplane has the reason."""

    def read() -> tuple[Link, ...]:
        try:
            devices = link_devices(options, ovsdb().read())
            return tuple(
                Link(name, use, state_of(netlink.read_device(HOST, name)))
                for name, use in sorted(devices.items())[:MAX_LINKS]
            )
        except (NetlinkError, OvsdbError) as error:
            LOG.debug("the links cannot be read: %s", error)
            return ()

    return read


def described(links: tuple[Link, ...]) -> Mapping[str, Mapping[str, str]]:
    """The links by device, as an agent reports them."""
    return {link.device: {"use": link.use, "state": link.state} for link in links}
