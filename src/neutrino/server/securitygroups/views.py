"""Views of security groups and their rules. A list of groups with all their rules is two queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, Added, ComposedView, View, shareable_view
from neutrino.server.query import Query

Object = dict[str, Any]
RULES_FIELD = "security_group_rules"
MAX_PARAMETERS = 10_000  # in one query; SQLite's limit is the lowest, at 32,766

_g, _r = t.security_groups.c, t.security_group_rules.c


def _of_its_group(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    return sa.select(column).where(_g.id == _r.security_group_id).scalar_subquery()


RULES = View(
    t.security_group_rules,
    computed={
        "belongs_to_default_sg": _of_its_group(_g.is_default),
        "security_group:project_id": _of_its_group(_g.project_id),
    },
    # A rule is its group's, whichever project it counts against.
    scope=_r.security_group_id.in_(sa.select(_g.id).where(_g.project_id == PROJECT)),
    hidden=("security_group:project_id", "name", "identity"),
)


def _rules_of(connection: Connection, groups: Sequence[Object]) -> list[list[Object]]:
    by_group: dict[str, list[Object]] = defaultdict(list)
    keys = [group["id"] for group in groups]
    for start in range(0, len(keys), MAX_PARAMETERS):
        some = Query({"security_group_id": tuple(keys[start : start + MAX_PARAMETERS])}, everyone=True)
        for rule in RULES.many(connection, some, ""):
            by_group[rule["security_group_id"]].append(rule)
    return [by_group[key] for key in keys]


GROUPS = ComposedView(
    shareable_view(t.security_groups, hidden=("is_default",)), {RULES_FIELD: Added(("id",), _rules_of)}
)
