"""Collections: how requests read and write the objects of a resource, written once for all of them.

A write reads what it depends on and decides, then writes everything in one transaction. What has changed in between makes
the transaction fail, by a foreign key, a unique key or the revision, and the request is decided again (`retried`).
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, fresh, new_id, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas


class Listing:
    """Reads the objects of a table, for requests."""

    def __init__(self, db: Database, view: View) -> None:
        self.db = db
        self._view = view

    def shown(self, row: Object) -> Object:
        """The form of a row in the API."""
        return row

    def index(self, context: Context, query: Query) -> list[Object]:
        with self.db.read() as connection:
            rows = self._view.many(connection, query, context.project_id)
        return [self.shown(row) for row in rows]

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self.db.read() as connection:
            row = self._view.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)
        return None if row is None else self.shown(row)


class Collection(Listing):
    """Reads and writes the objects of a table. A subclass overrides the steps that are its own: `new` to `also_write`."""

    needed: Sequence[str] = ()  # attributes that updates and deletes depend on, and the API does not show

    def __init__(self, db: Database, view: View, quotas: Quotas | None = None) -> None:
        """`quotas`: needed to create objects of a table that declares a quota."""
        super().__init__(db, view)
        self._table = view.table
        self._quotas = quotas
        has_hidden_revision = "revision_number" in self._table.c and "revision_number" not in view.stored
        self._more = (*view.added, *self.needed, *(("revision_number",) if has_hidden_revision else ()))
        is_shareable = "shared" in view.names and "shared" not in self._table.c
        self._delete_row = sharing.delete_object if is_shareable or "tags" in view.names else delete_row

    # --- steps of a write -----------------------------------------------------------------------------------------

    def new(self, context: Context, values: Object) -> Object:
        """Make the object that a request creates; names that are neither columns nor attributes are for later steps."""
        if "created_at" in self._table.c:
            return fresh(values, revision=0)
        return {"id": new_id(), **({"tenant_id": values["project_id"]} if "project_id" in values else {}), **values}

    def changed(self, context: Context, before: Object, values: Object) -> Object:
        """Make the object as it is after an update with these values."""
        return {**before, **values}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        """Refuse new objects; or complete them with what is read."""

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        """Refuse a change."""

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        """Refuse to delete an object in use."""

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        """Write what belongs to an object in the same transaction; None: it does not exist before, or afterwards.

        Called after the row is inserted or updated, and before it is deleted.
        """

    # --- requests -------------------------------------------------------------------------------------------------

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        """Create all of them, or none."""
        objects, limits = [self.new(context, dict(values)) for values in several], None
        with self.db.read() as connection:
            self.check_create(connection, context, objects)
            if quota := t.quota_of(self._table):
                assert self._quotas is not None, f"{self._table.name} has a quota"
                limits = self._quotas.limits(connection, quota, objects)
        with self.db.transaction() as tx:
            tx.insert(self._table, [as_row(self._table, one, self._view.renamed) for one in objects], limits)
            for one in objects:
                self.also_write(tx, None, one)
        return objects

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self.load(connection, context, key, revision)
            after = self.changed(context, before, dict(values))
            self.check_update(connection, context, before, after)
        written = {name: value for name, value in after.items() if name not in before or value != before[name]}
        with self.db.transaction() as tx:
            after |= update_row(tx, self._table, before, written, renamed=self._view.renamed)
            self.also_write(tx, before, after)
        return after

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self.load(connection, context, key, revision)
            self.check_delete(connection, context, before)
        with self.db.transaction() as tx:
            self.also_write(tx, before, None)
            self._delete_row(tx, self._table, before)

    def load(self, connection: Connection, context: Context, key: str, revision: int | None) -> Object:
        """Read the object before a change; an error if it is gone, or has another revision than the client requires."""
        return self._view.get(connection, key, context.project_id, revision=revision, more=self._more)


class ChildCollection:
    """Reads resources below a parent. The caller has to see the parent, whose project policy rules check."""

    def __init__(self, db: Database, view: View, parent: sa.Column[str], parents: View) -> None:
        """`parent`: the column with the parent's id."""
        self.db = db
        self._view, self._parent, self._parents = view, parent, parents

    def target(self, context: Context, parent_id: str, values: Object | None = None) -> Object:
        with self.db.read() as connection:
            parent = self._parents.show(
                connection, parent_id, project=context.project_id, everyone=context.is_admin, fields=("project_id",)
            )
        if parent is None:
            raise self._parents.not_found(id=parent_id)
        return {"ext_parent:project_id": parent["project_id"]}

    def index(self, context: Context, parent_id: str, query: Query) -> list[Object]:
        with self.db.read() as connection:
            return self._view.many(connection, query, context.project_id, self._parent == parent_id)

    def show(
        self, context: Context, parent_id: str, key: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object | None:
        self.target(context, parent_id)
        query = Query(fields=None if fields is None else tuple(fields), everyone=True)
        with self.db.read() as connection:
            rows = self._view.many(connection, query, None, self._parent == parent_id, self._view.key == key)
        return rows[0] if rows else None


def one_by_one(
    several: Sequence[Object], create: Callable[[Object], Object], undo: Callable[[str], None]
) -> list[Object]:
    """Create several objects, each in a transaction of its own: all or none.

    When one is refused, those created before are deleted again, by their ids.
    """
    created: list[Object] = []
    try:
        for values in several:
            created.append(create(values))
    except Exception:
        for one in reversed(created):
            undo(one["id"])
        raise
    return created
