"""Associations of local IPs that hosts apply: conditions for queries that join `local_ips` and `local_ip_associations`.

Requests that break them are refused. A database may have such rows all the same: from before a check was added, or of a
port that has lost the address since. A host that applied one would lead an address of a network to a port that has no
right to it.
"""

import sqlalchemy as sa

from neutrino.server.db import tables as t

_a, _l, _s = t.local_ip_associations.c, t.local_ips.c, t.subnets.c
_port = t.ports.alias("associated_port")  # the query may join `ports` itself


def _has_address(port_id: sa.Column[str], address: sa.Column[str]) -> sa.Exists:
    held = t.ip_allocations.alias().c
    return sa.exists().where(held.port_id == port_id, held.ip_address == address)


IN_EFFECT: tuple[sa.ColumnElement[bool], ...] = (
    sa.exists().where(_port.c.id == _a.fixed_port_id, _port.c.network_id == _l.network_id),
    _has_address(_a.fixed_port_id, _a.fixed_ip),
    _has_address(_l.local_port_id, _l.local_ip_address),
    ~sa.exists().where(_s.network_id == _l.network_id, _s.gateway_ip == _l.local_ip_address),
)
