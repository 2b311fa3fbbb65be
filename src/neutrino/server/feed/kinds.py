"""Registry of served kinds: for each object kind its reader and its scope rule, the server's half of `model/kinds.py`.

Scope starts from what a host has of its own: ports bound to it, routers and networks that its agents serve. Everything else
follows by reference: an object that a host receives makes it receive the objects named in `referenced_by`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from neutrino.model.kinds import KINDS
from neutrino.model.routing import Router
from neutrino.model.state import Network, Port, SecurityGroup
from neutrino.server.feed.readers.agents import read_agents
from neutrino.server.feed.readers.networks import read_networks
from neutrino.server.feed.readers.ports import read_ports
from neutrino.server.feed.readers.routers import read_routers
from neutrino.server.feed.readers.security_groups import read_address_groups, read_security_groups
from neutrino.server.feed.records import TUNNEL_TYPES
from neutrino.server.feed.stores import (
    ForwardingEntries,
    HostObjects,
    MemberSets,
    PeerHosts,
    Reader,
    ServedKind,
    SharedObjects,
)


def _tunnelled(network: Network) -> Iterable[str]:
    return (network.id,) if any(s.network_type in TUNNEL_TYPES for s in network.segments) else ()


def _groups(port: Port) -> Iterable[str]:
    return () if port.copy else port.security_groups  # a copy answers DHCP alone and is not filtered


def _remote_groups(group: SecurityGroup) -> Iterable[str]:
    return (rule.remote_group_id for rule in group.rules if rule.remote_group_id is not None)


def _address_groups(group: SecurityGroup) -> Iterable[str]:
    return (rule.remote_address_group_id for rule in group.rules if rule.remote_address_group_id is not None)


def _router_networks(router: Router) -> Iterable[str]:
    return (interface.network_id for interface in router.interfaces)


def _kind(name: str, store: Any, source: str, **rule: Any) -> ServedKind:
    return ServedKind(KINDS[name], store, source, **rule)


SERVED_KINDS: Final[Sequence[ServedKind]] = (
    _kind(
        "network",
        SharedObjects,
        "network",
        read=read_networks,
        value=attrgetter("network"),
        referenced_by={"port": lambda port: (port.network_id,)},
    ),
    _kind(
        "host",
        PeerHosts,
        "agent",
        read=read_agents,
        value=attrgetter("host"),
        referenced_by={"network": _tunnelled},
    ),
    _kind(
        "forwarding",
        ForwardingEntries,
        "port",
        value=attrgetter("forwarding"),
        key=attrgetter("network_id"),
        referenced_by={"network": _tunnelled},
    ),
    _kind(
        "address_group",
        SharedObjects,
        "address_group",
        read=read_address_groups,
        referenced_by={"security_group": _address_groups},
    ),
    _kind("group_members", MemberSets, "port", referenced_by={"security_group": _remote_groups}),
    _kind(
        "security_group",
        SharedObjects,
        "security_group",
        read=read_security_groups,
        referenced_by={"port": _groups},
    ),
    _kind("port", HostObjects, "port", read=read_ports, value=attrgetter("bound")),
    _kind("dhcp_network", SharedObjects, "network", value=attrgetter("dhcp")),  # subscribed to by DhcpScope
    _kind(
        "dhcp_port",
        SharedObjects,
        "port",
        value=attrgetter("dhcp"),
        key=attrgetter("network_id"),
        referenced_by={"router": _router_networks},
    ),
    _kind("router", HostObjects, "router", read=read_routers, value=attrgetter("by_host")),
    # Every host with distributed routing receives the MACs of all, its own included.
    _kind(
        "dvr_mac",
        SharedObjects,
        "agent",
        value=attrgetter("dvr_mac"),
        key=lambda mac: "all",
        subscriber=attrgetter("id"),
    ),
)


def readers(kinds: Sequence[ServedKind] = SERVED_KINDS) -> dict[str, Reader]:
    """The reader of each source."""
    return {kind.source: kind.read for kind in kinds if kind.read is not None}
