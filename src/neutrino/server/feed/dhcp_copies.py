"""Copies of a network's DHCP port, for hosts that answer their own ports themselves (`dhcp_distributed`). Pure.

A host whose DHCP agent says so, and that has ports on a network which is scheduled elsewhere, gets the network, its ports,
and the DHCP port as if it were its own: the same MAC and addresses, marked as a copy, which talks to ports of its host
alone. It is the port with the smallest id, here as on the host, so that both mean the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from neutrino.model.dhcp import OWNER
from neutrino.model.state import Port
from neutrino.server.feed.records import DhcpAgent, DhcpRecord, PortRecord


def is_server(port: PortRecord) -> bool:
    """Whether DHCP is served from it; others are why a host would serve."""
    return port.dhcp is not None and port.dhcp.device_owner == OWNER


def distributed_hosts(agents: Iterable[DhcpAgent | None]) -> frozenset[str]:
    return frozenset(a.host for a in agents if a is not None and a.distributed and a.admin_state_up)


def copy_hosts(
    network: DhcpRecord, agents: Mapping[str, DhcpAgent | None], distributed: Collection[str], having: Iterable[str]
) -> frozenset[str]:
    """Who serves the network besides those that it is scheduled to; `having` ports there."""
    return frozenset(having).intersection(distributed) - network.hosts(agents)


def copies(servers: Collection[PortRecord], hosts: Iterable[str]) -> dict[str, Port]:
    """The network's DHCP port as these hosts get it; none if it is bound nowhere."""
    if not servers:
        return {}
    first = min(servers, key=lambda port: port.id)
    there = next((port for port in first.bound.values() if port.active), None)
    if there is None:
        return {}
    return {host: msgspec.structs.replace(there, host=host, copy=True) for host in hosts if host not in first.bound}
