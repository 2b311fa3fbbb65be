"""Reading the database for the feed: all of it once, then what the change log names, a fixed number of queries each."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.dhcp import DhcpNetwork, DhcpOption, DhcpPort, DnsName
from neutrino.model.state import (
    AddressGroup,
    AddressPair,
    FixedIp,
    Forwarding,
    Host,
    Member,
    Network,
    Port,
    Rule,
    SecurityGroup,
    Segment,
    Subnet,
)
from neutrino.server.db import tables as t
from neutrino.server.feed.delegation_reader import decode_addresses
from neutrino.server.feed.dvr_reader import distributed_routers_of, read_distributed_ports, read_macs
from neutrino.server.feed.log import Row
from neutrino.server.feed.records import TUNNELS, DhcpAgent, DhcpRecord, GroupRecord, PortRecord, Records
from neutrino.server.feed.router_reader import read_replicas, read_routers, replicated_ports, routers_of
from neutrino.server.feed.rows import Ids, read_rows
from neutrino.server.feed.rules import TUNNEL_TYPES, tunnel_address
from neutrino.server.ipam.delegated import PROVISIONAL
from neutrino.server.l3.routers.port_layout import DVR_INTERFACE
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.securitygroups.checks import protocol_number

_n, _s, _seg, _p, _b = t.networks.c, t.subnets.c, t.network_segments.c, t.ports.c, t.port_bindings.c
_g, _r, _ag, _a = t.security_groups.c, t.security_group_rules.c, t.address_groups.c, t.agents.c
_nd = t.network_dhcp_agents.c


class _Route(msgspec.Struct):
    destination: str
    nexthop: str


class _Level(msgspec.Struct):
    segment_id: str = ""


class _Vif(msgspec.Struct):
    ovs_hybrid_plug: bool = False


class _Option(msgspec.Struct):
    opt_name: str
    opt_value: str
    ip_version: int = 4


_texts = msgspec.json.Decoder(tuple[str, ...])
_addresses = msgspec.json.Decoder(frozenset[str])
_routes = msgspec.json.Decoder(list[_Route])
_pairs = msgspec.json.Decoder(tuple[AddressPair, ...])
_levels = msgspec.json.Decoder(list[_Level])
_options = msgspec.json.Decoder(list[_Option])
_names = msgspec.json.Decoder(tuple[DnsName, ...])
_vif = msgspec.json.Decoder(_Vif)


def read_all(connection: Connection) -> Records:
    networks = list(_networks(connection, None))
    return Records(
        networks={network.id: network for network, _ in networks},
        dhcp={network.id: served for network, served in networks if served is not None},
        dhcp_agents=dict(_dhcp_agents(connection, None)),
        groups=dict(_groups(connection, None)),
        address_groups=dict(_address_groups(connection, None)),
        agents=dict(_agents(connection, None)),
        ports=dict(_ports(connection, None)),
        routers=dict(read_routers(connection, None)),
        dvr_macs=dict(read_macs(connection, None)),
    )


def read_changed(
    connection: Connection,
    rows: Iterable[Row],
    networks_of: Callable[[Collection[str]], Collection[str]] = lambda port_ids: (),
) -> Records:
    """The objects that the rows name, as they are now: at least as new as their rows say.

    `networks_of` knows the networks of ports that may be deleted by now.
    """
    named: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        named[row.kind][row.object_id] = None
    networks = {**named["network"], **dict.fromkeys(_networks_of(connection, list(named["subnet"])))}
    found = list(_networks(connection, list(networks)))
    agents = list(named["agent"])
    routers = {**named["router"], **dict.fromkeys(routers_of(connection, list(named["port"]), list(networks), agents))}
    left = networks_of(named["port"].keys())
    routers |= dict.fromkeys(distributed_routers_of(connection, list(named["port"]), left, agents))
    ports = {**named["port"], **dict.fromkeys(replicated_ports(connection, list(routers)))}
    return Records(
        networks=_found(networks, ((network.id, network) for network, _ in found)),
        dhcp=_found(networks, ((network.id, served) for network, served in found)),
        dhcp_agents=_found(agents, _dhcp_agents(connection, agents)),
        groups=_found(named["security_group"], _groups(connection, list(named["security_group"]))),
        address_groups=_found(named["address_group"], _address_groups(connection, list(named["address_group"]))),
        agents=_found(agents, _agents(connection, agents)),
        ports=_found(ports, _ports(connection, list(ports))),
        routers=_found(routers, read_routers(connection, list(routers))),
        dvr_macs=_found(agents, read_macs(connection, agents)),
        credentials=bool(named["host_credential"]),
    )


def _found(named: Iterable[str], there: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {**dict.fromkeys(named), **dict(there)}


# --- networks ---------------------------------------------------------------------------------------------------------


def _networks_of(connection: Connection, subnet_ids: Sequence[str]) -> list[str]:
    """The networks of these subnets. A subnet that is gone is not asked for: its network's row says so too."""
    return [row.network_id for row in read_rows(connection, sa.select(_s.network_id), _s.id, subnet_ids)]


def _networks(connection: Connection, ids: Ids) -> Iterator[tuple[Network, DhcpRecord | None]]:
    """Networks, each with what those who serve DHCP on it get, if it is scheduled to anybody."""
    segments: dict[str, list[Segment]] = defaultdict(list)
    statement = sa.select(
        _seg.network_id, _seg.id, _seg.network_type, _seg.physical_network, _seg.segmentation_id
    ).order_by(_seg.position)
    for row in read_rows(connection, statement, _seg.network_id, ids):
        segments[row.network_id].append(
            Segment(
                id=row.id,
                network_type=row.network_type,
                physical_network=row.physical_network,
                segmentation_id=row.segmentation_id,
            )
        )
    subnets: dict[str, list[Subnet]] = defaultdict(list)
    # One that waits for a prefix to be delegated is no subnet to hosts, and an address on it none.
    known = sa.select(t.subnets).where(_s.cidr != PROVISIONAL).order_by(_s.created_at, _s.id)
    for row in read_rows(connection, known, _s.network_id, ids):
        subnets[row.network_id].append(_subnet(row))
    agents: dict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, sa.select(_nd.network_id, _nd.agent_id), _nd.network_id, ids):
        agents[row.network_id].add(row.agent_id)
    columns = (_n.id, _n.name, _n.project_id, _n.mtu, _n.admin_state_up, _n.external, _n.revision_number)
    more = (_n.dns_domain, _n.extra_dhcp_opts)
    for row in read_rows(connection, sa.select(*columns, *more), _n.id, ids):
        network = Network(
            id=row.id,
            revision=row.revision_number,
            name=row.name,
            project_id=row.project_id,
            mtu=row.mtu,
            admin_state_up=bool(row.admin_state_up),
            external=bool(row.external),
            segments=tuple(segments[row.id]),
            subnets=tuple(subnets[row.id]),
        )
        yield network, _served(network, row, agents[row.id]) if row.id in agents else None


def _served(network: Network, row: Any, agents: set[str]) -> DhcpRecord:
    served = DhcpNetwork(
        id=network.id,
        revision=network.revision,
        name=network.name,
        project_id=network.project_id,
        mtu=network.mtu,
        admin_state_up=network.admin_state_up,
        dns_domain=row.dns_domain,
        segments=network.segments,
        subnets=network.subnets,
        options=_dhcp_options(row.extra_dhcp_opts),
    )
    return DhcpRecord(served, frozenset(agents))


def _dhcp_options(text: str) -> tuple[DhcpOption, ...]:
    return tuple(DhcpOption(o.opt_name, o.opt_value, o.ip_version) for o in _options.decode(text))


def _subnet(row: Any) -> Subnet:
    return Subnet(
        id=row.id,
        revision=row.revision_number,
        network_id=row.network_id,
        ip_version=row.ip_version,
        cidr=row.cidr,
        gateway_ip=row.gateway_ip,
        enable_dhcp=bool(row.enable_dhcp),
        ipv6_ra_mode=row.ipv6_ra_mode,
        ipv6_address_mode=row.ipv6_address_mode,
        dns_nameservers=_texts.decode(row.dns_nameservers),
        host_routes=tuple((r.destination, r.nexthop) for r in _routes.decode(row.host_routes)),
    )


# --- ports ------------------------------------------------------------------------------------------------------------


def _ports(connection: Connection, ids: Ids) -> Iterator[tuple[str, PortRecord]]:
    bindings: dict[str, list[Any]] = defaultdict(list)
    columns = (_b.port_id, _b.host, _b.status, _b.vnic_type, _b.vif_type, _b.vif_details, _b.levels)
    bound = sa.select(*columns).where(_b.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]), _b.host != "")
    for row in read_rows(connection, bound.order_by(_b.host), _b.port_id, ids):
        bindings[row.port_id].append(row)
    segments = {_segment_id(b) for several in bindings.values() for b in several}
    tunnels = _tunnels(connection, None if ids is None else sorted(segments))
    wanted = (
        *(_p.id, _p.network_id, _p.mac_address, _p.admin_state_up, _p.device_id, _p.device_owner, _p.fixed_ips),
        *(_p.allowed_address_pairs, _p.port_security_enabled, _p.security_groups, _p.revision_number),
        *(_p.host, _p.dns_assignment, _p.extra_dhcp_opts, _p.project_id),
    )
    replicas = read_replicas(connection, ids)
    distributed = read_distributed_ports(connection, ids)
    for row in read_rows(connection, sa.select(*wanted), _p.id, ids):
        record = _port_record(row, bindings.get(row.id, ()), tunnels, replicas.get(row.id, frozenset()))
        yield row.id, _distributed(record, row, distributed[row.id]) if row.id in distributed else record


def _tunnels(connection: Connection, segment_ids: Ids) -> set[str]:
    statement = sa.select(_seg.id).where(_seg.network_type.in_(sorted(TUNNELS)))
    return {row.id for row in read_rows(connection, statement, _seg.id, segment_ids)}


def _segment_id(binding: Any) -> str:
    """The segment that the host wires: the last level's."""
    levels = _levels.decode(binding.levels)
    return levels[-1].segment_id if levels else ""


def _port(row: Any, fixed: tuple[FixedIp, ...]) -> Port:
    """As it is for whichever host; where it is bound comes with the bindings."""
    return Port(
        id=row.id,
        revision=row.revision_number,
        network_id=row.network_id,
        mac_address=row.mac_address,
        host="",
        admin_state_up=bool(row.admin_state_up),
        device_id=row.device_id,
        device_owner=row.device_owner,
        fixed_ips=fixed,
    )


def _port_record(row: Any, bindings: Sequence[Any], tunnels: set[str], replicas: frozenset[str]) -> PortRecord:
    fixed, pairs = decode_addresses(row.fixed_ips), _pairs.decode(row.allowed_address_pairs)
    groups = _texts.decode(row.security_groups)
    base = msgspec.structs.replace(
        _port(row, fixed),
        allowed_address_pairs=pairs,
        port_security_enabled=bool(row.port_security_enabled),
        security_groups=groups,
    )
    bound, forwarding = {}, None
    for binding in bindings:
        segment_id, active = _segment_id(binding), binding.status == "ACTIVE"
        bound[binding.host] = msgspec.structs.replace(
            base,
            host=binding.host,
            active=active,
            segment_id=segment_id,
            vif_type=binding.vif_type,
            vnic_type=binding.vnic_type,
            hybrid_plug=_vif.decode(binding.vif_details).ovs_hybrid_plug,
        )
        if active and segment_id in tunnels:
            forwarding = Forwarding(
                id=row.id,
                network_id=row.network_id,
                host=binding.host,
                mac_address=row.mac_address,
                ip_addresses=tuple(f.ip_address for f in fixed),
            )
    if replicas:
        bound = _replicated(bound, replicas)
    addresses = {Member(f.ip_address, row.mac_address) for f in fixed} if groups else set()
    if groups:
        addresses |= {Member(p.ip_address, p.mac_address) for p in pairs}
    dhcp = _dhcp_port(row, fixed, pairs)
    return PortRecord(row.id, row.network_id, bound, forwarding, frozenset(groups), frozenset(addresses), dhcp)


def _replicated(bound: dict[str, Port], hosts: frozenset[str]) -> dict[str, Port]:
    """A port of an HA router on all its hosts: wired as where it is bound, which is where the router is active."""
    there = next((port for port in bound.values() if port.active), None)
    if there is None:
        return bound
    return {host: msgspec.structs.replace(there, host=host, replicated=True) for host in sorted(hosts | {there.host})}


def _distributed(record: PortRecord, row: Any, hosts: frozenset[str]) -> PortRecord:
    """A port of a distributed router, which is bound nowhere, on all the router's hosts."""
    base = msgspec.structs.replace(
        _port(row, decode_addresses(row.fixed_ips)),
        device_owner=DVR_INTERFACE,
        port_security_enabled=False,
        vif_type="ovs",
        distributed=True,
    )
    bound = {host: msgspec.structs.replace(base, host=host) for host in sorted(hosts)}
    return dataclasses.replace(record, bound=bound, forwarding=None)


def _dhcp_port(row: Any, fixed: tuple[FixedIp, ...], pairs: tuple[AddressPair, ...]) -> DhcpPort:
    return DhcpPort(
        id=row.id,
        revision=row.revision_number,
        network_id=row.network_id,
        mac_address=row.mac_address,
        project_id=row.project_id,
        host=row.host,
        device_id=row.device_id,
        device_owner=row.device_owner,
        fixed_ips=fixed,
        allowed_address_pairs=pairs,
        names=_names.decode(row.dns_assignment),
        options=_dhcp_options(row.extra_dhcp_opts),
    )


# --- groups and hosts -------------------------------------------------------------------------------------------------


def _groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, GroupRecord]]:
    rules: dict[str, list[Rule]] = defaultdict(list)
    for row in read_rows(connection, sa.select(t.security_group_rules).order_by(_r.id), _r.security_group_id, ids):
        rules[row.security_group_id].append(
            Rule(
                id=row.id,
                direction=row.direction,
                ethertype=row.ethertype,
                protocol=None if row.protocol is None else protocol_number(row.protocol),
                port_min=row.port_range_min,
                port_max=row.port_range_max,
                remote_ip_prefix=row.normalized_cidr or row.remote_ip_prefix,
                remote_group_id=row.remote_group_id,
                remote_address_group_id=row.remote_address_group_id,
            )
        )
    for row in read_rows(connection, sa.select(_g.id, _g.stateful, _g.revision_number), _g.id, ids):
        group = SecurityGroup(
            id=row.id, revision=row.revision_number, stateful=bool(row.stateful), rules=tuple(rules[row.id])
        )
        yield row.id, GroupRecord(group)


def _address_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, AddressGroup]]:
    for row in read_rows(connection, sa.select(_ag.id, _ag.addresses, _ag.revision_number), _ag.id, ids):
        addresses = _addresses.decode(row.addresses)
        yield row.id, AddressGroup(id=row.id, revision=row.revision_number, addresses=addresses)


def _agents(connection: Connection, ids: Ids) -> Iterator[tuple[str, Host]]:
    statement = sa.select(_a.id, _a.host, _a.configurations).where(_a.agent_type == words.OVS)
    for row in read_rows(connection, statement, _a.id, ids):
        yield row.id, _host(row.host, msgspec.json.decode(row.configurations))


def _host(name: str, says: dict[str, Any]) -> Host:
    """As other hosts are told of it. A row may be older than the rules for reports: what breaks them is not told."""
    address, kinds = says.get(words.TUNNELING_IP), says.get(words.TUNNEL_TYPES)
    known = kinds if isinstance(kinds, list) else []
    return Host(
        id=name,
        tunneling_ip=address if isinstance(address, str) and not tunnel_address(address) else "",
        tunnel_types=tuple(kind for kind in known if isinstance(kind, str) and kind in TUNNEL_TYPES),
        l2_population=bool(says.get(words.L2_POPULATION, True)),
    )


def _dhcp_agents(connection: Connection, ids: Ids) -> Iterator[tuple[str, DhcpAgent]]:
    columns = (_a.id, _a.host, _a.admin_state_up, _a.configurations)
    for row in read_rows(connection, sa.select(*columns).where(_a.agent_type == words.DHCP), _a.id, ids):
        distributed = msgspec.json.decode(row.configurations).get(words.DHCP_DISTRIBUTED) is True
        yield row.id, DhcpAgent(row.host, bool(row.admin_state_up), distributed)
