"""Reads ports with their bindings: as bound hosts get them, as forwarding entries, group members and DHCP clients."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.dhcp import DhcpPort, DnsName
from neutrino.model.state import AddressPair, Forwarding, Member, Port
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.dvr import read_distributed_ports
from neutrino.server.feed.readers.networks import dhcp_options
from neutrino.server.feed.readers.routers import read_replicas
from neutrino.server.feed.readers.rows import Ids, build, decode_fixed_ips, grouped, read_rows, texts
from neutrino.server.feed.records import TUNNEL_TYPES, PortRecord
from neutrino.server.l3.routers.port_layout import DVR_INTERFACE
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND

_seg, _p, _b = t.network_segments.c, t.ports.c, t.port_bindings.c


class _Level(msgspec.Struct):
    segment_id: str = ""


class _VifDetails(msgspec.Struct):
    ovs_hybrid_plug: bool = False


_pairs = msgspec.json.Decoder(tuple[AddressPair, ...])
_levels = msgspec.json.Decoder(list[_Level])
_names = msgspec.json.Decoder(tuple[DnsName, ...])
_vif_details = msgspec.json.Decoder(_VifDetails)
_BINDINGS = (
    sa.select(_b.port_id, _b.host, _b.status, _b.vnic_type, _b.vif_type, _b.vif_details, _b.levels)
    .where(_b.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]), _b.host != "")
    .order_by(_b.host)
)
_PORTS = sa.select(
    *(_p.id, _p.revision_number.label("revision"), _p.network_id, _p.mac_address, _p.admin_state_up, _p.device_id),
    *(_p.device_owner, _p.port_security_enabled, _p.project_id, _p.host.label("active_host"), _p.extra_dhcp_opts),
    *(_p.fixed_ips.label("ips"), _p.allowed_address_pairs.label("pairs"), _p.security_groups.label("groups")),
    _p.dns_assignment,
)
_TUNNEL_SEGMENTS = sa.select(_seg.id).where(_seg.network_type.in_(sorted(TUNNEL_TYPES)))


def read_ports(connection: Connection, ids: Ids) -> Iterator[tuple[str, PortRecord]]:
    bindings = grouped(read_rows(connection, _BINDINGS, _b.port_id, ids), "port_id", lambda row: row)
    segments = {_segment_id(b) for each in bindings.values() for b in each} if ids is not None else None
    tunnels = {row.id for row in read_rows(connection, _TUNNEL_SEGMENTS, _seg.id, segments)}
    replicas = read_replicas(connection, ids)
    distributed = read_distributed_ports(connection, ids)
    for row in read_rows(connection, _PORTS, _p.id, ids):
        yield row.id, _record(row, bindings.get(row.id, ()), tunnels, replicas.get(row.id), distributed.get(row.id))


def _segment_id(binding: Any) -> str:
    """The segment that the host wires: the one of the last binding level."""
    levels = _levels.decode(binding.levels)
    return levels[-1].segment_id if levels else ""


def _record(
    row: Any,
    bindings: Sequence[Any],
    tunnels: set[str],
    replicas: frozenset[str] | None,
    distributed: frozenset[str] | None,
) -> PortRecord:
    """`replicas`: the hosts of the port's HA router; `distributed`: the hosts of its distributed router."""
    groups, pairs, fixed = texts.decode(row.groups), _pairs.decode(row.pairs), decode_fixed_ips(row.ips)
    addresses = {"fixed_ips": fixed, "allowed_address_pairs": pairs}
    port = build(Port, row, host="", security_groups=groups, **addresses)
    bound = {binding.host: _bound(port, binding) for binding in bindings}
    forwarding = None
    for each in bound.values():
        if each.active and each.segment_id in tunnels:
            ips = tuple(f.ip_address for f in fixed)
            forwarding = Forwarding(
                id=row.id, network_id=row.network_id, host=each.host, mac_address=row.mac_address, ip_addresses=ips
            )
    if distributed is not None:  # in place of where it is bound: every host of the router has it, with the same MAC
        bound, forwarding = _distributed(port, distributed), None
    elif replicas:
        bound = _replicated(bound, replicas)
    members = {Member(f.ip_address, row.mac_address) for f in fixed}
    members |= {Member(p.ip_address, p.mac_address) for p in pairs}
    names, options = _names.decode(row.dns_assignment), dhcp_options(row.extra_dhcp_opts)
    dhcp = build(DhcpPort, row, host=row.active_host, names=names, options=options, **addresses)
    shared = frozenset(members) if groups else frozenset[Member]()
    return PortRecord(row.id, row.network_id, bound, forwarding, frozenset(groups), shared, dhcp)


def _bound(port: Port, binding: Any) -> Port:
    return msgspec.structs.replace(
        port,
        host=binding.host,
        active=binding.status == "ACTIVE",
        segment_id=_segment_id(binding),
        vif_type=binding.vif_type,
        vnic_type=binding.vnic_type,
        hybrid_plug=_vif_details.decode(binding.vif_details).ovs_hybrid_plug,
    )


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
        device_owner=DVR_INTERFACE,
        allowed_address_pairs=(),
        port_security_enabled=False,
        security_groups=(),
        vif_type="ovs",
        distributed=True,
    )
    return {host: msgspec.structs.replace(base, host=host) for host in sorted(hosts)}
