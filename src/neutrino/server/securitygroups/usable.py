"""Which groups a project may refer to: its own and those shared with it; an administrator may refer to any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, shared_with_viewer, viewed_by

_IDS = sa.bindparam("ids", expanding=True, type_=sa.String)


def _of_ids(table: sa.Table, *columns: sa.Column[Any]) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Two queries by ids: for all there are, and for those that a project may refer to."""
    everything = sa.select(table.c.id, *columns).where(table.c.id.in_(_IDS))
    return everything, everything.where(sa.or_(table.c.project_id == PROJECT, shared_with_viewer(table.c.id)))


_GROUPS, _GROUPS_OF_PROJECT = _of_ids(t.security_groups, t.security_groups.c.stateful)
_ADDRESSES, _ADDRESSES_OF_PROJECT = _of_ids(t.address_groups)


def check_usable(
    connection: Connection, context: Context, group_ids: Iterable[str], project_id: str | None = None
) -> None:
    """Refuse groups that a port of the project (the caller's, if none is named) may not have, or not together."""
    stateful = check_security_groups(connection, context, group_ids, project_id)
    if len(set(stateful.values())) > 1:
        raise errors.SecurityGroupConflict(reason="stateful and stateless security groups cannot be on one port")


def check_security_groups(
    connection: Connection, context: Context, group_ids: Iterable[str], project_id: str | None = None
) -> dict[str, bool]:
    """Refuse groups that the project may not refer to; says of the others whether they are stateful."""
    wanted = set(group_ids)
    if not wanted:
        return {}
    statement = _GROUPS if context.is_admin else _GROUPS_OF_PROJECT
    found = connection.execute(statement, _parameters(context, wanted, project_id))
    stateful = {row[0]: bool(row[1]) for row in found}
    missing = wanted - stateful.keys()
    if missing:
        raise errors.SecurityGroupNotFound(id=", ".join(sorted(missing)))
    return stateful


def check_address_groups(
    connection: Connection, context: Context, group_ids: Iterable[str], project_id: str | None = None
) -> None:
    """Refuse address groups that the project may not refer to."""
    wanted = set(group_ids)
    if not wanted:
        return
    statement = _ADDRESSES if context.is_admin else _ADDRESSES_OF_PROJECT
    found = connection.execute(statement, _parameters(context, wanted, project_id)).scalars()
    missing = wanted - set(found)
    if missing:
        raise errors.AddressGroupNotFound(address_group_id=", ".join(sorted(missing)))


def _parameters(context: Context, ids: set[str], project_id: str | None) -> dict[str, Any]:
    return {"ids": list(ids), **viewed_by(context.project_id if project_id is None else project_id)}
