"""Reading security groups and rules: the views of the API, and which groups a project may refer to.

A list of groups with all their rules is two queries. A project may refer to its own groups and to those shared with it, an
administrator to any.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.sql import Column, Expression, NamedRow, Selection
from neutrino.server.db.view import PROJECT, Added, View, shareable_view, shared_with_viewer, viewed_by
from neutrino.server.query import Query

RULES_FIELD = "security_group_rules"
MAX_PARAMETERS = 10_000  # in one query; SQLite's limit is the lowest, at 32,766


def _of_its_group(column: Column) -> Expression:
    return (
        sa.select(column).where(t.security_groups.c.id == t.security_group_rules.c.security_group_id).scalar_subquery()
    )


RULES = View(
    t.security_group_rules,
    computed={
        "belongs_to_default_sg": _of_its_group(t.security_groups.c.is_default),
        "security_group:project_id": _of_its_group(t.security_groups.c.project_id),
    },
    # A rule belongs to its group, whichever project's quota it counts against.
    scope=t.security_group_rules.c.security_group_id.in_(
        sa.select(t.security_groups.c.id).where(t.security_groups.c.project_id == PROJECT)
    ),
    hidden=("security_group:project_id", "name", "identity"),
    not_found=errors.SecurityGroupRuleNotFound,
)


def _rules_of(connection: Connection, groups: Sequence[Object]) -> list[list[Object]]:
    by_group: dict[str, list[Object]] = defaultdict(list)
    keys = [group["id"] for group in groups]
    for start in range(0, len(keys), MAX_PARAMETERS):
        some = Query({"security_group_id": tuple(keys[start : start + MAX_PARAMETERS])}, everyone=True)
        for rule in RULES.many(connection, some, ""):
            by_group[rule["security_group_id"]].append(rule)
    return [by_group[key] for key in keys]


GROUPS = shareable_view(t.security_groups, errors.SecurityGroupNotFound, hidden=("is_default",)).composed(
    {RULES_FIELD: Added(("id",), _rules_of)}
)


# --- references -------------------------------------------------------------------------------------------------------


def check_usable(
    connection: Connection, context: Context, group_ids: Iterable[str], project_id: str | None = None
) -> None:
    """Refuse groups that a port of the project (by default the caller's) may not have, or not together."""
    groups = check_references(
        connection,
        context,
        group_ids,
        project_id,
        errors.SecurityGroupNotFound,
        t.security_groups.c.id,
        t.security_groups.c.stateful,
    )
    if len({group.stateful for group in groups}) > 1:
        raise errors.SecurityGroupConflict(reason="stateful and stateless security groups cannot be on one port")


def check_references(
    connection: Connection,
    context: Context,
    ids: Iterable[str],
    project_id: str | None,
    not_found: type[errors.ApiError],
    *columns: Column,
) -> Sequence[NamedRow]:
    """The columns, of which `id` is the first, of these groups; refuses groups that the project may not refer to."""
    wanted = set(ids)
    if not wanted:
        return ()
    viewer = viewed_by(context.project_id if project_id is None else project_id)
    found = connection.execute(_by_ids(context.is_admin, *columns), {"ids": list(wanted), **viewer}).all()
    missing = wanted - {row.id for row in found}
    if missing:
        raise not_found(id=", ".join(sorted(missing)))
    return found


@cache
def _by_ids(everyone: bool, *columns: Column) -> Selection:
    table = columns[0].table
    found = sa.select(*columns).where(table.c.id.in_(sa.bindparam("ids", expanding=True, type_=sa.String)))
    return found if everyone else found.where(sa.or_(table.c.project_id == PROJECT, shared_with_viewer(table.c.id)))
