"""Reading routers for the feed: whole, as each host that serves one gets it, in a fixed number of queries.

A router's row is noted in the change log whenever anything of the router changes; what it is connected to (ports,
subnets, networks) may also change by itself, so `routers_of` says which routers such a change concerns.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.routing import (
    ConntrackHelper,
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
from neutrino.server.feed.delegation_reader import read_delegations
from neutrino.server.feed.dvr_reader import agent_gateway_ports, read_modes, read_near, render_for_hosts
from neutrino.server.feed.records import RouterRecord
from neutrino.server.feed.rows import Ids, read_rows
from neutrino.server.ipam.delegated import PROVISIONAL
from neutrino.server.l3.routers.port_layout import (
    ACTIVE,
    DVR_INTERFACE,
    GATEWAY,
    HA_INTERFACE,
    HA_PORT,
    INTERFACES,
    SNAT,
)

Serving = tuple[str | None, str | None]  # a host's port for HA, and whether it is active
_r, _rp, _ra, _p = t.routers.c, t.router_ports.c, t.router_l3_agents.c, t.ports.c
_n, _s, _pool, _f, _pf, _a = (
    t.networks.c,
    t.subnets.c,
    t.subnetpools.c,
    t.floatingips.c,
    t.port_forwardings.c,
    t.agents.c,
)
_h = t.conntrack_helpers.c

_LOWEST_PRIORITY, _PRIORITIES = 150, 101
_REPLICATED = (HA_INTERFACE, GATEWAY, SNAT)

_routes = msgspec.json.Decoder(tuple[RouterRoute, ...])
_fixed_ips = msgspec.json.Decoder(tuple[FixedIp, ...])
_texts = msgspec.json.Decoder(tuple[str, ...])


def routers_of(connection: Connection, ports: Ids, networks: Ids, agents: Ids) -> set[str]:
    """The routers that these are part of."""
    of_ports = sa.select(_rp.router_id)
    of_networks = sa.select(_rp.router_id).join(t.ports, _p.id == _rp.port_id)
    found = {row.router_id for row in read_rows(connection, of_ports, _rp.port_id, ports)}
    found |= {row.router_id for row in read_rows(connection, of_networks, _p.network_id, networks)}
    found |= {row.router_id for row in read_rows(connection, sa.select(_ra.router_id), _ra.agent_id, agents)}
    return found


def replicated_ports(connection: Connection, routers: Ids) -> set[str]:
    """The ports that several hosts of a router have, or did: a change of these hosts is one of the ports."""
    statement = sa.select(_rp.port_id).where(_rp.port_type.in_((*_REPLICATED, DVR_INTERFACE)))
    return {row.port_id for row in read_rows(connection, statement, _rp.router_id, routers)}


def read_replicas(connection: Connection, ports: Ids) -> dict[str, frozenset[str]]:
    """These ports of HA routers, each with the hosts that hold it ready."""
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
    return {port_id: frozenset(several) for port_id, several in hosts.items()}


def read_routers(connection: Connection, ids: Ids) -> Iterator[tuple[str, RouterRecord]]:
    serving = _serving(connection, ids)
    modes = read_modes(connection)
    near = read_near(connection, ids, modes)
    there = serving.keys() | near.keys()
    wanted = ids if ids is None else [router_id for router_id in ids if router_id in there]
    if not there:
        return
    ports = _router_ports(connection, wanted)
    delegations = read_delegations(connection, wanted)
    outside = _agent_gateways(connection, ports) if near else {}
    floating, forwarded = _floating_ips(connection, wanted)
    helpers = _helpers(connection, wanted)
    columns = (_r.id, _r.name, _r.project_id, _r.admin_state_up, _r.distributed, _r.ha, _r.enable_snat, _r.routes)
    more = (_r.revision_number, _r.ha_vr_id)
    for row in read_rows(connection, sa.select(*columns, *more), _r.id, wanted):
        if row.id not in there:
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
            port_forwardings=tuple(forwarded[row.id]),
            conntrack_helpers=tuple(helpers[row.id]),
            delegations=tuple(delegations.get(row.id, ())),
        )
        meeting = {port.id: port for kind, port in own if kind == HA_PORT}
        central = dict(_by_host(base, row, serving.get(row.id, {}), meeting))
        if not base.distributed:
            yield row.id, RouterRecord(central)
            continue
        gateways = outside.get(base.gateway.network_id, {}) if base.gateway is not None else {}
        by_host = dict(render_for_hosts(base, near.get(row.id, frozenset()), frozenset(central), modes, gateways))
        for host, router in central.items() if base.gateway is not None else ():
            by_host[host] = msgspec.structs.replace(by_host[host], ha=router.ha)
        yield row.id, RouterRecord(by_host)


def _by_host(
    base: Router, row: Any, serving: Mapping[str, Serving], meeting: Mapping[str, RouterInterface]
) -> Iterator[tuple[str, Router]]:
    """Hosts of an HA router differ in the port by which they hear each other."""
    active = next((host for host, (_, state) in serving.items() if state == ACTIVE), "")
    for host, (ha_port_id, _) in serving.items():
        interface = meeting.get(ha_port_id or "")
        if not row.ha or interface is None or row.ha_vr_id is None:
            if not row.ha:
                yield host, base
            continue
        membership = HaMembership(
            interface=interface, vr_id=row.ha_vr_id, priority=_priority(interface.id), active_host=active
        )
        yield host, msgspec.structs.replace(base, ha=membership)


def _priority(port_id: str) -> int:
    """Among the hosts of an HA router. High, as they wait (256 - priority) / 256 seconds more before they take over, and
    different, so that they do not do so at the same moment; the same for a host as long as it has the router."""
    return _LOWEST_PRIORITY + zlib.crc32(port_id.encode()) % _PRIORITIES


def _serving(connection: Connection, ids: Ids) -> dict[str, dict[str, Serving]]:
    """Router, to the hosts whose agents serve it, with their ports for HA. An agent that is set down serves none."""
    statement = (
        sa.select(_ra.router_id, _ra.ha_port_id, _ra.ha_state, _a.host)
        .join(t.agents, _a.id == _ra.agent_id)
        .where(_a.agent_type == words.L3, _a.admin_state_up.is_(True))
        .order_by(_a.host)
    )
    found: defaultdict[str, dict[str, Serving]] = defaultdict(dict)
    for row in read_rows(connection, statement, _ra.router_id, ids):
        found[row.router_id][row.host] = row.ha_port_id, row.ha_state
    return dict(found)


# --- ports ---


def _router_ports(connection: Connection, ids: Ids) -> defaultdict[str, list[tuple[str, RouterInterface]]]:
    statement = (
        sa.select(
            *(_rp.router_id, _rp.port_type, _p.id, _p.network_id, _p.mac_address, _p.admin_state_up, _p.fixed_ips),
            _n.mtu,
        )
        .join(t.ports, _p.id == _rp.port_id)
        .join(t.networks, _n.id == _p.network_id)
        .order_by(_p.id)
    )
    return _interfaces(connection, list(read_rows(connection, statement, _rp.router_id, ids)))


def _agent_gateways(
    connection: Connection, ports: Mapping[str, list[tuple[str, RouterInterface]]]
) -> dict[str, dict[str, RouterInterface]]:
    """The hosts' own ports on the networks of these routers' gateways, by network and host."""
    networks = {port.network_id for several in ports.values() for kind, port in several if kind == GATEWAY}
    places = agent_gateway_ports(connection, networks)
    statement = (
        sa.select(
            *(_p.id, _p.network_id, _p.mac_address, _p.admin_state_up, _p.fixed_ips, _n.mtu),
            *(sa.literal("").label("router_id"), sa.literal(GATEWAY).label("port_type")),
        )
        .join(t.networks, _n.id == _p.network_id)
        .order_by(_p.id)
    )
    found: defaultdict[str, dict[str, RouterInterface]] = defaultdict(dict)
    for _, port in _interfaces(connection, list(read_rows(connection, statement, _p.id, sorted(places))))[""]:
        network_id, host = places[port.id]
        found[network_id].setdefault(host, port)
    return found


def _interfaces(connection: Connection, rows: Sequence[Any]) -> defaultdict[str, list[tuple[str, RouterInterface]]]:
    """Rows of ports as routers have them, by router, each with what it is for."""
    subnets = _subnets(connection, sorted({row.network_id for row in rows}))
    found: defaultdict[str, list[tuple[str, RouterInterface]]] = defaultdict(list)
    for row in rows:
        known = subnets[row.network_id]
        fixed = _fixed_ips.decode(row.fixed_ips)
        addresses = tuple(_address(each.ip_address, known[each.subnet_id]) for each in fixed if each.subnet_id in known)
        used = {each.subnet_id for each in fixed}
        others = (
            tuple(sorted(s.cidr for key, s in known.items() if key not in used)) if row.port_type == GATEWAY else ()
        )
        interface = RouterInterface(
            id=row.id,
            network_id=row.network_id,
            mac_address=row.mac_address,
            mtu=row.mtu,
            admin_state_up=bool(row.admin_state_up),
            addresses=addresses,
            other_subnets=others,
        )
        found[row.router_id].append((row.port_type, interface))
    return found


def _subnets(connection: Connection, network_ids: Ids) -> defaultdict[str, dict[str, Any]]:
    columns = (
        _s.id,
        _s.network_id,
        _s.cidr,
        _s.gateway_ip,
        _s.ipv6_ra_mode,
        _s.dns_nameservers,
        _pool.address_scope_id,
    )
    statement = sa.select(*columns).outerjoin(t.subnetpools, _pool.id == _s.subnetpool_id)
    statement = statement.where(_s.cidr != PROVISIONAL)
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in read_rows(connection, statement, _s.network_id, network_ids):
        found[row.network_id][row.id] = row
    return found


def _address(ip_address: str, subnet: Any) -> RouterAddress:
    return RouterAddress(
        ip_address=ip_address,
        subnet_id=subnet.id,
        cidr=subnet.cidr,
        gateway_ip=subnet.gateway_ip,
        ra_mode=subnet.ipv6_ra_mode,
        dns_nameservers=_texts.decode(subnet.dns_nameservers),
        address_scope_id=subnet.address_scope_id,
    )


# --- what stands in front of ports ---


def _floating_ips(
    connection: Connection, ids: Ids
) -> tuple[defaultdict[str, list[FloatingIp]], defaultdict[str, list[PortForwarding]]]:
    floating: defaultdict[str, list[FloatingIp]] = defaultdict(list)
    forwarded: defaultdict[str, list[PortForwarding]] = defaultdict(list)
    columns = (
        *(_f.id, _f.router_id, _f.floating_ip_address, _f.fixed_ip_address, _f.port_id, _f.revision_number),
        _p.host,
    )
    statement = sa.select(*columns).outerjoin(t.ports, _p.id == _f.port_id).where(_f.router_id.is_not(None))
    for row in read_rows(connection, statement.order_by(_f.id), _f.router_id, ids):
        if row.port_id is not None and row.fixed_ip_address is not None:
            floating[row.router_id].append(
                FloatingIp(
                    id=row.id,
                    floating_ip_address=row.floating_ip_address,
                    fixed_ip_address=row.fixed_ip_address,
                    port_id=row.port_id,
                    host=row.host or "",
                    revision=row.revision_number,
                )
            )
    statement = sa.select(t.port_forwardings, _f.router_id, _f.floating_ip_address).join(
        t.floatingips, _f.id == _pf.floatingip_id
    )
    for row in read_rows(connection, statement.where(_f.router_id.is_not(None)).order_by(_pf.id), _f.router_id, ids):
        outside, inside = _range(row.external_port_range), _range(row.internal_port_range)
        forwarded[row.router_id].append(
            PortForwarding(
                id=row.id,
                protocol=row.protocol,
                external_ip_address=row.floating_ip_address,
                external_port_first=outside[0],
                external_port_last=outside[1],
                internal_ip_address=row.internal_ip_address,
                internal_port_first=inside[0],
                internal_port_last=inside[1],
            )
        )
    return floating, forwarded


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    return int(first), int(last or first)


def _helpers(connection: Connection, ids: Ids) -> defaultdict[str, list[ConntrackHelper]]:
    found: defaultdict[str, list[ConntrackHelper]] = defaultdict(list)
    for row in read_rows(connection, sa.select(t.conntrack_helpers).order_by(_h.id), _h.router_id, ids):
        found[row.router_id].append(ConntrackHelper(row.protocol, row.port, row.helper))
    return found
