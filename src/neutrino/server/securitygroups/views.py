"""How security groups and their rules are read: a list of groups with all their rules is two queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, View, among, own_ids, shared_ids, shared_with_viewer
from neutrino.server.query import Query

Object = dict[str, Any]
RULES_FIELD = "security_group_rules"
MOST_PARAMETERS = 10_000  # in one query; SQLite's limit is the lowest, at 32,766

_g, _r = t.security_groups.c, t.security_group_rules.c


GROUPS = View(
    t.security_groups,
    columns=(
        *("id", "name", "project_id", "stateful", "is_default", "description"),
        *("created_at", "updated_at", "revision_number", "tags"),
    ),
    computed={"shared": shared_with_viewer(_g.id)},
    scope=sa.or_(_g.project_id == PROJECT, shared_with_viewer(_g.id)),
    listed=among(t.security_groups, own_ids(t.security_groups), shared_ids()),
    hidden=("is_default",),
)


def _of_its_group(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    return sa.select(column).where(_g.id == _r.security_group_id).scalar_subquery()


RULES = View(
    t.security_group_rules,
    columns=(
        *("id", "project_id", "security_group_id", "direction", "ethertype", "protocol"),
        *("port_range_min", "port_range_max", "remote_ip_prefix", "normalized_cidr"),
        *("remote_group_id", "remote_address_group_id", "description"),
        *("created_at", "updated_at", "revision_number", "tags"),
    ),
    computed={
        "belongs_to_default_sg": _of_its_group(_g.is_default),
        "security_group:project_id": _of_its_group(_g.project_id),
    },
    # A rule is its group's, whichever project it counts against.
    scope=_r.security_group_id.in_(sa.select(_g.id).where(_g.project_id == PROJECT)),
    hidden=("security_group:project_id",),
)


def list_groups(connection: Connection, query: Query, project: str | None) -> list[Object]:
    fields, with_rules = _wanted(query.fields)
    groups = GROUPS.many(connection, replace(query, fields=fields), project)
    if with_rules:
        _add_rules(connection, groups)
    return groups


def show_group(
    connection: Connection, key: str, *, project: str | None, everyone: bool, fields: Sequence[str] | None = None
) -> Object | None:
    wanted, with_rules = _wanted(fields)
    group = GROUPS.show(connection, key, project=project, everyone=everyone, fields=wanted)
    if group is not None and with_rules:
        _add_rules(connection, [group])
    return group


def _wanted(fields: Sequence[str] | None) -> tuple[tuple[str, ...] | None, bool]:
    """The fields to read of a group (its id too, where its rules are wanted), and whether they are."""
    if fields is None:
        return None, True
    if RULES_FIELD not in fields:
        return tuple(fields), False
    return tuple(dict.fromkeys([*fields, "id"])), True


def _add_rules(connection: Connection, groups: Sequence[Object]) -> None:
    by_group: dict[str, list[Object]] = defaultdict(list)
    keys = [group["id"] for group in groups]
    for start in range(0, len(keys), MOST_PARAMETERS):
        some = Query({"security_group_id": tuple(keys[start : start + MOST_PARAMETERS])}, everyone=True)
        for rule in RULES.many(connection, some, ""):
            by_group[rule["security_group_id"]].append(rule)
    for group in groups:
        group[RULES_FIELD] = by_group[group["id"]]
