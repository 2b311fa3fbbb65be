"""Reading, for the feed, what routers ask for outside: prefixes for those of their subnets that have none of their own."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.routing import Delegation
from neutrino.model.state import FixedIp
from neutrino.server.db import tables as t
from neutrino.server.feed.rows import Ids, read_rows
from neutrino.server.ipam.delegated import in_provisional, is_provisional
from neutrino.server.l3.routers.port_layout import INTERFACES

_fixed_ips = msgspec.json.Decoder(tuple[FixedIp, ...])
_r, _rp, _a, _s = t.routers.c, t.router_ports.c, t.ip_allocations.c, t.subnets.c
# A subnet's prefix is asked for by the router that is its gateway, once it has a way out.
_STATEMENT = (
    sa.select(_r.id, _a.subnet_id, _s.cidr)
    .select_from(
        t.subnets.join(t.ip_allocations, sa.and_(_a.subnet_id == _s.id, _a.ip_address == _s.gateway_ip))
        .join(t.router_ports, _rp.port_id == _a.port_id)
        .join(t.routers, _r.id == _rp.router_id)
    )
    .where(_s.prefix_delegated, _r.gw_network_id.is_not(None), _rp.port_type.in_(INTERFACES))
    .order_by(_s.id)
)


def decode_addresses(text: str) -> tuple[FixedIp, ...]:
    """A port's addresses, but for those on subnets that wait for a prefix: to hosts these are none."""
    found = _fixed_ips.decode(text)
    return tuple(each for each in found if not in_provisional(each.ip_address)) if '"::' in text else found


def read_delegations(connection: Connection, routers: Ids) -> dict[str, list[Delegation]]:
    """By router."""
    found: defaultdict[str, list[Delegation]] = defaultdict(list)
    for row in read_rows(connection, _STATEMENT, _r.id, routers):
        found[row.id].append(Delegation(row.subnet_id, "" if is_provisional(row.cidr) else row.cidr))
    return dict(found)
