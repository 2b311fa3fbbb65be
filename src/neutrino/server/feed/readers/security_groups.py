"""Reads security groups with their rules, and address groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.state import AddressGroup, Rule, SecurityGroup
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, read_rows
from neutrino.server.securitygroups.checks import protocol_number

_g, _r, _ag = t.security_groups.c, t.security_group_rules.c, t.address_groups.c
_addresses = msgspec.json.Decoder(frozenset[str])


def read_security_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, SecurityGroup]]:
    rules: defaultdict[str, list[Rule]] = defaultdict(list)
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
        yield (
            row.id,
            SecurityGroup(
                id=row.id, revision=row.revision_number, stateful=bool(row.stateful), rules=tuple(rules[row.id])
            ),
        )


def read_address_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, AddressGroup]]:
    for row in read_rows(connection, sa.select(_ag.id, _ag.addresses, _ag.revision_number), _ag.id, ids):
        yield row.id, AddressGroup(id=row.id, revision=row.revision_number, addresses=_addresses.decode(row.addresses))
