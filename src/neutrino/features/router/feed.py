"""Reads routers: the whole router, as each host that serves it gets it, in a fixed number of queries.

A change of a router is logged with the router. Its ports, subnets and networks also change on their own; `routers_of` finds
the routers that such a change affects.
"""

import dataclasses
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.hosts import (
    REPLICATED,
    AgentModes,
    Placement,
    read_agent_modes,
    read_local_hosts,
    read_placements,
    read_router_hosts,
)
from neutrino.features.router.routers.view import GATEWAY_ROUTERS
from neutrino.features.router.tables import (
    conntrack_helpers,
    floatingips,
    ndp_proxies,
    port_forwardings,
    router_l3_agents,
    router_ports,
    routers,
)
from neutrino.model import agents as words
from neutrino.model import device_owners
from neutrino.model import routing as m
from neutrino.model.kinds import KINDS
from neutrino.model.state import FixedIp, Port
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.sql import NamedRow, Selection
from neutrino.server.feed.declarations import NO_ADDITIONS, Added, Additions, Affects, Changed, Feed, Placed, Reference
from neutrino.server.feed.fanout import HostObjects, ServedKind
from neutrino.server.feed.readers.rows import Ids, build, fixed_ips, grouped, one_of, read_ids, read_rows, select, texts
from neutrino.server.feed.records import PortRecord, RouterRecord
from neutrino.server.feed.reports.rules import UP_OR_DOWN, ReportedStatus, prefix
from neutrino.server.ipam.delegated import PROVISIONAL, is_provisional

Interfaces = defaultdict[str, list[tuple[str, m.RouterInterface]]]  # router → port type, interface

_LOWEST_PRIORITY, _PRIORITIES = 150, 101  # 150 to 250: see `_priority`

# Without a policy of its own, a floating IP or gateway has that of its external network.
_GATEWAY_POLICY = sa.func.coalesce(
    routers.c.gw_qos_policy_id,
    sa.select(t.networks.c.qos_policy_id).where(t.networks.c.id == routers.c.gw_network_id).scalar_subquery(),
    "",
)
_GATEWAYS = routers.c.gw_port_id, routers.c.extra_gw_port_ids
_ROUTERS = select(
    m.Router, routers, routers.c.routes, routers.c.ha_vr_id, *_GATEWAYS, _GATEWAY_POLICY.label("gateway_qos_policy_id")
)
_routes = msgspec.json.Decoder(tuple[m.RouterRoute, ...])
_OF_PORTS = RowsLookup(sa.select(router_ports.c.router_id))
_ON_NETWORKS = RowsLookup(sa.select(router_ports.c.router_id).join(t.ports, t.ports.c.id == router_ports.c.port_id))
_OF_AGENTS = RowsLookup(sa.select(router_l3_agents.c.router_id))
_OF_ASSOCIATED = RowsLookup(sa.select(floatingips.c.router_id).where(floatingips.c.router_id.is_not(None)))
_DISTRIBUTED = sa.select(routers.c.id).where(routers.c.distributed.is_(True))
_DISTRIBUTED_ON_NETWORKS = RowsLookup(
    _DISTRIBUTED.join(router_ports, router_ports.c.router_id == routers.c.id).join(
        t.ports, t.ports.c.id == router_ports.c.port_id
    )
)
_SHARED_PORTS = RowsLookup(
    sa.select(router_ports.c.port_id).where(
        one_of(router_ports.c.port_type, (*REPLICATED, device_owners.DVR_INTERFACE))
    )
)
NETWORKS_OF_PORTS = RowsLookup(sa.select(t.ports.c.network_id).distinct())


def routers_of(connection: Connection, changed: Changed) -> set[str]:
    """The routers with a changed port, with a port on a changed network, or scheduled to a changed agent."""
    return (
        read_ids(connection, _OF_PORTS, router_ports.c.port_id, changed.named("port"))
        | read_ids(connection, _ON_NETWORKS, t.ports.c.network_id, changed.affected("network"))
        | read_ids(connection, _OF_AGENTS, router_l3_agents.c.agent_id, changed.named("agent"))
    )


def distributed_routers_of(connection: Connection, changed: Changed) -> set[str]:
    """The distributed routers that are affected though none of their own ports changed.

    A port decides by where it is bound which hosts its networks' routers are on, and where its floating IP is translated;
    so do ports that are deleted, on their last networks. The mode of an L3 agent affects all of them.
    """
    ports, agents = changed.named("port"), changed.named("agent")
    router_ids = read_ids(connection, _OF_ASSOCIATED, floatingips.c.port_id, ports)
    networks = read_ids(connection, NETWORKS_OF_PORTS, t.ports.c.id, ports) | set(changed.last_networks)
    router_ids |= read_ids(connection, _DISTRIBUTED_ON_NETWORKS, t.ports.c.network_id, sorted(networks))
    if read_ids(connection, sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.L3), t.agents.c.id, agents):
        router_ids |= read_ids(connection, _DISTRIBUTED, routers.c.id, None)
    return router_ids


def shared_ports(connection: Connection, changed: Changed) -> set[str]:
    """The ports that several hosts of affected routers have: the hosts of a router decide who receives them."""
    return read_ids(connection, _SHARED_PORTS, router_ports.c.router_id, changed.affected("router"))


def read_port_hosts(connection: Connection, ports: Ids) -> Callable[[PortRecord, Port], PortRecord]:
    """Ports of HA and distributed routers are on all hosts of their router."""
    hosts = read_router_hosts(connection, ports)

    def place(record: PortRecord, port: Port) -> PortRecord:
        if record.id in hosts.distributed:  # every host of the router has it, with the same MAC: it is bound to none
            return dataclasses.replace(record, bound=_distributed(port, hosts.distributed[port.id]), forwarding=None)
        # Wired on all hosts of the router; `forwarding`, by which other hosts' tunnels find it, stays at the active one.
        if record.id in hosts.replicated:
            return dataclasses.replace(record, bound=_replicated(record.bound, hosts.replicated[port.id]))
        return record

    return place


def _replicated(bound: dict[str, Port], hosts: frozenset[str]) -> dict[str, Port]:
    """A port of an HA router: all its hosts wire it as it is bound to the host where the router is active."""
    active = next((port for port in bound.values() if port.active), None)
    if active is None:
        return bound
    return {host: msgspec.structs.replace(active, host=host, replicated=True) for host in sorted(hosts | {active.host})}


def _distributed(port: Port, hosts: frozenset[str]) -> dict[str, Port]:
    """A port of a distributed router, which has no binding: every host of the router wires it."""
    base = msgspec.structs.replace(
        port,
        device_owner=device_owners.DVR_INTERFACE,  # the port's own may have been cleared by a client
        allowed_address_pairs=(),
        port_security_enabled=False,
        security_groups=(),
        vif_type="ovs",
        distributed=True,
    )
    return {host: msgspec.structs.replace(base, host=host) for host in sorted(hosts)}


# --- routers ----------------------------------------------------------------------------------------------------------


def read_routers(
    connection: Connection, ids: Ids, additions: Additions = NO_ADDITIONS
) -> Iterator[tuple[str, RouterRecord]]:
    placements = read_placements(connection, ids)
    modes = read_agent_modes(connection)
    local = read_local_hosts(connection, ids, modes)
    served = placements.keys() | local.keys()
    if not served:
        return
    wanted = ids if ids is None else [router_id for router_id in ids if router_id in served]
    ports = _router_ports(connection, wanted)
    gateways = read_agent_gateways(connection, _gateway_networks(ports)) if local else {}
    added = additions.read(connection, wanted)
    for row, base in _bases(connection, wanted, ports, added):
        if row.id not in served:
            continue
        own = ports[row.id]
        ha_ports = {port.id: port for kind, port in own if kind == device_owners.HA_PORT}
        central = dict(_by_host(base, row, placements.get(row.id, {}), ha_ports))
        if not base.distributed:
            yield row.id, added.place(central, base)
            continue
        outside = gateways.get(base.gateway.network_id, {}) if base.gateway is not None else {}
        here = local.get(row.id, frozenset())
        by_host = dict(render_for_hosts(base, here, frozenset(central), modes, outside))
        # The SNAT of a distributed HA router fails over by VRRP: its hosts need the HA port as those of a centralized one.
        for host, router in central.items() if base.gateway is not None else ():
            by_host[host] = msgspec.structs.replace(by_host[host], ha=router.ha)
        yield row.id, added.place(by_host, base)


def read_bases(
    connection: Connection, ids: Ids, additions: Additions = NO_ADDITIONS
) -> dict[str, tuple[m.Router, bool]]:
    """Routers by id, scheduled or not, as they are without a host, and whether each is HA."""
    rows = _bases(connection, ids, _router_ports(connection, ids), additions.read(connection, ids))
    return {row.id: (base, bool(row.ha)) for row, base in rows}


def _bases(connection: Connection, ids: Ids, ports: Interfaces, added: Added) -> Iterator[tuple[NamedRow, m.Router]]:
    parts = {
        field: grouped(connection, statement, column, ids, value)
        for field, (statement, column, value) in _PARTS.items()
    }
    for row in read_rows(connection, _ROUTERS, routers.c.id, ids):
        own = ports[row.id]
        gateways = {port.id: port for kind, port in own if kind == device_owners.GATEWAY}
        base = build(
            m.Router,
            row,
            gateway=gateways.get(row.gw_port_id),
            extra_gateways=tuple(gateways[key] for key in texts.decode(row.extra_gw_port_ids) if key in gateways),
            interfaces=tuple(port for kind, port in own if kind in device_owners.INTERFACES),
            snat_interfaces=tuple(port for kind, port in own if kind == device_owners.SNAT),
            routes=_routes.decode(row.routes),
            ha=None,  # set for each host
            **{field: tuple(values[row.id]) for field, values in parts.items()},
            **added.fields(row.id),
        )
        yield row, added.complete(base)


def _by_host(
    base: m.Router, row: NamedRow, placements: Mapping[str, Placement], ha_ports: Mapping[str, m.RouterInterface]
) -> Iterator[tuple[str, m.Router]]:
    """The router as the hosts that it is scheduled to get it; those of an HA router differ in their HA port."""
    active = next((host for host, (_, state) in placements.items() if state == m.ACTIVE), "")
    for host, (ha_port_id, _) in placements.items():
        if not row.ha:
            yield host, base
            continue
        interface = ha_ports.get(ha_port_id or "")
        if interface is None or row.ha_vr_id is None:
            continue  # without an HA port the host would become active beside the others
        membership = m.HaMembership(
            interface=interface, vr_id=row.ha_vr_id, priority=_priority(interface.id), active_host=active
        )
        yield host, msgspec.structs.replace(base, ha=membership)


def _priority(port_id: str) -> int:
    """VRRP priority of a host, constant while it has the router."""
    # High, because a standby waits (256 - priority) / 256 s longer before it takes over; different per host, so that two
    # do not take over at the same moment.
    return _LOWEST_PRIORITY + zlib.crc32(port_id.encode()) % _PRIORITIES


def render_for_hosts(
    base: m.Router,
    local: frozenset[str],
    central: frozenset[str],
    modes: AgentModes,
    gateways: Mapping[str, m.RouterInterface],
) -> Iterator[tuple[str, m.Router]]:
    """A distributed router as each host gets it.

    `local`: hosts with ports on its subnets; `central`: hosts of its SNAT; `gateways`: host → agent gateway port. A
    floating IP is translated on the host of its port if that host reaches the external network itself, else centrally.
    Such a host also routes the direct prefixes to the outside itself.
    """
    outward = {host for host in local if modes.get(host) in words.EXTERNAL_MODES}
    # Only the first gateway's network is reached from every host. Both floating IPs of an address are at one place, as
    # its packets leave by one of them.
    central_only = {fip.fixed_ip_address for fip in base.floating_ips if fip.network_id}
    distributed = [fip for fip in base.floating_ips if fip.fixed_ip_address not in central_only]
    for host in sorted(local | central):
        # Without its own port on the external network the host does not reach that network yet.
        floating = [fip for fip in distributed if fip.host == host and host in outward and host in gateways]
        if host in central:
            others = (f for f in base.floating_ips if f.fixed_ip_address in central_only or f.host not in outward)
            floating += [msgspec.structs.replace(fip, host="") for fip in others]  # no host: translated centrally
        own = base.direct_prefixes if host in outward and host in gateways else ()
        router = msgspec.structs.replace(
            base,
            floating_ips=tuple(floating),
            direct_prefixes=own,
            port_forwardings=base.port_forwardings if host in central else (),
            centralized=host in central,
            agent_gateway=gateways.get(host) if own or any(fip.host for fip in floating) else None,
        )
        yield host, router


# --- ports ------------------------------------------------------------------------------------------------------------


def _router_ports(connection: Connection, ids: Ids) -> Interfaces:
    statement = (
        select(
            m.RouterInterface,
            t.ports,
            router_ports.c.router_id,
            router_ports.c.port_type,
            t.ports.c.fixed_ips,
            t.networks.c.mtu,
        )
        .join(t.ports, t.ports.c.id == router_ports.c.port_id)
        .join(t.networks, t.networks.c.id == t.ports.c.network_id)
        .order_by(t.ports.c.id)
    )
    return _interfaces(connection, list(read_rows(connection, statement, router_ports.c.router_id, ids)))


def _gateway_networks(ports: Interfaces) -> set[str]:
    return {port.network_id for own in ports.values() for kind, port in own if kind == device_owners.GATEWAY}


def read_agent_gateways(connection: Connection, networks: Collection[str]) -> dict[str, dict[str, m.RouterInterface]]:
    """External network → host → the agent gateway port by which the host's floating IPs reach that network."""
    labels = sa.literal("").label("router_id"), sa.literal(device_owners.GATEWAY).label("port_type")
    statement = (
        select(m.RouterInterface, t.ports, *labels, t.ports.c.fixed_ips, t.ports.c.host, t.networks.c.mtu)
        .join(t.networks, t.networks.c.id == t.ports.c.network_id)
        .where(t.ports.c.device_owner == device_owners.AGENT_GATEWAY, t.ports.c.host != "")
        .order_by(t.ports.c.id)
    )
    rows = list(read_rows(connection, statement, t.ports.c.network_id, sorted(networks)))
    hosts = {row.id: row.host for row in rows}
    gateways: defaultdict[str, dict[str, m.RouterInterface]] = defaultdict(dict)
    for _, port in _interfaces(connection, rows)[""]:
        gateways[port.network_id].setdefault(hosts[port.id], port)
    return gateways


def _interfaces(connection: Connection, rows: Sequence[NamedRow]) -> Interfaces:
    subnets = _subnets(connection, sorted({row.network_id for row in rows}))
    interfaces: Interfaces = defaultdict(list)
    for row in rows:
        known, fixed = subnets[row.network_id], fixed_ips.decode(row.fixed_ips)
        used = {address.subnet_id for address in fixed}
        # Subnets of the external network without a gateway address are on-link: they need no route through the gateway.
        # Those of another segment of a routed network are not.
        here = {known[key].segment_id for key in used if key in known}
        others = [s.cidr for key, s in known.items() if key not in used and (s.segment_id in here or not s.segment_id)]
        others = others if row.port_type == device_owners.GATEWAY else []
        addresses = tuple(_address(f, known[f.subnet_id]) for f in fixed if f.subnet_id in known)
        interface = build(m.RouterInterface, row, addresses=addresses, other_subnets=tuple(sorted(others)))
        interfaces[row.router_id].append((row.port_type, interface))
    return interfaces


def _subnets(connection: Connection, network_ids: Ids) -> defaultdict[str, dict[str, NamedRow]]:
    """Rows by network and id, without subnets that wait for a delegated prefix."""
    more = (
        t.subnets.c.id,
        t.subnets.c.network_id,
        t.subnets.c.ipv6_ra_mode.label("ra_mode"),
        t.subnets.c.dns_nameservers,
        t.subnetpools.c.address_scope_id,
    )
    columns = select(m.RouterAddress, t.subnets, *more, t.subnets.c.segment_id)
    statement = columns.outerjoin(t.subnetpools, t.subnetpools.c.id == t.subnets.c.subnetpool_id)
    by_network: defaultdict[str, dict[str, NamedRow]] = defaultdict(dict)
    for row in read_rows(
        connection, statement.where(t.subnets.c.cidr != PROVISIONAL), t.subnets.c.network_id, network_ids
    ):
        by_network[row.network_id][row.id] = row
    return by_network


def _address(fixed: FixedIp, subnet: NamedRow) -> m.RouterAddress:
    nameservers = texts.decode(subnet.dns_nameservers)
    return build(
        m.RouterAddress, subnet, ip_address=fixed.ip_address, subnet_id=fixed.subnet_id, dns_nameservers=nameservers
    )


# --- floating IPs, port forwardings, helpers, delegated prefixes -----------------------------------------------------

_NETWORK_POLICY = (
    sa.select(t.networks.c.qos_policy_id).where(t.networks.c.id == floatingips.c.floating_network_id).scalar_subquery()
)
_FLOATING_POLICY = sa.func.coalesce(floatingips.c.qos_policy_id, _NETWORK_POLICY, "").label("policy")
# Most routers have one gateway, and say nothing of its network in each floating IP.
_FURTHER_NETWORK = sa.case(
    (floatingips.c.floating_network_id == routers.c.gw_network_id, ""), else_=floatingips.c.floating_network_id
)
_FLOATING_IPS = (
    select(m.FloatingIp, floatingips, floatingips.c.router_id, t.ports.c.host.label("port_host"), _FLOATING_POLICY)
    .add_columns(_FURTHER_NETWORK.label("network_id"))
    .outerjoin(t.ports, t.ports.c.id == floatingips.c.port_id)
    .join(routers, routers.c.id == floatingips.c.router_id)
    .where(
        floatingips.c.router_id.is_not(None),
        floatingips.c.port_id.is_not(None),
        floatingips.c.fixed_ip_address.is_not(None),
    )
    .order_by(floatingips.c.id)
)
_RANGES = (port_forwardings.c.external_port_range, port_forwardings.c.internal_port_range)
_PORT_FORWARDINGS = (
    select(m.PortForwarding, port_forwardings, *_RANGES, floatingips.c.floating_ip_address.label("external_ip_address"))
    .add_columns(floatingips.c.router_id, _FLOATING_POLICY, _FURTHER_NETWORK.label("network_id"))
    .join(floatingips, floatingips.c.id == port_forwardings.c.floatingip_id)
    .join(routers, routers.c.id == floatingips.c.router_id)
    .where(floatingips.c.router_id.is_not(None))
    .order_by(port_forwardings.c.id)
)
_HELPERS = sa.select(conntrack_helpers).order_by(conntrack_helpers.c.id)
_NDP_PROXIES = sa.select(ndp_proxies.c.router_id, ndp_proxies.c.id, ndp_proxies.c.ip_address).order_by(ndp_proxies.c.id)
# A subnet's prefix is requested by the router that is its gateway, once that router has an external gateway.
_DELEGATIONS = (
    sa.select(routers.c.id, t.ip_allocations.c.subnet_id, t.subnets.c.cidr)
    .select_from(GATEWAY_ROUTERS)
    .where(
        t.subnets.c.prefix_delegated,
        routers.c.gw_network_id.is_not(None),
        router_ports.c.port_type.in_(device_owners.INTERFACES),
    )
    .order_by(t.subnets.c.id)
)


def _floating_ip(row: NamedRow) -> m.FloatingIp:
    return build(m.FloatingIp, row, host=row.port_host or "", qos_policy_id=row.policy)


def _port_forwarding(row: NamedRow) -> m.PortForwarding:
    ports = {}
    for side, text in (("external", row.external_port_range), ("internal", row.internal_port_range)):
        ports[f"{side}_port_first"], ports[f"{side}_port_last"] = map(int, text.split(":"))
    return build(m.PortForwarding, row, qos_policy_id=row.policy, **ports)


def _delegation(row: NamedRow) -> m.Delegation:
    return m.Delegation(row.subnet_id, "" if is_provisional(row.cidr) else row.cidr)


# Field of a router → the statement for all routers, the column with the router's id, and the value of a row.
_PARTS: Mapping[str, tuple[Selection, Any, Callable[[Any], Any]]] = {
    "floating_ips": (_FLOATING_IPS, floatingips.c.router_id, _floating_ip),
    "port_forwardings": (_PORT_FORWARDINGS, floatingips.c.router_id, _port_forwarding),
    "conntrack_helpers": (_HELPERS, conntrack_helpers.c.router_id, partial(build, m.ConntrackHelper)),
    "delegations": (_DELEGATIONS, routers.c.id, _delegation),
    "ndp_proxies": (_NDP_PROXIES, ndp_proxies.c.router_id, partial(build, m.NdpProxy)),
}

FEED = Feed(
    kinds=(ServedKind(KINDS["router"], HostObjects, source="router", read=read_routers, takes_additions=True),),
    placed=(Placed(of="port", read=read_port_hosts),),
    references=(Reference("dhcp_port", "router", lambda router: (one.network_id for one in router.interfaces)),),
    affects=(
        Affects(records="router", named=("port", "agent"), affected=("network",), find=routers_of),
        Affects(records="router", named=("port", "agent"), find=distributed_routers_of),
        Affects(records="port", affected=("router",), find=shared_ports),
    ),
    statuses={
        "floatingip": ReportedStatus(UP_OR_DOWN),
        "router": ReportedStatus(frozenset({"active", "standby", "unknown"})),
        "subnet": ReportedStatus(check=prefix),
    },
)
