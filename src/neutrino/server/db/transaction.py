"""A write transaction: its statements, the change log rows and the quota counters of a write.

`record` collects changes for the change log, `use` collects changes of quota usage. `flush` writes both at the end, so that
the row locks of counters, which all writers of a project need, are held only during the commit. Statements without a result
wait for the next one with a result, or for the commit, and are sent together (`batch.py`).

The change log is what the feed reads, and the history of objects: its rows name the action, the project and the request.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult

from neutrino import request_ids
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.batch import Batch
from neutrino.server.db.batch import Stale as Stale
from neutrino.server.db.changed_values import NOTHING, Changed, encode_changed, together
from neutrino.server.db.compiled import driver_cursor
from neutrino.server.db.connection_options import GALERA
from neutrino.server.db.reads import Read, read
from neutrino.server.db.sql import Parameters, Row, Selection

P = ParamSpec("P")
T = TypeVar("T")
UNLIMITED = -1
MAX_USER = 255  # characters of a user id: the column
ID_FLOOR, ID_RANDOM_BITS = -(1 << 63), 11  # microseconds have 52 bits for the next century
FENCE = "fence"  # the kind of a row that prevents a commit; neither the feed nor the history has such objects
UNCOUNTED = -2  # unlimited, and without a counter


class NewLimit(int):
    """A limit of a project that has no counter of the resource yet."""


def now() -> str:
    """The current time in the format of the API."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class LoggedChange(NamedTuple):
    """A change of an object within one transaction."""

    created: bool
    deleted: bool
    project_id: str | None  # None: unknown
    changed: Changed = NOTHING  # old and new values of attributes

    def encoded(self) -> str | None:
        """The values of an object that existed before and afterwards; a new one has all of its values itself."""
        return None if self.created or self.deleted else encode_changed(self.changed)


class Transaction:
    def __init__(
        self,
        connection: Connection,
        batch: Batch,
        connect: Callable[[], AbstractContextManager[Connection]],
        *,
        is_repeated: bool = False,
    ) -> None:
        """`connect`: a connection to read. `is_repeated`: an earlier attempt has failed, so its causes are looked at."""
        self.connection = connection
        self._batch = batch
        self._connect = connect
        self._is_repeated = is_repeated
        self._changes: dict[tuple[str, str], LoggedChange] = {}  # by kind and id of the object
        self._is_for_feed = False  # hosts get some of the changed objects
        self._usage: dict[tuple[str, str], int] = {}
        self._limits: dict[tuple[str, str], int] = {}
        self.callbacks: list[Callable[[], object]] = []  # after the commit
        self._reads: list[Read[Any]] = []  # sent along with COMMIT
        self._fetched: list[Sequence[Row]] | None = None  # their rows
        self.mark: int | None = None  # id of one of its change-log rows, by which its outcome can be found out
        self.is_ending = False  # COMMIT is being sent

    def execute(self, statement: sa.Executable, parameters: Parameters | None = None) -> CursorResult[Any]:
        """Execute a statement whose result is needed here, which is a round trip."""
        return self.connection.execute(statement, parameters)

    def write(self, statement: sa.Executable, parameters: Parameters | None = None) -> None:
        """Execute a statement whose result is not needed: it is sent along with a later one."""
        self._batch.add(statement, parameters)

    def change(self, statement: sa.Executable, parameters: Parameters | None = None, *, rows: int = 1) -> None:
        """Change so many rows on a condition; Stale, at the commit at the latest, if it does not hold for all of them."""
        self._batch.add(statement, parameters, rows)

    def exclude_other_nodes(self, column: sa.Column[str], ids: Collection[str]) -> None:
        """Make transactions on other nodes that call this for the same rows fail, and be repeated.

        Galera keeps row locks (FOR UPDATE) on their node, and compares only rows that transactions change. So the value of
        a text column is changed and changed back. On other databases this does nothing: there the lock is enough.
        """
        if not ids or not self.connection.info.get(GALERA):
            return
        rows = column.table.c.id.in_(sorted(ids))
        change, restore = sa.literal("~") + column, sa.func.substr(column, 2)
        for value in (change, restore):
            self.write(sa.update(column.table).where(rows).values({column: value}))

    def after_commit(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call it when the change is committed and not repeated any more: it may write, and lose races, itself."""
        self.callbacks.append(partial(call, *args, **kwargs))

    def read_after_commit(self, wanted: Read[T], call: Callable[[T], object]) -> None:
        """Read this after the commit, and call it with the result when the change is not repeated any more."""
        result = self.read_with_commit(wanted)
        self.after_commit(lambda: call(result()))

    def read_with_commit(self, wanted: Read[T]) -> Callable[[], T]:
        """Read this after the commit, where it sees what others have committed meanwhile too; gives the result then.

        It is sent along with COMMIT, if the database takes both at once.
        """
        position = len(self._reads)
        self._reads.append(wanted)

        def result() -> T:
            if self._fetched is not None:
                return wanted.result(self._fetched[position])
            with self._connect() as connection:
                return read(connection, wanted)

        return result

    def insert(self, table: sa.Table, rows: Sequence[Values], limits: Mapping[str, int] | None = None) -> None:
        """Insert rows with equal columns, and log them if their table has a history. The statement is cached per table.

        With `limits`, by project, they count against the quotas; a project without a limit there is unlimited.
        """
        if rows:
            self._batch.add(_insert(table), rows[0] if len(rows) == 1 else list(rows))
        if limits is not None:
            for row in rows:
                self.use(t.quota_of(table), row["project_id"], 1, limits.get(row["project_id"], UNLIMITED))
        history = t.history_of(table)
        if history is not None:
            self._is_for_feed |= history.feed
            for row in rows:
                self._changes[history.kind, row["id"]] = LoggedChange(True, False, row.get("project_id"))

    def log(self, table: sa.Table, row: Values, *, deleted: bool = False, changed: Changed = NOTHING) -> None:
        """Log a change of a row, given with its id and, if known, its project, unless its table has no history.

        `changed`: old and new values of attributes.

        Called by `update_row` and `delete_row`, so that no write can forget it; `insert` does the same.
        """
        history = t.history_of(table)
        if history is not None:
            project_id = row.get("project_id")
            self.record(history.kind, row["id"], project_id, deleted=deleted, feed=history.feed, changed=changed)

    def record(
        self,
        kind: str,
        object_id: str,
        project_id: str | None = None,
        *,
        created: bool = False,
        deleted: bool = False,
        feed: bool = True,
        changed: Changed = NOTHING,
    ) -> None:
        """Log a change of an object, once per transaction: its history shows it and, with `feed`, the feed reads it."""
        self._is_for_feed |= feed
        before = self._changes.get((kind, object_id))
        if before is None:
            self._changes[kind, object_id] = LoggedChange(created, deleted, project_id, changed)
        else:
            self._changes[kind, object_id] = before._replace(
                deleted=deleted,
                project_id=project_id or before.project_id,
                changed=together(before.changed, changed),
            )

    def changed(self, kind: str) -> list[str]:
        """The ids of the objects of a kind that this transaction has created, changed or deleted so far."""
        return [key for changed_kind, key in self._changes if changed_kind == kind]

    def use(self, resource: str, project_id: str, amount: int, limit: int = UNLIMITED) -> None:
        """Add `amount` (which may be negative) to a project's usage of a resource, up to `limit`."""
        if limit == UNCOUNTED:
            return
        key = (project_id, resource)
        self._usage[key] = self._usage.get(key, 0) + amount
        # Deleting is possible above the limit, which an administrator may have lowered.
        if amount > 0:
            self._limits[key] = limit

    def flush(self) -> bool:
        """Write the change log rows and the counters, and commit; returns whether the feed has something to read."""
        if self._changes:
            at, request_id = now(), request_ids.get() or None
            user_id = request_ids.CALLER.get().get("user", "")[:MAX_USER] or None if request_id else None
            rows: list[Object] = [
                {
                    "kind": kind,
                    "object_id": key,
                    "created": change.created,
                    "deleted": change.deleted,
                    "at": at,
                    "project_id": change.project_id,
                    "request_id": request_id,
                    "user_id": user_id,
                    "changed": change.encoded(),
                }
                for (kind, key), change in self._changes.items()
            ]
            if self.connection.dialect.name == "sqlite":
                self._assign_positions(rows)
            else:
                self.mark = assign_ids(rows)
            self.insert(t.changes, rows)
        for key in sorted(self._usage):  # the same order in all writers, so that they cannot deadlock
            if self._usage[key]:
                self._count(key, self._usage[key], self._limits.get(key, UNLIMITED))
        self._fetched = self._batch.commit([(wanted.statement, wanted.parameters) for wanted in self._reads])
        return self._is_for_feed

    def _assign_positions(self, rows: Sequence[Object]) -> None:
        """SQLite has one writer, so the order of commits is known here, and the feed need not assign the positions."""
        with driver_cursor(self.connection, _ADVANCE_HEAD) as cursor:
            head = cursor.execute(_ADVANCE_HEAD, (len(rows),)).fetchone()
        # No head row yet: the feed has never run, and assigns all positions at its start.
        if head is not None:
            for position, row in enumerate(rows, head[0] - len(rows) + 1):
                row["position"] = position

    def _count(self, key: tuple[str, str], amount: int, limit: int) -> None:
        project_id, resource = key
        values = {"p": project_id, "r": resource, "n": amount, "limit": limit}
        limited = amount > 0 and limit >= 0
        if not limited:
            # No counter without a limit: it would be a hot row for all writers of the project.
            self.write(_COUNT, values)
            return
        # One statement checks the limit and counts: a separate check could be passed by two writers at once.
        if self._batch.defers and not self._is_repeated and not isinstance(limit, NewLimit):
            self.change(_COUNT_LIMITED, values)  # if that is refused, the next attempt finds out why
            return
        if self.connection.execute(_COUNT_LIMITED, values).rowcount:
            return
        if self.connection.execute(_COUNTED, {"p": project_id, "r": resource}).first() is not None:
            # It exists now: another writer may have created it since, so update once more before refusing.
            if self.connection.execute(_COUNT_LIMITED, values).rowcount:
                return
            raise errors.OverQuota(overs=[resource])
        # The first use under a limit: count all objects of the project, those of this transaction included.
        table = t.counted_rows().get(resource)
        used = amount if table is None else self.connection.execute(count_all(table), {"p": project_id}).scalar_one()
        if used > limit:
            raise errors.OverQuota(overs=[resource])
        # Of two first uses at the same time one fails on the primary key, and its write is retried.
        self.insert(t.quota_usages, [{"project_id": project_id, "resource": resource, "used": used}])


def assign_ids(rows: Sequence[Object]) -> int:
    """Give change-log rows ids that no other transaction has; returns the first one.

    They are chosen here, so that they are known although COMMIT is sent in the same packet. They grow with time, and are
    negative: the database's own ids, of earlier releases, continue where they are. On a collision the write is retried.
    """
    first = ID_FLOOR + (time.time_ns() // 1000 << ID_RANDOM_BITS) + random.getrandbits(ID_RANDOM_BITS)
    for number, row in enumerate(rows):
        row["id"] = first + (number << ID_RANDOM_BITS)
    return first


def fenced(connection: Connection, mark: int) -> bool:
    """Prevent the commit of the transaction with this mark: its row's id is taken. False if it has committed already."""
    row = {"id": mark, "kind": FENCE, "object_id": "", "deleted": True, "created": False, "at": now()}
    try:
        with connection.begin():
            # Waits while that transaction is still open on the same server; on another node, one of both fails.
            connection.execute(_insert(t.changes), row)
        return True
    except sa.exc.IntegrityError:
        with connection.begin():
            # An earlier attempt to insert it may have succeeded without an answer.
            return connection.execute(_KIND, {"id": mark}).scalar() == FENCE


@cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()  # no value that the database generates is needed here


@cache
def count_all(table: sa.FromClause) -> Selection:
    """The number of objects of a project (`p`) in a table."""
    return sa.select(sa.func.count()).select_from(table).where(table.c.project_id == sa.bindparam("p"))


_KIND = sa.select(t.changes.c.kind).where(t.changes.c.id == sa.bindparam("id"))
# For SQLite's driver: every write executes it, and SQLAlchemy's part in that was a twentieth of creating a port.
_ADVANCE_HEAD = f"UPDATE {t.change_head.name} SET position = position + ? WHERE id = 1 RETURNING position"  # noqa: S608
_KEY = sa.and_(t.quota_usages.c.project_id == sa.bindparam("p"), t.quota_usages.c.resource == sa.bindparam("r"))
_AMOUNT = sa.bindparam("n", type_=sa.Integer)
_COUNT = sa.update(t.quota_usages).where(_KEY).values(used=t.quota_usages.c.used + _AMOUNT)
_COUNT_LIMITED = _COUNT.where(t.quota_usages.c.used + _AMOUNT <= sa.bindparam("limit", type_=sa.Integer))
_COUNTED = sa.select(t.quota_usages.c.used).where(_KEY)
