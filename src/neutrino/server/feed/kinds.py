"""What the core declares for the feed.

Scope starts from what a host has of its own: ports bound to it, routers and networks that its agents serve. Everything else
follows by reference: an object that a host receives makes it receive those that it refers to.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from neutrino.model.kinds import KINDS
from neutrino.model.state import Network, Port, SecurityGroup
from neutrino.server.feed import stores
from neutrino.server.feed.declarations import Affects, Feed, Reference
from neutrino.server.feed.fanout import HostObjects, ServedKind, SharedObjects
from neutrino.server.feed.readers import l2
from neutrino.server.feed.records import TUNNEL_TYPES


def _if_tunnelled(network: Network) -> Iterable[str]:
    return (network.id,) if any(segment.network_type in TUNNEL_TYPES for segment in network.segments) else ()


def _security_groups(port: Port) -> Iterable[str]:
    return () if port.copy else port.security_groups  # a copy of a DHCP port is not filtered


def _remote_groups(group: SecurityGroup) -> Iterable[str]:
    return filter(None, (rule.remote_group_id for rule in group.rules))


CORE: Final = Feed(
    kinds=(
        ServedKind(
            KINDS["network"],
            SharedObjects,
            source="network",
            read=l2.read_networks,
            value=attrgetter("network"),
        ),
        ServedKind(KINDS["host"], stores.PeerHosts, source="agent", read=l2.read_agents, value=attrgetter("host")),
        ServedKind(
            KINDS["forwarding"],
            stores.ForwardingEntries,
            source="port",
            value=attrgetter("forwarding"),
            key=attrgetter("network_id"),
        ),
        ServedKind(KINDS["group_members"], stores.MemberSets, source="port"),
        ServedKind(KINDS["security_group"], SharedObjects, source="security_group", read=l2.read_security_groups),
        ServedKind(
            KINDS["port"],
            HostObjects,
            source="port",
            read=l2.read_ports,
            takes_additions=True,
            value=attrgetter("bound"),
        ),
        # Hosts are subscribed to it by DhcpScope, which also gives them the network's ports and copies of its DHCP port.
        ServedKind(KINDS["dhcp_network"], SharedObjects, source="network", value=attrgetter("dhcp")),
        ServedKind(
            KINDS["dhcp_port"],
            SharedObjects,
            source="port",
            value=attrgetter("dhcp"),
            key=attrgetter("network_id"),
        ),
        # Every host with distributed routing receives the MACs of all such hosts, its own included.
        ServedKind(
            KINDS["dvr_mac"],
            SharedObjects,
            source="agent",
            value=attrgetter("dvr_mac"),
            key=lambda mac: "all",
            subscriber=attrgetter("id"),
        ),
    ),
    references=(
        Reference("network", "port", lambda port: (port.network_id,)),
        # A host needs the network before the tunnels on it.
        Reference("host", "network", _if_tunnelled, sent_first=False),
        Reference("forwarding", "network", _if_tunnelled, sent_first=False),
        Reference("group_members", "security_group", _remote_groups),
        Reference("security_group", "port", _security_groups),
    ),
    # A deleted subnet is no longer found here: the same transaction logs its network too.
    affects=(Affects(records="network", named=("subnet",), find=l2.networks_of_subnets),),
)
