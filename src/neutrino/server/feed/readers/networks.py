"""Reads networks with segments and subnets, and the DHCP form of those that are scheduled to DHCP agents."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.dhcp import DhcpNetwork, DhcpOption
from neutrino.model.state import Network, Segment, Subnet
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, build, grouped, read_rows, texts
from neutrino.server.feed.records import NetworkRecord
from neutrino.server.ipam.delegated import PROVISIONAL

_n, _s, _seg, _nd = t.networks.c, t.subnets.c, t.network_segments.c, t.network_dhcp_agents.c


class _Route(msgspec.Struct):
    destination: str
    nexthop: str


class _Option(msgspec.Struct):
    opt_name: str
    opt_value: str
    ip_version: int = 4


_routes = msgspec.json.Decoder(list[_Route])
_options = msgspec.json.Decoder(list[_Option])
_NETWORKS = sa.select(
    *(_n.id, _n.name, _n.project_id, _n.mtu, _n.admin_state_up, _n.external, _n.revision_number.label("revision")),
    *(_n.dns_domain, _n.extra_dhcp_opts),
)
_SEGMENTS = sa.select(
    _seg.network_id, _seg.id, _seg.network_type, _seg.physical_network, _seg.segmentation_id
).order_by(_seg.position)
_SUBNETS = (
    sa.select(
        *(_s.id, _s.network_id, _s.revision_number.label("revision"), _s.ip_version, _s.cidr, _s.gateway_ip),
        *(_s.enable_dhcp, _s.ipv6_ra_mode, _s.ipv6_address_mode),
        *(_s.dns_nameservers.label("nameservers"), _s.host_routes.label("routes")),
    )
    .where(_s.cidr != PROVISIONAL)  # a subnet that waits for a delegated prefix does not exist for hosts yet
    .order_by(_s.created_at, _s.id)
)


def networks_of_subnets(connection: Connection, subnet_ids: Sequence[str]) -> list[str]:
    return [row.network_id for row in read_rows(connection, sa.select(_s.network_id), _s.id, subnet_ids)]


def read_networks(connection: Connection, ids: Ids) -> Iterator[tuple[str, NetworkRecord]]:
    segment_rows = read_rows(connection, _SEGMENTS, _seg.network_id, ids)
    segments = grouped(segment_rows, "network_id", lambda row: build(Segment, row))
    subnets = grouped(read_rows(connection, _SUBNETS, _s.network_id, ids), "network_id", _subnet)
    agent_rows = read_rows(connection, sa.select(_nd.network_id, _nd.agent_id), _nd.network_id, ids)
    agents = grouped(agent_rows, "network_id", attrgetter("agent_id"))
    for row in read_rows(connection, _NETWORKS, _n.id, ids):
        parts = {"segments": tuple(segments[row.id]), "subnets": tuple(subnets[row.id])}
        dhcp = None
        if row.id in agents:
            dhcp = build(DhcpNetwork, row, **parts, options=dhcp_options(row.extra_dhcp_opts))
        yield row.id, NetworkRecord(build(Network, row, **parts), dhcp, frozenset(agents.get(row.id, ())))


def _subnet(row: Any) -> Subnet:
    routes = tuple((r.destination, r.nexthop) for r in _routes.decode(row.routes))
    return build(Subnet, row, dns_nameservers=texts.decode(row.nameservers), host_routes=routes)


def dhcp_options(text: str) -> tuple[DhcpOption, ...]:
    return tuple(DhcpOption(o.opt_name, o.opt_value, o.ip_version) for o in _options.decode(text))
