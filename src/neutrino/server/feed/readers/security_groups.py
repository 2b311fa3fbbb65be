"""Reads security groups with their rules, and address groups."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.state import AddressGroup, Rule, SecurityGroup
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, build, grouped, read_rows
from neutrino.server.securitygroups.checks import protocol_number

_g, _r, _ag = t.security_groups.c, t.security_group_rules.c, t.address_groups.c
_addresses = msgspec.json.Decoder(frozenset[str])
_RULES = sa.select(
    *(_r.id, _r.security_group_id, _r.direction, _r.ethertype, _r.protocol.label("protocol_name")),
    *(_r.port_range_min.label("port_min"), _r.port_range_max.label("port_max"), _r.normalized_cidr),
    *(_r.remote_ip_prefix.label("given_prefix"), _r.remote_group_id, _r.remote_address_group_id),
).order_by(_r.id)
_GROUPS = sa.select(_g.id, _g.stateful, _g.revision_number.label("revision"))


def read_security_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, SecurityGroup]]:
    rules = grouped(read_rows(connection, _RULES, _r.security_group_id, ids), "security_group_id", _rule)
    for row in read_rows(connection, _GROUPS, _g.id, ids):
        yield row.id, build(SecurityGroup, row, rules=tuple(rules[row.id]))


def _rule(row: Any) -> Rule:
    protocol = None if row.protocol_name is None else protocol_number(row.protocol_name)
    return build(Rule, row, protocol=protocol, remote_ip_prefix=row.normalized_cidr or row.given_prefix)


def read_address_groups(connection: Connection, ids: Ids) -> Iterator[tuple[str, AddressGroup]]:
    statement = sa.select(_ag.id, _ag.addresses, _ag.revision_number)
    for row in read_rows(connection, statement, _ag.id, ids):
        yield row.id, AddressGroup(id=row.id, revision=row.revision_number, addresses=_addresses.decode(row.addresses))
