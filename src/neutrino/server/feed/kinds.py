"""Registry of served kinds: for each object kind its reader and its scope rule, the server's half of `model/kinds.py`.

Scope starts from what a host has of its own: ports bound to it, routers and networks that its agents serve. Everything else
follows by reference: an object that a host receives makes it receive the objects named in `referenced_by`.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from neutrino.model.kinds import KINDS
from neutrino.model.routing import Router
from neutrino.model.state import Network, Port, SecurityGroup
from neutrino.server.feed import stores
from neutrino.server.feed.readers import bgp, firewalls, l2, packet_logs, qos, routers
from neutrino.server.feed.records import TUNNEL_TYPES
from neutrino.server.feed.stores import Reader, ServedKind


def _if_tunnelled(network: Network) -> Iterable[str]:
    return (network.id,) if any(each.network_type in TUNNEL_TYPES for each in network.segments) else ()


def _security_groups(port: Port) -> Iterable[str]:
    return () if port.copy else port.security_groups  # a copy of a DHCP port is not filtered


def _policy(holder: Network | Port) -> Iterable[str]:
    return (holder.qos_policy_id,) if holder.qos_policy_id else ()


def _router_policies(router: Router) -> Iterable[str]:
    floating = (each.qos_policy_id for each in router.floating_ips)
    forwarded = (each.qos_policy_id for each in router.port_forwardings)
    return filter(None, (router.gateway_qos_policy_id, *floating, *forwarded))


def _firewall_group(port: Port) -> Iterable[str]:
    return (port.firewall_group_id,) if port.firewall_group_id else ()


def _router_firewall_groups(router: Router) -> Iterable[str]:
    return filter(None, (each.firewall_group_id for each in (*router.interfaces, *router.snat_interfaces)))


def _tap_flows(port: Port) -> Iterable[str]:
    """Both hosts of a tap flow need each other's tunnel address, like those of a network."""
    taps = port.taps
    if taps is None:
        return ()
    return *(flow.id for flow in taps.flows), *(origin.id for origin in taps.origins)


def _logs_of_group(group: SecurityGroup) -> Iterable[str]:
    return filter(None, (group.id, group.project_id))


# In message order, like KINDS.
SERVED_KINDS: Final[Sequence[ServedKind]] = (
    ServedKind(
        KINDS["qos_policy"],
        stores.SharedObjects,
        source="qos_policy",
        read=qos.read_policies,
        referenced_by={"network": _policy, "port": _policy, "router": _router_policies},
    ),
    ServedKind(
        KINDS["firewall_group"],
        stores.SharedObjects,
        source="firewall_group",
        read=firewalls.read_firewall_groups,
        referenced_by={"port": _firewall_group, "router": _router_firewall_groups},
    ),
    ServedKind(
        KINDS["log"],
        stores.SharedObjects,
        source="log",
        read=packet_logs.read_logs,
        key=packet_logs.topic,
        referenced_by={"network": lambda network: (network.id,), "security_group": _logs_of_group},
    ),
    ServedKind(
        KINDS["network"],
        stores.SharedObjects,
        source="network",
        read=l2.read_networks,
        value=attrgetter("network"),
        referenced_by={"port": lambda port: (port.network_id,)},
    ),
    ServedKind(
        KINDS["host"],
        stores.PeerHosts,
        source="agent",
        read=l2.read_agents,
        value=attrgetter("host"),
        referenced_by={"network": _if_tunnelled, "port": _tap_flows},
    ),
    ServedKind(
        KINDS["forwarding"],
        stores.ForwardingEntries,
        source="port",
        value=attrgetter("forwarding"),
        key=attrgetter("network_id"),
        referenced_by={"network": _if_tunnelled},
    ),
    ServedKind(
        KINDS["address_group"],
        stores.SharedObjects,
        source="address_group",
        read=l2.read_address_groups,
        referenced_by={
            "security_group": lambda group: filter(None, (rule.remote_address_group_id for rule in group.rules))
        },
    ),
    ServedKind(
        KINDS["group_members"],
        stores.MemberSets,
        source="port",
        referenced_by={"security_group": lambda group: filter(None, (rule.remote_group_id for rule in group.rules))},
    ),
    ServedKind(
        KINDS["security_group"],
        stores.SharedObjects,
        source="security_group",
        read=l2.read_security_groups,
        referenced_by={"port": _security_groups},
    ),
    ServedKind(KINDS["port"], stores.HostObjects, source="port", read=l2.read_ports, value=attrgetter("bound")),
    # Hosts are subscribed to it by DhcpScope, which also gives them the network's ports and copies of its DHCP port.
    ServedKind(KINDS["dhcp_network"], stores.SharedObjects, source="network", value=attrgetter("dhcp")),
    ServedKind(
        KINDS["dhcp_port"],
        stores.SharedObjects,
        source="port",
        value=attrgetter("dhcp"),
        key=attrgetter("network_id"),
        referenced_by={"router": lambda router: (interface.network_id for interface in router.interfaces)},
    ),
    ServedKind(KINDS["router"], stores.HostObjects, source="router", read=routers.read_routers),
    # Every host with distributed routing receives the MACs of all such hosts, its own included.
    ServedKind(
        KINDS["dvr_mac"],
        stores.SharedObjects,
        source="agent",
        value=attrgetter("dvr_mac"),
        key=lambda mac: "all",
        subscriber=attrgetter("id"),
    ),
    ServedKind(KINDS["bgp_speaker"], stores.HostObjects, source="bgp_speaker", read=bgp.read_speakers),
)


def readers(kinds: Sequence[ServedKind] = SERVED_KINDS) -> dict[str, Reader]:
    """The reader of each source."""
    return {kind.source: kind.read for kind in kinds if kind.read is not None}
