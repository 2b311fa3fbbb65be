"""A project's default group, which is there from the moment that anyone looks.

It is made once: whoever finds none makes it, and of several who do so at once the primary key lets one through; the
others then find it.
"""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database
from neutrino.server.securitygroups.checks import first_rules
from neutrino.server.securitygroups.rules import KIND, QUOTA, insert_rules, rule_object

NAME, DESCRIPTION = "default", "Default security group"
_d = t.default_security_groups.c
_FIND = sa.select(_d.security_group_id).where(_d.project_id == sa.bindparam("project", type_=sa.String))


def ensure_default(db: Database, project_id: str) -> str:
    """The id of the project's default group. It counts against the quota, but no quota keeps it from being made."""

    def attempt() -> str:
        with db.read() as connection:
            found = connection.execute(_FIND, {"project": project_id}).scalar()
        return str(found) if found is not None else _make(db, project_id)

    return db.retrying(attempt)


def _make(db: Database, project_id: str) -> str:
    group = fresh(
        {
            "project_id": project_id,
            "name": NAME,
            "description": DESCRIPTION,
            "stateful": True,
            "is_default": True,
        }
    )
    key = str(group["id"])
    rules = [(rule, rule_object(rule, key, project_id, None, True)) for rule in first_rules(key, default=True)]
    with db.transaction() as tx:
        tx.execute(sa.insert(t.security_groups), as_row(t.security_groups, group))
        tx.execute(sa.insert(t.default_security_groups), {"project_id": project_id, "security_group_id": key})
        insert_rules(tx, rules)
        tx.record(KIND, key, group["revision_number"])
        tx.use("security_group", project_id, 1)
        tx.use(QUOTA, project_id, len(rules))
    return key
