"""A write transaction: the connection, and what belongs to every write besides the change itself.

`record` notes what changed for the change log; `use` notes what a project's quota gains or loses. Both are written in
`flush`, at the end, so that the counters' row locks are held only for the commit itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.clock import now

UNLIMITED = -1
UNCOUNTED = -2  # unlimited, and known to have no counter


class Transaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: list[dict[str, Any]] = []
        self._usage: dict[tuple[str, str], int] = {}
        self._limits: dict[tuple[str, str], int] = {}

    def execute(self, statement: sa.Executable, parameters: Any = None) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)

    def insert(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows of one shape; the statement is made once a table, not once a call."""
        if rows:
            self._connection.execute(_insert(table), rows[0] if len(rows) == 1 else list(rows))

    @property
    def connection(self) -> Connection:
        return self._connection

    def record(self, kind: str, object_id: str, revision: int, *, deleted: bool = False) -> None:
        """Note that an object changed; hosts hear of it through the change log."""
        self._changes.append(
            {"kind": kind, "object_id": object_id, "revision": revision, "deleted": deleted, "at": now()}
        )

    @property
    def has_changes(self) -> bool:
        """Whether hosts may have something to hear of it."""
        return bool(self._changes)

    def use(self, resource: str, project_id: str, amount: int, limit: int = UNLIMITED) -> None:
        """Count `amount` more (or less) of a resource against a project; more only up to `limit`."""
        if limit == UNCOUNTED:
            return
        key = (project_id, resource)
        self._usage[key] = self._usage.get(key, 0) + amount
        if amount > 0:
            self._limits[key] = limit

    def flush(self) -> None:
        if self._changes:
            if self._connection.dialect.name == "sqlite":
                self._place_changes()
            self.insert(t.changes, self._changes)
        for key in sorted(self._usage):  # one order for all writers: counters cannot deadlock
            if self._usage[key]:
                self._count(key, self._usage[key], self._limits.get(key, UNLIMITED))

    def _place_changes(self) -> None:
        """SQLite has one writer, so the order of commits is known here, and the feed is spared a write of its own."""
        last = self._connection.execute(_MOVE_HEAD, {"n": len(self._changes)}).scalar()
        if last is not None:
            for position, change in enumerate(self._changes, last - len(self._changes) + 1):
                change["position"] = position

    def _count(self, key: tuple[str, str], amount: int, limit: int) -> None:
        project_id, resource = key
        values = {"p": project_id, "r": resource, "n": amount, "limit": limit}
        limited = amount > 0 and limit >= 0
        if self._connection.execute(_COUNT_LIMITED if limited else _COUNT, values).rowcount:
            return
        if not limited:
            return  # nobody counts what has no limit: one row less that all writers of a project would meet at
        if self._connection.execute(_COUNTED, {"p": project_id, "r": resource}).first() is not None:
            # It is there: another writer may have made it since, so ask once more before it is called too much.
            if self._connection.execute(_COUNT_LIMITED, values).rowcount:
                return
            raise errors.OverQuota(overs=[resource])
        # The first use under a limit: all that the project has is counted, what this transaction adds included.
        table = t.COUNTED.get(resource)
        used = amount if table is None else self._connection.execute(_all_of(table), {"p": project_id}).scalar_one()
        if used > limit:
            raise errors.OverQuota(overs=[resource])
        self.insert(t.quota_usages, [{"project_id": project_id, "resource": resource, "used": used}])


@cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


@cache
def _all_of(table: sa.FromClause) -> sa.Select[Any]:
    """How many objects of a table a project has."""
    return sa.select(sa.func.count()).select_from(table).where(table.c.project_id == sa.bindparam("p"))


_h = t.change_head.c
_MOVE_HEAD = (
    sa.update(t.change_head)
    .where(_h.id == 1)
    .values(position=_h.position + sa.bindparam("n", type_=sa.Integer))
    .returning(_h.position)
)
_u = t.quota_usages.c
_KEY = sa.and_(_u.project_id == sa.bindparam("p"), _u.resource == sa.bindparam("r"))
_AMOUNT = sa.bindparam("n", type_=sa.Integer)
_COUNT = sa.update(t.quota_usages).where(_KEY).values(used=_u.used + _AMOUNT)
_COUNT_LIMITED = _COUNT.where(_u.used + _AMOUNT <= sa.bindparam("limit", type_=sa.Integer))
_COUNTED = sa.select(_u.used).where(_KEY)
