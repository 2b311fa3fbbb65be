"""Reads the objects of the L2 and DHCP roles: networks, ports, security groups, and agents as other hosts see them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from sys import intern

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model import sriov
from neutrino.model import state as m
from neutrino.model.addresses import tunnel_address_fault
from neutrino.model.dhcp import DhcpNetwork, DhcpOption, DhcpPort, DnsName
from neutrino.model.objects import Object
from neutrino.server.api.resources.common import protocol_number
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import NO_ADDITIONS, Added, Additions, Changed
from neutrino.server.feed.readers.rows import (
    Ids,
    build,
    decode_fixed_ips,
    grouped,
    one_of,
    read_ids,
    read_rows,
    select,
    texts,
)
from neutrino.server.feed.records import TUNNEL_TYPES, AgentRecord, DhcpAgent, NetworkRecord, PortRecord, migrating
from neutrino.server.hosts.serving import disabled_agents_serve
from neutrino.server.ipam.delegated import PROVISIONAL
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.binding import EXPIRED

_decode = msgspec.json.decode

# --- networks ---------------------------------------------------------------------------------------------------------

_NETWORKS = RowsLookup(select(m.Network, t.networks, t.networks.c.dns_domain, t.networks.c.extra_dhcp_opts))
_DHCP_AGENTS = RowsLookup(sa.select(t.network_dhcp_agents.c.network_id, t.network_dhcp_agents.c.agent_id))
_SEGMENTS = RowsLookup(
    select(m.Segment, t.network_segments, t.network_segments.c.network_id).order_by(t.network_segments.c.position)
)
_SUBNETS = RowsLookup(
    select(m.Subnet, t.subnets, t.subnets.c.dns_nameservers, t.subnets.c.host_routes)
    .where(t.subnets.c.cidr != PROVISIONAL)  # a subnet that waits for a delegated prefix does not exist for hosts yet
    .order_by(t.subnets.c.created_at, t.subnets.c.id)
)


def networks_of_subnets(connection: Connection, changed: Changed) -> set[str]:
    return read_ids(connection, sa.select(t.subnets.c.network_id), t.subnets.c.id, changed.named("subnet"))


def read_networks(connection: Connection, ids: Ids) -> Iterator[tuple[str, NetworkRecord]]:
    segments = grouped(connection, _SEGMENTS, t.network_segments.c.network_id, ids, partial(build, m.Segment))
    subnets = grouped(connection, _SUBNETS, t.subnets.c.network_id, ids, _subnet)
    agents = grouped(connection, _DHCP_AGENTS, t.network_dhcp_agents.c.network_id, ids, attrgetter("agent_id"))
    for row in read_rows(connection, _NETWORKS, t.networks.c.id, ids):
        parts = {"segments": tuple(segments[row.id]), "subnets": tuple(subnets[row.id])}
        dhcp = None
        if row.id in agents:
            dhcp = build(DhcpNetwork, row, **parts, options=_dhcp_options(row.extra_dhcp_opts))
        network = build(m.Network, row, **parts, qos_policy_id=row.qos_policy_id or "")
        yield row.id, NetworkRecord(network, dhcp, frozenset(agents.get(row.id, ())))


def _subnet(row: NamedRow) -> m.Subnet:
    routes = tuple((route["destination"], route["nexthop"]) for route in _decode(row.host_routes))
    servers, segment_id = texts.decode(row.dns_nameservers), row.segment_id or ""
    return build(m.Subnet, row, dns_nameservers=servers, host_routes=routes, segment_id=segment_id)


def _dhcp_options(text: str) -> tuple[DhcpOption, ...]:
    if text == "[]":
        return ()
    return tuple(DhcpOption(o["opt_name"], o["opt_value"], o.get("ip_version", 4)) for o in _decode(text))


# --- ports ------------------------------------------------------------------------------------------------------------

_pairs = msgspec.json.Decoder(tuple[m.AddressPair, ...])
_names = msgspec.json.Decoder(tuple[DnsName, ...])
_BINDINGS = RowsLookup(
    sa.select(
        *(
            t.port_bindings.c.port_id,
            t.port_bindings.c.host,
            t.port_bindings.c.status,
            t.port_bindings.c.vnic_type,
            t.port_bindings.c.vif_type,
            t.port_bindings.c.vif_details,
            t.port_bindings.c.profile,
            t.port_bindings.c.levels,
            t.port_bindings.c.inactive_since,
        )
    )
    .where(
        t.port_bindings.c.vif_type != VIF_UNBOUND,
        t.port_bindings.c.vif_type != VIF_FAILED,
        t.port_bindings.c.host != "",
    )
    .order_by(t.port_bindings.c.host)
)
_JSON_OF_PORTS = (
    t.ports.c.fixed_ips,
    t.ports.c.allowed_address_pairs,
    t.ports.c.security_groups,
    t.ports.c.extra_dhcp_opts,
    t.ports.c.dns_assignment,
    t.ports.c.hints,
)
_MORE_OF_PORTS = (t.ports.c.project_id, t.ports.c.trusted, t.ports.c.propagate_uplink_status)
_PORTS = RowsLookup(select(m.Port, t.ports, *_MORE_OF_PORTS, *_JSON_OF_PORTS))
_TUNNEL_SEGMENTS = RowsLookup(
    sa.select(t.network_segments.c.id).where(one_of(t.network_segments.c.network_type, sorted(TUNNEL_TYPES)))
)


def read_ports(
    connection: Connection, ids: Ids, additions: Additions = NO_ADDITIONS
) -> Iterator[tuple[str, PortRecord]]:
    bindings = grouped(connection, _BINDINGS, t.port_bindings.c.port_id, ids, lambda row: row)
    # Of some ports only their segments are looked up; at the start all tunnel segments are read in one query.
    segments = {_segment_of(b.levels) for binding in bindings.values() for b in binding} if ids is not None else None
    tunnels = {row.id for row in read_rows(connection, _TUNNEL_SEGMENTS, t.network_segments.c.id, segments)}
    added = additions.read(connection, ids)
    for row in read_rows(connection, _PORTS, t.ports.c.id, ids):
        own = bindings.get(row.id, ())
        record, port = _record(row, own, tunnels, added)
        record = added.place(record, port)
        if len(record.bound) > 1:
            record = migrating(record, [each.host for each in own if each.inactive_since != EXPIRED])
        yield row.id, record


# Ports that agree in such a column share its value: decoded once, and kept once.
_SHARED = 4096


@lru_cache(_SHARED)
def _segment_of(levels: str) -> str:
    """The segment that the host wires: the one of the last binding level."""
    decoded = _decode(levels)
    return str(decoded[-1]["segment_id"]) if decoded else ""


@lru_cache(_SHARED)
def _groups_of(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    groups = texts.decode(text)
    return groups, frozenset(groups)


@lru_cache(_SHARED)
def _is_hybrid(vif_details: str) -> bool:
    return bool(_decode(vif_details).get("ovs_hybrid_plug"))


@lru_cache(_SHARED)
def _steering_of(hints: str) -> str:
    switch = (_decode(hints) or {}).get("openvswitch", {})
    return str(switch.get("other_config", {}).get("tx-steering", ""))


def _record(row: NamedRow, bindings: Sequence[NamedRow], tunnels: set[str], added: Added) -> tuple[PortRecord, m.Port]:
    """A port with its bindings, and without a host."""
    fixed = decode_fixed_ips(row.fixed_ips)
    pairs = _pairs.decode(row.allowed_address_pairs) if row.allowed_address_pairs != "[]" else ()
    groups, group_set = _groups_of(row.security_groups)
    network_id, owner = intern(row.network_id), intern(row.device_owner)
    shared: Object = {"network_id": network_id, "device_owner": owner}
    shared |= {"fixed_ips": fixed, "allowed_address_pairs": pairs}
    own = {"security_groups": groups, "qos_policy_id": row.qos_policy_id or "", "tx_steering": _steering_of(row.hints)}
    port = added.complete(build(m.Port, row, **own, **shared, **added.fields(row.id)))
    bound: dict[str, m.Port] = {}
    forwarding = None
    for binding in bindings:
        each = _bound(port, row, binding)
        bound[each.host] = each
        if each.active and each.segment_id in tunnels:
            ips = tuple([f.ip_address for f in fixed])
            forwarding = m.Forwarding(
                id=row.id, network_id=network_id, host=each.host, mac_address=row.mac_address, ip_addresses=ips
            )
    # Tuples, and texts that ports have in common only once: most of a large cloud's memory is ports.
    members: tuple[m.Member, ...] = ()
    if groups:  # without groups it adds its addresses to none
        members = tuple([m.Member(f.ip_address, row.mac_address) for f in fixed])
    if groups and pairs:
        members = tuple(dict.fromkeys((*members, *(m.Member(pair.ip_address, pair.mac_address) for pair in pairs))))
    names, options = _names.decode(row.dns_assignment), _dhcp_options(row.extra_dhcp_opts)
    shared |= {"project_id": intern(row.project_id), "host": intern(row.host)}
    dhcp = build(DhcpPort, row, names=names, options=options, **shared)
    return PortRecord(row.id, network_id, bound, forwarding, group_set, members, dhcp), port


def _bound(port: m.Port, row: NamedRow, binding: NamedRow) -> m.Port:
    return msgspec.structs.replace(
        port,
        host=intern(binding.host),
        active=binding.status == "ACTIVE",
        segment_id=_segment_of(binding.levels),
        vif_type=intern(binding.vif_type),
        vnic_type=intern(binding.vnic_type),
        hybrid_plug=_is_hybrid(binding.vif_details),
        function=_function(row, binding.profile) if binding.vif_type in sriov.VIF_TYPES else None,
    )


def _function(row: NamedRow, profile: str) -> m.VirtualFunction:
    """The function of a card that Nova has named in the binding profile."""
    given = _decode(profile) or {}
    slot = given.get("pci_slot")
    trusted = given.get("trusted") if row.trusted is None else row.trusted
    return m.VirtualFunction(
        pci_slot=slot if isinstance(slot, str) and sriov.is_pci_slot(slot) else "",
        trusted=sriov.is_true(trusted),
        propagate_uplink_status=bool(row.propagate_uplink_status),
    )


# --- security groups --------------------------------------------------------------------------------------------------

_PORT_RANGE = (
    t.security_group_rules.c.port_range_min.label("port_min"),
    t.security_group_rules.c.port_range_max.label("port_max"),
)
_RULES = select(
    m.Rule,
    t.security_group_rules,
    t.security_group_rules.c.security_group_id,
    t.security_group_rules.c.normalized_cidr,
    *_PORT_RANGE,
).order_by(t.security_group_rules.c.id)
_GROUPS = select(m.SecurityGroup, t.security_groups)


def read_security_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, m.SecurityGroup]]:
    rules = grouped(connection, _RULES, t.security_group_rules.c.security_group_id, ids, _rule)
    for row in read_rows(connection, _GROUPS, t.security_groups.c.id, ids):
        yield row.id, build(m.SecurityGroup, row, rules=tuple(rules[row.id]))


def _rule(row: NamedRow) -> m.Rule:
    protocol = None if row.protocol is None else protocol_number(row.protocol)
    return build(m.Rule, row, protocol=protocol, remote_ip_prefix=row.normalized_cidr or row.remote_ip_prefix)


# --- agents -----------------------------------------------------------------------------------------------------------


def read_agents(connection: Connection, ids: Ids) -> Iterator[tuple[str, AgentRecord]]:
    statement = (
        sa.select(
            t.agents.c.id,
            t.agents.c.host,
            t.agents.c.agent_type,
            t.agents.c.admin_state_up,
            t.agents.c.configurations,
            t.dvr_host_macs.c.mac_address,
        )
        .outerjoin(t.dvr_host_macs, t.dvr_host_macs.c.host == t.agents.c.host)
        .where(t.agents.c.agent_type.in_([words.OVS, words.DHCP]))
    )
    all_serve = disabled_agents_serve(connection)
    for row in read_rows(connection, statement, t.agents.c.id, ids):
        configurations = msgspec.json.decode(row.configurations)
        if row.agent_type == words.DHCP:
            distributed = configurations.get(words.DHCP_DISTRIBUTED) is True
            yield row.id, AgentRecord(dhcp=DhcpAgent(row.host, all_serve or bool(row.admin_state_up), distributed))
        else:
            mac = m.DvrMac(id=row.host, mac_address=row.mac_address) if row.mac_address is not None else None
            yield row.id, AgentRecord(_endpoint(row.host, configurations), mac)


def _endpoint(name: str, configurations: Object) -> m.Host | None:
    """The host as a tunnel endpoint. A row may be older than the rules for reports: values that break them are left out."""
    address, types = configurations.get(words.TUNNELING_IP), configurations.get(words.TUNNEL_TYPES)
    if not address or not isinstance(address, str) or tunnel_address_fault(address):
        return None
    known = types if isinstance(types, list) else []
    return m.Host(
        id=name,
        tunneling_ip=address,
        tunnel_types=tuple(each for each in known if isinstance(each, str) and each in TUNNEL_TYPES),
    )
