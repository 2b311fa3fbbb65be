"""Reads routers: the whole router, as each host that serves it gets it, in a fixed number of queries.

A change of a router is logged with the router. Its ports, subnets and networks also change on their own; `routers_of` finds
the routers that such a change affects.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents
from neutrino.model.routing import (
    ConntrackHelper,
    Delegation,
    FloatingIp,
    HaMembership,
    PortForwarding,
    Router,
    RouterAddress,
    RouterInterface,
    RouterRoute,
)
from neutrino.model.state import FixedIp
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.dvr import agent_gateway_ports, read_agent_modes, read_local_hosts, render_for_hosts
from neutrino.server.feed.readers.rows import Ids, read_rows, texts
from neutrino.server.feed.records import RouterRecord
from neutrino.server.ipam.delegated import PROVISIONAL, is_provisional
from neutrino.server.l3.routers.port_layout import (
    ACTIVE,
    DVR_INTERFACE,
    GATEWAY,
    HA_INTERFACE,
    HA_PORT,
    INTERFACES,
    SNAT,
)

Placement = tuple[str | None, str | None]  # id of the host's HA port, HA state of the router there
Interfaces = defaultdict[str, list[tuple[str, RouterInterface]]]  # router → port type, interface
_r, _rp, _ra, _p, _a = t.routers.c, t.router_ports.c, t.router_l3_agents.c, t.ports.c, t.agents.c
_n, _s, _pool, _f, _pf = t.networks.c, t.subnets.c, t.subnetpools.c, t.floatingips.c, t.port_forwardings.c
_h, _al = t.conntrack_helpers.c, t.ip_allocations.c

_LOWEST_PRIORITY, _PRIORITIES = 150, 101
_REPLICATED = (HA_INTERFACE, GATEWAY, SNAT)

_routes = msgspec.json.Decoder(tuple[RouterRoute, ...])
_fixed_ips = msgspec.json.Decoder(tuple[FixedIp, ...])


def routers_of(connection: Connection, ports: Ids, networks: Ids, agents: Ids) -> set[str]:
    """The routers with one of these ports, with a port on these networks, or scheduled to these agents."""
    of_networks = sa.select(_rp.router_id).join(t.ports, _p.id == _rp.port_id)
    found = {row.router_id for row in read_rows(connection, sa.select(_rp.router_id), _rp.port_id, ports)}
    found |= {row.router_id for row in read_rows(connection, of_networks, _p.network_id, networks)}
    found |= {row.router_id for row in read_rows(connection, sa.select(_ra.router_id), _ra.agent_id, agents)}
    return found


def replicated_ports(connection: Connection, routers: Ids) -> set[str]:
    """The ports that several hosts of these routers have: the hosts of a router decide who receives them."""
    statement = sa.select(_rp.port_id).where(_rp.port_type.in_((*_REPLICATED, DVR_INTERFACE)))
    return {row.port_id for row in read_rows(connection, statement, _rp.router_id, routers)}


def read_replicas(connection: Connection, ports: Ids) -> dict[str, frozenset[str]]:
    """Ports of HA routers → all hosts of the router, active and standby."""
    statement = (
        sa.select(_rp.port_id, _a.host)
        .join(t.routers, _r.id == _rp.router_id)
        .join(t.router_l3_agents, _ra.router_id == _rp.router_id)
        .join(t.agents, _a.id == _ra.agent_id)
        .where(_r.ha.is_(True), _rp.port_type.in_(_REPLICATED), _a.admin_state_up.is_(True))
    )
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, statement, _rp.port_id, ports):
        hosts[row.port_id].add(row.host)
    return {port_id: frozenset(found) for port_id, found in hosts.items()}


def read_routers(connection: Connection, ids: Ids) -> Iterator[tuple[str, RouterRecord]]:
    placements = _placements(connection, ids)
    modes = read_agent_modes(connection)
    local = read_local_hosts(connection, ids, modes)
    served = placements.keys() | local.keys()
    if not served:
        return
    wanted = ids if ids is None else [router_id for router_id in ids if router_id in served]
    ports = _router_ports(connection, wanted)
    delegations = _delegations(connection, wanted)
    gateways = _agent_gateways(connection, ports) if local else {}
    floating, forwardings = _floating_ips(connection, wanted), _port_forwardings(connection, wanted)
    helpers = _conntrack_helpers(connection, wanted)
    columns = (_r.id, _r.name, _r.project_id, _r.admin_state_up, _r.distributed, _r.ha, _r.enable_snat, _r.routes)
    more = (_r.revision_number, _r.ha_vr_id)
    for row in read_rows(connection, sa.select(*columns, *more), _r.id, wanted):
        if row.id not in served:
            continue
        own = ports[row.id]
        base = Router(
            id=row.id,
            revision=row.revision_number,
            name=row.name,
            project_id=row.project_id,
            admin_state_up=bool(row.admin_state_up),
            distributed=bool(row.distributed),
            gateway=next((port for kind, port in own if kind == GATEWAY), None),
            enable_snat=bool(row.enable_snat),
            interfaces=tuple(port for kind, port in own if kind in INTERFACES),
            snat_interfaces=tuple(port for kind, port in own if kind == SNAT),
            routes=_routes.decode(row.routes),
            floating_ips=tuple(floating[row.id]),
            port_forwardings=tuple(forwardings[row.id]),
            conntrack_helpers=tuple(helpers[row.id]),
            delegations=tuple(delegations[row.id]),
        )
        ha_ports = {port.id: port for kind, port in own if kind == HA_PORT}
        central = dict(_by_host(base, row, placements.get(row.id, {}), ha_ports))
        if not base.distributed:
            yield row.id, RouterRecord(central)
            continue
        outside = gateways.get(base.gateway.network_id, {}) if base.gateway is not None else {}
        by_host = dict(render_for_hosts(base, local.get(row.id, frozenset()), frozenset(central), modes, outside))
        for host, router in central.items() if base.gateway is not None else ():
            by_host[host] = msgspec.structs.replace(by_host[host], ha=router.ha)
        yield row.id, RouterRecord(by_host)


def _by_host(
    base: Router, row: Any, placements: Mapping[str, Placement], ha_ports: Mapping[str, RouterInterface]
) -> Iterator[tuple[str, Router]]:
    """The router as the hosts that it is scheduled to get it; those of an HA router differ in their HA port."""
    active = next((host for host, (_, state) in placements.items() if state == ACTIVE), "")
    for host, (ha_port_id, _) in placements.items():
        if not row.ha:
            yield host, base
            continue
        interface = ha_ports.get(ha_port_id or "")
        if interface is None or row.ha_vr_id is None:
            continue  # without an HA port the host would become active beside the others
        membership = HaMembership(
            interface=interface, vr_id=row.ha_vr_id, priority=_priority(interface.id), active_host=active
        )
        yield host, msgspec.structs.replace(base, ha=membership)


def _priority(port_id: str) -> int:
    """VRRP priority of a host, constant while it has the router."""
    # High, because a standby waits (256 - priority) / 256 s longer before it takes over; different per host, so that two
    # do not take over at the same moment.
    return _LOWEST_PRIORITY + zlib.crc32(port_id.encode()) % _PRIORITIES


def _placements(connection: Connection, ids: Ids) -> dict[str, dict[str, Placement]]:
    """Router → the hosts whose agents it is scheduled to; agents with admin_state_up=False do not serve it."""
    statement = (
        sa.select(_ra.router_id, _ra.ha_port_id, _ra.ha_state, _a.host)
        .join(t.agents, _a.id == _ra.agent_id)
        .where(_a.agent_type == agents.L3, _a.admin_state_up.is_(True))
        .order_by(_a.host)
    )
    found: defaultdict[str, dict[str, Placement]] = defaultdict(dict)
    for row in read_rows(connection, statement, _ra.router_id, ids):
        found[row.router_id][row.host] = row.ha_port_id, row.ha_state
    return dict(found)


# --- ports ------------------------------------------------------------------------------------------------------------


def _router_ports(connection: Connection, ids: Ids) -> Interfaces:
    columns = (_rp.router_id, _rp.port_type, _p.id, _p.network_id, _p.mac_address, _p.admin_state_up, _p.fixed_ips)
    statement = (
        sa.select(*columns, _n.mtu)
        .join(t.ports, _p.id == _rp.port_id)
        .join(t.networks, _n.id == _p.network_id)
        .order_by(_p.id)
    )
    return _interfaces(connection, list(read_rows(connection, statement, _rp.router_id, ids)))


def _agent_gateways(connection: Connection, ports: Interfaces) -> dict[str, dict[str, RouterInterface]]:
    """External network → host → the agent gateway port by which the host's floating IPs reach that network."""
    networks = {port.network_id for own in ports.values() for kind, port in own if kind == GATEWAY}
    locations = agent_gateway_ports(connection, networks)
    statement = (
        sa.select(
            *(_p.id, _p.network_id, _p.mac_address, _p.admin_state_up, _p.fixed_ips, _n.mtu),
            *(sa.literal("").label("router_id"), sa.literal(GATEWAY).label("port_type")),
        )
        .join(t.networks, _n.id == _p.network_id)
        .order_by(_p.id)
    )
    found: defaultdict[str, dict[str, RouterInterface]] = defaultdict(dict)
    for _, port in _interfaces(connection, list(read_rows(connection, statement, _p.id, sorted(locations))))[""]:
        network_id, host = locations[port.id]
        found[network_id].setdefault(host, port)
    return found


def _interfaces(connection: Connection, rows: Sequence[Any]) -> Interfaces:
    subnets = _subnets(connection, sorted({row.network_id for row in rows}))
    found: Interfaces = defaultdict(list)
    for row in rows:
        known, fixed = subnets[row.network_id], _fixed_ips.decode(row.fixed_ips)
        used = {each.subnet_id for each in fixed}
        # Subnets of the external network without a gateway address are on-link: they need no route through the gateway.
        others = (s.cidr for key, s in known.items() if key not in used) if row.port_type == GATEWAY else ()
        interface = RouterInterface(
            id=row.id,
            network_id=row.network_id,
            mac_address=row.mac_address,
            mtu=row.mtu,
            admin_state_up=bool(row.admin_state_up),
            addresses=tuple(_address(f.ip_address, known[f.subnet_id]) for f in fixed if f.subnet_id in known),
            other_subnets=tuple(sorted(others)),
        )
        found[row.router_id].append((row.port_type, interface))
    return found


def _subnets(connection: Connection, network_ids: Ids) -> defaultdict[str, dict[str, Any]]:
    """Rows by network and id, without subnets that wait for a delegated prefix."""
    columns = (_s.id, _s.network_id, _s.cidr, _s.gateway_ip, _s.ipv6_ra_mode, _s.dns_nameservers)
    statement = sa.select(*columns, _pool.address_scope_id).outerjoin(t.subnetpools, _pool.id == _s.subnetpool_id)
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in read_rows(connection, statement.where(_s.cidr != PROVISIONAL), _s.network_id, network_ids):
        found[row.network_id][row.id] = row
    return found


def _address(ip_address: str, subnet: Any) -> RouterAddress:
    return RouterAddress(
        ip_address=ip_address,
        subnet_id=subnet.id,
        cidr=subnet.cidr,
        gateway_ip=subnet.gateway_ip,
        ra_mode=subnet.ipv6_ra_mode,
        dns_nameservers=texts.decode(subnet.dns_nameservers),
        address_scope_id=subnet.address_scope_id,
    )


# --- floating IPs, port forwardings, helpers, delegated prefixes -----------------------------------------------------


def _floating_ips(connection: Connection, ids: Ids) -> defaultdict[str, list[FloatingIp]]:
    columns = (_f.id, _f.router_id, _f.floating_ip_address, _f.fixed_ip_address, _f.port_id, _f.revision_number)
    statement = sa.select(*columns, _p.host).outerjoin(t.ports, _p.id == _f.port_id).where(_f.router_id.is_not(None))
    found: defaultdict[str, list[FloatingIp]] = defaultdict(list)
    for row in read_rows(connection, statement.order_by(_f.id), _f.router_id, ids):
        if row.port_id is not None and row.fixed_ip_address is not None:
            found[row.router_id].append(
                FloatingIp(
                    id=row.id,
                    floating_ip_address=row.floating_ip_address,
                    fixed_ip_address=row.fixed_ip_address,
                    port_id=row.port_id,
                    host=row.host or "",
                    revision=row.revision_number,
                )
            )
    return found


def _port_forwardings(connection: Connection, ids: Ids) -> defaultdict[str, list[PortForwarding]]:
    columns = sa.select(t.port_forwardings, _f.router_id, _f.floating_ip_address)
    statement = columns.join(t.floatingips, _f.id == _pf.floatingip_id).where(_f.router_id.is_not(None))
    found: defaultdict[str, list[PortForwarding]] = defaultdict(list)
    for row in read_rows(connection, statement.order_by(_pf.id), _f.router_id, ids):
        external, internal = _range(row.external_port_range), _range(row.internal_port_range)
        found[row.router_id].append(
            PortForwarding(
                id=row.id,
                protocol=row.protocol,
                external_ip_address=row.floating_ip_address,
                external_port_first=external[0],
                external_port_last=external[1],
                internal_ip_address=row.internal_ip_address,
                internal_port_first=internal[0],
                internal_port_last=internal[1],
            )
        )
    return found


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    return int(first), int(last or first)


def _conntrack_helpers(connection: Connection, ids: Ids) -> defaultdict[str, list[ConntrackHelper]]:
    found: defaultdict[str, list[ConntrackHelper]] = defaultdict(list)
    for row in read_rows(connection, sa.select(t.conntrack_helpers).order_by(_h.id), _h.router_id, ids):
        found[row.router_id].append(ConntrackHelper(row.protocol, row.port, row.helper))
    return found


# A subnet's prefix is requested by the router that is its gateway, once that router has an external gateway.
_DELEGATIONS = (
    sa.select(_r.id, _al.subnet_id, _s.cidr)
    .select_from(
        t.subnets.join(t.ip_allocations, sa.and_(_al.subnet_id == _s.id, _al.ip_address == _s.gateway_ip))
        .join(t.router_ports, _rp.port_id == _al.port_id)
        .join(t.routers, _r.id == _rp.router_id)
    )
    .where(_s.prefix_delegated, _r.gw_network_id.is_not(None), _rp.port_type.in_(INTERFACES))
    .order_by(_s.id)
)


def _delegations(connection: Connection, ids: Ids) -> defaultdict[str, list[Delegation]]:
    found: defaultdict[str, list[Delegation]] = defaultdict(list)
    for row in read_rows(connection, _DELEGATIONS, _r.id, ids):
        found[row.id].append(Delegation(row.subnet_id, "" if is_provisional(row.cidr) else row.cidr))
    return found
