"""What of distributed routers is here: their ports, the MACs of hosts that route, and who is reached through which. Pure.

A distributed router's port has one MAC and one address on every host. Between hosts that MAC is never seen: what a router
here has routed leaves with this host's own MAC, and where it arrives the router's MAC is put back, so that the receiver
sees its gateway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from neutrino.model import state
from neutrino.model.link_local import link_local


@dataclasses.dataclass(frozen=True, order=True)
class DistributedPort:
    """A port of a distributed router that is plugged here."""

    vlan: int
    mac: str
    addresses: tuple[str, ...]


@dataclasses.dataclass(frozen=True, order=True)
class Neighbour:
    """A port here whose gateway is a distributed router."""

    vlan: int
    mac: str
    gateway_mac: str


@dataclasses.dataclass(frozen=True)
class Distributed:
    mac: str = ""  # this host's; empty until the server has told it
    others: tuple[str, ...] = ()  # the other hosts'
    ports: tuple[DistributedPort, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


def resolve_distributed(
    host: str,
    macs: Mapping[str, state.DvrMac],
    ports: Mapping[str, state.Port],
    vlans: Mapping[str, int],
) -> Distributed:
    """`vlans`: the local VLAN of every port that is wired here."""
    here = [ports[port_id] for port_id in sorted(vlans)]
    own = macs.get(host)
    gateways: dict[tuple[int, str], str] = {}
    found = []
    for port in here:
        if port.distributed:
            mac = port.mac_address.lower()
            addresses = (*(fixed.ip_address for fixed in port.fixed_ips), str(link_local(mac)))
            found.append(DistributedPort(vlans[port.id], mac, tuple(sorted(addresses))))
            gateways |= {(vlans[port.id], fixed.subnet_id): mac for fixed in port.fixed_ips}
    neighbours = {
        (vlans[port.id], port.mac_address.lower()): gateways[vlans[port.id], fixed.subnet_id]
        for port in here
        if not port.distributed
        for fixed in port.fixed_ips
        if (vlans[port.id], fixed.subnet_id) in gateways
    }
    return Distributed(
        mac=own.mac_address.lower() if own is not None else "",
        others=tuple(sorted(each.mac_address.lower() for name, each in macs.items() if name != host)),
        ports=tuple(sorted(found)),
        neighbours=tuple(sorted(Neighbour(vlan, mac, gateway) for (vlan, mac), gateway in neighbours.items())),
    )
