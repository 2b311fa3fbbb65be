"""Reads the objects of one trace: a bounded number of queries, whatever the size of the cloud.

From the networks of sender and receiver, routers and the networks behind them are followed, round by round. An external
network is read and not followed: it may have the routers of all projects. What is on it is found by its address.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model import state as m
from neutrino.server.db import tables as t
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.readers import l2
from neutrino.server.feed.readers.rows import MAX_IDS, build, decode_fixed_ips, read_ids, read_rows, select, texts
from neutrino.server.hosts.registry import Registry
from neutrino.server.hosts.serving import disabled_agents_serve
from neutrino.server.trace.feature_part import Reached, ReadTracePart
from neutrino.server.trace.routing import Routing
from neutrino.server.trace.values import (
    Named,
    Snapshot,
    TracedHost,
    TracedPort,
    TracedRouter,
)

MAX_ROUNDS: Final = 4  # routers one behind the other
MAX_ROUTERS: Final = 64
MAX_PAIRS: Final = 1000  # ports with allowed address pairs on the networks of a trace
MAX_FREE: Final = 20  # ports without port security there, which may use any address: that there are any is what counts
_b, _blocks, _psg = t.port_bindings.c, t.provisioning_blocks.c, t.port_security_groups.c
_pairs = msgspec.json.Decoder(tuple[m.AddressPair, ...])
_decode = msgspec.json.decode


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Where a trace begins and ends."""

    port_ids: frozenset[str] = frozenset()
    network_ids: frozenset[str] = frozenset()
    router_ids: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()


@dataclass
class _Found:
    """Ids and addresses that are found on the way."""

    ports: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    external: set[str] = field(default_factory=set)
    routers: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)


def read_snapshot(
    connection: Connection,
    registry: Registry,
    seeds: Seeds,
    routing: Routing,
    parts: Sequence[ReadTracePart] = (),
) -> Snapshot:
    """`parts`: of features in a trace."""
    found = _Found(set(seeds.port_ids), set(seeds.network_ids), addresses=set(seeds.addresses))
    found.routers |= seeds.router_ids
    found.networks |= read_ids(connection, sa.select(t.ports.c.network_id), t.ports.c.id, found.ports)
    # A floating IP that the packet is for, or that a port has: its router may be another than the sender's.
    floating = dict(routing.floating_ips(connection, addresses=found.addresses, port_ids=found.ports))
    found.routers |= {fip.router_id for fip in floating.values() if fip.router_id}
    _follow(connection, routing, found)
    routers = routing.read(connection, found.routers)
    networks = {key: record.network for key, record in l2.read_networks(connection, sorted(found.networks))}
    found.addresses |= {route.nexthop for one in routers.values() for route in one.router.routes}
    found.addresses |= {peer for one in routers.values() for peer in one.router.peer_addresses}
    subnets = [subnet for network in networks.values() for subnet in network.subnets]
    found.addresses |= {subnet.gateway_ip for subnet in subnets if subnet.gateway_ip}
    found.addresses |= {hop for subnet in subnets for _, hop in subnet.host_routes}
    found.addresses |= {fip.fixed_ip_address for fip in floating.values() if fip.fixed_ip_address}
    forwardings = routing.forwardings(connection, floating)
    found.addresses |= {one.internal_ip_address for one in forwardings.values()}
    by_address = _ports_with(connection, found)
    new = set(routing.routers_of(connection, by_address).values()) - found.routers
    if new:  # the gateway of another router on an external network: the next hop of a route, or the peer of a tunnel
        found.routers |= new
        _follow(connection, routing, found)
        routers = routing.read(connection, found.routers)
        networks = {key: record.network for key, record in l2.read_networks(connection, sorted(found.networks))}
        by_address = _ports_with(connection, found)  # on the networks behind it, too
    floating |= routing.floating_ips(connection, router_ids=found.routers)
    reached = Reached(found.networks - found.external, found.addresses, lambda: _senders(connection, found, routers))
    of_features = tuple(read(connection, reached) for read in parts)
    ports = _ports(connection, routing, found, by_address | {key for part in of_features for key in part.port_ids})
    hosts = _hosts(connection, registry, _host_names(ports.values(), routers.values()))
    return _with_rules(
        connection,
        found,
        Snapshot(
            ports=ports,
            networks=networks,
            routers=routers,
            floating_ips=floating,
            forwardings=forwardings,
            parts=of_features,
            hosts=hosts,
        ),
    )


def newest_change(connection: Connection, object_ids: Collection[str]) -> int:
    """The position of the newest change of these objects in the change log; 0: none is known."""
    c = t.changes.c
    newest = 0
    statement = sa.select(c.position)
    for row in read_rows(connection, statement, c.object_id, sorted(object_ids)):
        # A change without a position was committed a moment ago: no host can have it yet.
        newest = max(newest, row.position if row.position is not None else 2**62)
    return newest


# --- routers and networks ---------------------------------------------------------------------------------------------


def _follow(connection: Connection, routing: Routing, found: _Found) -> None:
    external = sa.select(t.networks.c.id).where(t.networks.c.external.is_(True))
    done: set[str] = set()
    for _ in range(MAX_ROUNDS):
        found.networks |= routing.networks_of(connection, found.routers)
        found.external |= read_ids(connection, external, t.networks.c.id, sorted(found.networks))
        new = found.networks - found.external - done
        if not new or len(found.routers) >= MAX_ROUTERS:
            return
        done |= new
        routers = sorted(routing.routers_on(connection, new) - found.routers)
        found.routers |= set(routers[: MAX_ROUTERS - len(found.routers)])
    # Of the routers of the last round too: a path that reaches them ends on a network that is known.
    found.networks |= routing.networks_of(connection, found.routers)
    found.external |= read_ids(connection, external, t.networks.c.id, sorted(found.networks))


def _senders(connection: Connection, found: _Found, routers: Mapping[str, TracedRouter]) -> set[str]:
    """The hosts that may send the packet."""
    return read_ids(connection, sa.select(t.ports.c.host), t.ports.c.id, sorted(found.ports)) | _host_names(
        (), routers.values()
    )


# --- ports ------------------------------------------------------------------------------------------------------------

_PORTS = select(
    m.Port,
    t.ports,
    *(t.ports.c.name, t.ports.c.project_id, t.ports.c.status),
    *(t.ports.c.fixed_ips, t.ports.c.allowed_address_pairs, t.ports.c.security_groups),
)


def _ports_with(connection: Connection, found: _Found) -> set[str]:
    """The ports of these networks that have one of the addresses."""
    statement = sa.select(t.ip_allocations.c.port_id).where(t.ip_allocations.c.network_id.in_(sorted(found.networks)))
    return (
        read_ids(connection, statement, t.ip_allocations.c.ip_address, sorted(found.addresses))
        if found.networks
        else set()
    )


def _ports(
    connection: Connection, routing: Routing, found: _Found, by_address: Collection[str]
) -> dict[str, TracedPort]:
    ids = found.ports | set(by_address)
    ids |= routing.ports_of(connection, found.routers)
    internal = sorted(found.networks - found.external)
    servers = sa.select(t.ports.c.id).where(t.ports.c.device_owner == "network:dhcp")
    ids |= read_ids(connection, servers, t.ports.c.network_id, internal)
    pairs = (
        sa.select(t.ports.c.id).where(t.ports.c.allowed_address_pairs != "[]").order_by(t.ports.c.id).limit(MAX_PAIRS)
    )
    ids |= read_ids(connection, pairs, t.ports.c.network_id, internal)
    unfiltered = sa.and_(t.ports.c.port_security_enabled.is_(False), t.ports.c.host != "")
    unfiltered = sa.and_(unfiltered, t.ports.c.device_owner.not_like("network:%"))
    free = sa.select(t.ports.c.id).where(unfiltered).order_by(t.ports.c.id).limit(MAX_FREE)
    ids |= read_ids(connection, free, t.ports.c.network_id, internal)
    ordered = sorted(ids)
    bindings = {
        row.port_id: row
        for row in read_rows(
            connection, sa.select(_b.port_id, _b.levels).where(_b.status == "ACTIVE"), _b.port_id, ordered
        )
    }
    blocks: dict[str, set[str]] = {}
    for row in read_rows(connection, sa.select(_blocks.port_id, _blocks.component), _blocks.port_id, ordered):
        blocks.setdefault(row.port_id, set()).add(row.component)
    routers = routing.routers_of(connection, ordered)
    rows = read_rows(connection, _PORTS, t.ports.c.id, ordered)
    return {
        row.id: _port(row, bindings.get(row.id), blocks.get(row.id, set()), routers.get(row.id, "")) for row in rows
    }


def _port(row: NamedRow, binding: NamedRow | None, blocks: Collection[str], router_id: str) -> TracedPort:
    levels = _decode(binding.levels) if binding is not None else []
    port = build(
        m.Port,
        row,
        fixed_ips=decode_fixed_ips(row.fixed_ips),
        allowed_address_pairs=_pairs.decode(row.allowed_address_pairs),
        security_groups=texts.decode(row.security_groups),
        qos_policy_id=row.qos_policy_id or "",
        segment_id=str(levels[-1]["segment_id"]) if levels else "",
    )
    return TracedPort(
        port=port,
        name=row.name,
        project_id=row.project_id,
        status=row.status,
        blocks=frozenset(blocks),
        router_id=router_id,
    )


# --- rules ------------------------------------------------------------------------------------------------------------


def _with_rules(connection: Connection, found: _Found, base: Snapshot) -> Snapshot:
    """The snapshot with security groups, names, and the rules of features."""
    ports = [port for port in base.ports.values() if not port.router_id]
    groups = dict(l2.read_security_groups(connection, sorted({g for port in ports for g in port.port.security_groups})))
    remote = {rule.remote_group_id for group in groups.values() for rule in group.rules if rule.remote_group_id}
    # The addresses that the packet can have: of sender and receiver, and by translation those of routers and floating IPs.
    # Other ports' addresses are many, and no rule compares them with this packet.
    addresses = found.addresses | {f.ip_address for p in base.ports.values() if p.router_id for f in p.port.fixed_ips}
    for fip in base.floating_ips.values():
        addresses |= {fip.floating_ip_address, fip.fixed_ip_address} - {""}
    subnets = {subnet.id for network in base.networks.values() for subnet in network.subnets}
    named = dict(read_names(connection, t.security_groups, groups))
    named |= read_names(connection, t.subnets, subnets)
    snapshot = replace(
        base,
        security_groups=groups,
        members=_members(connection, sorted(remote), sorted(addresses)),
        named=named,
    )
    return replace(snapshot, parts=tuple(part.with_rules(connection, snapshot) for part in snapshot.parts))


def _members(
    connection: Connection, groups: Collection[str], addresses: Sequence[str]
) -> dict[str, frozenset[m.Member]]:
    """The members of remote groups, of which only those with one of the addresses are read: a group may be large."""
    if not groups:
        return {}
    members = sa.select(
        _psg.security_group_id, t.ports.c.mac_address, t.ports.c.fixed_ips, t.ports.c.allowed_address_pairs
    )
    members = members.join(t.ports, t.ports.c.id == _psg.port_id)
    statements = [members.where(t.ports.c.allowed_address_pairs != "[]")]
    with_address = members.join(t.ip_allocations, t.ip_allocations.c.port_id == t.ports.c.id)
    # In batches: databases bound the size of a statement.
    for start in range(0, len(addresses), MAX_IDS):
        statements.append(with_address.where(t.ip_allocations.c.ip_address.in_(addresses[start : start + MAX_IDS])))
    found: dict[str, set[m.Member]] = {}
    rows = (row for statement in statements for row in read_rows(connection, statement, _psg.security_group_id, groups))
    for row in rows:
        several = found.setdefault(row.security_group_id, set())
        several |= {m.Member(f.ip_address, row.mac_address) for f in decode_fixed_ips(row.fixed_ips)}
        several |= {m.Member(p.ip_address, p.mac_address) for p in _pairs.decode(row.allowed_address_pairs)}
    return {group: frozenset(members) for group, members in found.items()}


def read_names(connection: Connection, table: sa.Table, ids: Collection[str]) -> Iterator[tuple[str, Named]]:
    statement = sa.select(table.c.id, table.c.name, table.c.project_id)
    for row in read_rows(connection, statement, table.c.id, sorted(ids)):
        yield row.id, Named(row.name, row.project_id)


# --- hosts ------------------------------------------------------------------------------------------------------------


def _host_names(ports: Iterable[TracedPort], routers: Iterable[TracedRouter]) -> set[str]:
    names = {port.port.host for port in ports if port.port.host}
    for router in routers:
        names |= {placement.host for placement in router.placements} | router.local_hosts
        names |= {fip.host for fip in router.router.floating_ips if fip.host}
    return names


def _hosts(connection: Connection, registry: Registry, names: Collection[str]) -> dict[str, TracedHost]:
    statement = sa.select(
        *(t.agents.c.host, t.agents.c.agent_type, t.agents.c.configurations, t.agents.c.heartbeat_timestamp),
        t.agents.c.admin_state_up,
    )
    agents: dict[str, dict[str, NamedRow]] = {}
    for row in read_rows(connection, statement, t.agents.c.host, sorted(names)):
        agents.setdefault(row.host, {})[row.agent_type] = row
    all_serve = disabled_agents_serve(connection)
    return {name: _host(name, registry, agents.get(name, {}), all_serve) for name in names}


def _host(name: str, registry: Registry, agents: Mapping[str, NamedRow], all_serve: bool) -> TracedHost:
    l2_agent, l3_agent = agents.get(words.OVS), agents.get(words.L3)
    reported = _decode(l2_agent.configurations) if l2_agent is not None else {}
    routing = _decode(l3_agent.configurations) if l3_agent is not None else {}
    mappings, types = reported.get(words.BRIDGE_MAPPINGS), reported.get(words.TUNNEL_TYPES)
    behind = reported.get(words.FEED_BEHIND)
    return TracedHost(
        name=name,
        alive=l2_agent is not None and registry.alive(l2_agent._asdict()),
        l3_alive=l3_agent is not None and registry.alive(l3_agent._asdict()),
        l3_disabled=l3_agent is not None and not (l3_agent.admin_state_up or all_serve),
        last_report=l2_agent.heartbeat_timestamp if l2_agent is not None else "",
        tunneling_ip=str(reported.get(words.TUNNELING_IP) or ""),
        tunnel_types=tuple(map(str, types)) if isinstance(types, list) else (),
        physical_networks=tuple(map(str, mappings)) if isinstance(mappings, dict) else (),
        agent_mode=str(routing.get(words.AGENT_MODE) or ""),
        dataplane=str(reported.get(words.DATAPLANE) or "up"),
        behind=behind if isinstance(behind, int) else 0,
    )
