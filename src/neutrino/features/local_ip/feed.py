"""Associations of local IPs as hosts get them: a part of the associated port.

A request that breaks the conditions of `IN_EFFECT` is refused. A database may have such rows all the same: from before a
check was added, or of a port that has lost the address since. A host that applied one would lead an address of a network
to a port that has no right to it.
"""

from sys import intern

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.local_ip.tables import associations, local_ips
from neutrino.model.state import LocalIp
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.sql import Condition, NamedRow
from neutrino.server.feed.declarations import Feed, Part
from neutrino.server.feed.readers.rows import Ids, grouped

_port = t.ports.alias("associated_port")  # the query may join `ports` itself


def _has_address(port_id: sa.Column[str], address: sa.Column[str]) -> sa.Exists:
    held = t.ip_allocations.alias().c
    return sa.exists().where(held.port_id == port_id, held.ip_address == address)


IN_EFFECT: tuple[Condition, ...] = (
    sa.exists().where(_port.c.id == associations.c.fixed_port_id, _port.c.network_id == local_ips.c.network_id),
    _has_address(associations.c.fixed_port_id, associations.c.fixed_ip),
    _has_address(local_ips.c.local_port_id, local_ips.c.local_ip_address),
    ~sa.exists().where(
        t.subnets.c.network_id == local_ips.c.network_id, t.subnets.c.gateway_ip == local_ips.c.local_ip_address
    ),
)
_ASSOCIATIONS = RowsLookup(
    sa.select(
        associations.c.fixed_port_id,
        associations.c.fixed_ip,
        local_ips.c.local_ip_address,
        local_ips.c.ip_mode,
        local_ips.c.network_id,
    )
    .join(local_ips, local_ips.c.id == associations.c.local_ip_id)
    .where(*IN_EFFECT)
    .order_by(local_ips.c.local_ip_address)
)


def read_associations(connection: Connection, ids: Ids) -> dict[str, dict[str, tuple[LocalIp, ...]]]:
    by_port = grouped(connection, _ASSOCIATIONS, associations.c.fixed_port_id, ids, _local_ip)
    return {port_id: {"local_ips": tuple(several)} for port_id, several in by_port.items()}


def _local_ip(row: NamedRow) -> LocalIp:
    return LocalIp(row.local_ip_address, row.fixed_ip, row.ip_mode, intern(row.network_id))


FEED = Feed(parts=(Part(of="port", defaults={"local_ips": ()}, read=read_associations),))
