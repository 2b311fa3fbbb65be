"""The IPv4 addresses of a segment, as Placement should have them, and the hosts on it, as a Nova aggregate should.

Nova schedules an instance to a host of a segment that has addresses left. Instances and the segment's addresses meet in
Placement: a resource provider per segment has an inventory of IPV4_ADDRESS, of which ports that Nova does not know are
reserved.

The inventory is computed from the database whenever something changes, and not counted up and down: a report that was lost
is repaired by the next one.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Values
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.db import tables as t
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.ports.host_subnets import SWITCHES, reached_segments

_subnets, _ports, _allocations, _segments = t.subnets.c, t.ports.c, t.ip_allocations.c, t.network_segments.c
_SUBNETS = sa.select(_subnets.id, _subnets.gateway_ip, _subnets.enable_dhcp, _subnets.allocation_pools).where(
    _subnets.segment_id == sa.bindparam("segment"), _subnets.ip_version == 4
)
# Nova accounts for the ports of its servers; the DHCP server's address is reserved with its subnet.
_RESERVED = sa.select(sa.func.count()).where(
    _allocations.subnet_id.in_(sa.bindparam("subnets", expanding=True)),
    _allocations.port_id == _ports.id,
    _ports.device_owner.not_like(f"{COMPUTE_OWNER}%"),
    _ports.device_owner != DHCP_OWNER,
)
_HOSTS = sa.select(t.agents.c.host, t.agents.c.configurations).where(t.agents.c.agent_type.in_(SWITCHES))


@dataclass(frozen=True)
class Inventory:
    total: int
    reserved: int
    hosts: frozenset[str] = frozenset()


def read_inventory(connection: Connection, segment_id: str) -> Inventory | None:
    """None if the segment does not exist, or has no IPv4 addresses to give."""
    segment = sa.select(_segments.network_type, _segments.physical_network).where(_segments.id == segment_id)
    row = connection.execute(segment).first()
    subnets = connection.execute(_SUBNETS, {"segment": segment_id}).all() if row is not None else []
    pools = {subnet.id: msgspec.json.decode(subnet.allocation_pools) for subnet in subnets}
    served = [subnet for subnet in subnets if pools[subnet.id]]
    if row is None or not served:
        return None
    gateways = sum(subnet.gateway_ip is not None for subnet in served)
    servers = sum(bool(subnet.enable_dhcp) for subnet in served)
    ports = connection.execute(_RESERVED, {"subnets": [subnet.id for subnet in served]}).scalar() or 0
    hosts = _hosts_on(connection, Segment(row.network_type, row.physical_network, id=segment_id))
    return Inventory(sum(map(_size, pools.values())) + gateways, gateways + servers + ports, hosts)


def _size(pools: Sequence[Mapping[str, str]]) -> int:
    return sum(int(_address(pool["end"])) - int(_address(pool["start"])) + 1 for pool in pools)


def _address(text: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(text)


def _hosts_on(connection: Connection, segment: Segment) -> frozenset[str]:
    rows = ((host, msgspec.json.decode(text)) for host, text in connection.execute(_HOSTS))
    return frozenset(host for host, configurations in rows if reached_segments([segment], [configurations]))


def segments_of_subnets(connection: Connection, subnet_ids: Sequence[str]) -> set[str]:
    return _segments_of(connection, _subnets.id.in_(list(subnet_ids)))


def segments_with_addresses(connection: Connection) -> set[str]:
    """Those with IPv4 subnets."""
    return _segments_of(connection, _subnets.ip_version == 4)


def _segments_of(connection: Connection, condition: sa.ColumnElement[bool]) -> set[str]:
    segments = sa.select(_subnets.segment_id).where(condition, _subnets.segment_id.is_not(None))
    return {segment_id for segment_id in connection.execute(segments).scalars() if segment_id is not None}


def concerned_subnets(before: Values | None, after: Values | None) -> frozenset[str]:
    """The subnets whose reserved addresses may change with a port, which is created, updated or deleted. Pure."""
    old, new = (_reserved(port) if port is not None else frozenset[tuple[str, str]]() for port in (before, after))
    return frozenset(subnet_id for subnet_id, _ in old ^ new)


def _reserved(port: Values) -> frozenset[tuple[str, str]]:
    if port["device_owner"].startswith(COMPUTE_OWNER) or port["device_owner"] == DHCP_OWNER:
        return frozenset()
    return frozenset((f["subnet_id"], f["ip_address"]) for f in port["fixed_ips"] if ":" not in f["ip_address"])
