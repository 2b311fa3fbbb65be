"""Reads networks with segments and subnets, and the DHCP form of those that are scheduled to DHCP agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.dhcp import DhcpNetwork, DhcpOption
from neutrino.model.state import Network, Segment, Subnet
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, read_rows, texts
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


def networks_of_subnets(connection: Connection, subnet_ids: Sequence[str]) -> list[str]:
    return [row.network_id for row in read_rows(connection, sa.select(_s.network_id), _s.id, subnet_ids)]


def read_networks(connection: Connection, ids: Ids) -> Iterator[tuple[str, NetworkRecord]]:
    segments, subnets, agents = _segments(connection, ids), _subnets(connection, ids), _agents(connection, ids)
    columns = (_n.id, _n.name, _n.project_id, _n.mtu, _n.admin_state_up, _n.external, _n.revision_number)
    more = (_n.dns_domain, _n.extra_dhcp_opts)
    for row in read_rows(connection, sa.select(*columns, *more), _n.id, ids):
        shared: dict[str, Any] = {
            "id": row.id,
            "revision": row.revision_number,
            "name": row.name,
            "project_id": row.project_id,
            "mtu": row.mtu,
            "admin_state_up": bool(row.admin_state_up),
            "segments": tuple(segments[row.id]),
            "subnets": tuple(subnets[row.id]),
        }
        dhcp = None
        if row.id in agents:
            dhcp = DhcpNetwork(**shared, dns_domain=row.dns_domain, options=dhcp_options(row.extra_dhcp_opts))
        yield row.id, NetworkRecord(Network(**shared, external=bool(row.external)), dhcp, frozenset(agents[row.id]))


def _segments(connection: Connection, ids: Ids) -> defaultdict[str, list[Segment]]:
    columns = (_seg.network_id, _seg.id, _seg.network_type, _seg.physical_network, _seg.segmentation_id)
    found: defaultdict[str, list[Segment]] = defaultdict(list)
    for row in read_rows(connection, sa.select(*columns).order_by(_seg.position), _seg.network_id, ids):
        found[row.network_id].append(
            Segment(
                id=row.id,
                network_type=row.network_type,
                physical_network=row.physical_network,
                segmentation_id=row.segmentation_id,
            )
        )
    return found


def _subnets(connection: Connection, ids: Ids) -> defaultdict[str, list[Subnet]]:
    # A subnet that waits for a delegated prefix does not exist for hosts yet.
    statement = sa.select(t.subnets).where(_s.cidr != PROVISIONAL).order_by(_s.created_at, _s.id)
    found: defaultdict[str, list[Subnet]] = defaultdict(list)
    for row in read_rows(connection, statement, _s.network_id, ids):
        found[row.network_id].append(
            Subnet(
                id=row.id,
                revision=row.revision_number,
                network_id=row.network_id,
                ip_version=row.ip_version,
                cidr=row.cidr,
                gateway_ip=row.gateway_ip,
                enable_dhcp=bool(row.enable_dhcp),
                ipv6_ra_mode=row.ipv6_ra_mode,
                ipv6_address_mode=row.ipv6_address_mode,
                dns_nameservers=texts.decode(row.dns_nameservers),
                host_routes=tuple((r.destination, r.nexthop) for r in _routes.decode(row.host_routes)),
            )
        )
    return found


def _agents(connection: Connection, ids: Ids) -> defaultdict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in read_rows(connection, sa.select(_nd.network_id, _nd.agent_id), _nd.network_id, ids):
        found[row.network_id].add(row.agent_id)
    return found


def dhcp_options(text: str) -> tuple[DhcpOption, ...]:
    return tuple(DhcpOption(o.opt_name, o.opt_value, o.ip_version) for o in _options.decode(text))
