"""Collections: how requests read and write the objects of a resource, written once for all of them.

A write reads what it depends on and decides, then writes everything in one transaction. What has changed in between makes
the transaction fail, by a foreign key, a unique key or the revision, and the request is decided again (`retried`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.access import sharing
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, fresh, new_id, update_row
from neutrino.server.db.reads import read_together
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.errors import ApiError
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
        self._has_policies_or_tags = is_shareable or "tags" in view.names

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
        return self.write_change(before, after)

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self.load(connection, context, key, revision)
            self.check_delete(connection, context, before)
        with self.db.transaction() as tx:
            self.also_write(tx, before, None)
            self.delete_row(tx, before)

    # --- parts of requests, also of other actions -----------------------------------------------------------------

    def write_change(self, before: Object, after: Object, bump: int = 1) -> Object:
        """Write an object that was read and decided upon; `bump`: how much its revision is raised."""
        written = {name: value for name, value in after.items() if name not in before or value != before[name]}
        with self.db.transaction() as tx:
            after |= update_row(tx, self._table, before, written, renamed=self._view.renamed, bump=bump)
            self.also_write(tx, before, after)
        return after

    def delete_row(self, tx: Transaction, before: Object) -> None:
        (sharing.delete_object if self._has_policies_or_tags else delete_row)(tx, self._table, before)

    def load(self, connection: Connection, context: Context, key: str, revision: int | None) -> Object:
        """Read the object before a change; an error if it is gone, or has another revision than the client requires."""
        return self._view.get(connection, key, context.project_id, revision=revision, more=self._more)


class DefaultedCollection(Collection):
    """A collection whose lists have the default objects of a project, which are created first."""

    def __init__(self, db: Database, view: View, quotas: Quotas, ensure_default: Callable[[str], object]) -> None:
        """`ensure_default` creates the default objects of a project that has none."""
        super().__init__(db, view, quotas)
        self._ensure_default = ensure_default

    def index(self, context: Context, query: Query) -> list[Object]:
        project = query.text("project_id", context.project_id or "")
        # A filter may be any text, which no project has as its id.
        is_project = 0 < len(project) <= 255
        if is_project and (context.is_admin or project == context.project_id) and not self.db.is_frozen():
            self._ensure_default(project)
        return super().index(context, query)


class OneByOneCollection(Collection):
    """A collection whose new objects depend on what is stored: several are created in a transaction each."""

    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        create = super().create_several
        return one_by_one(
            several,
            lambda values: create(context, [values])[0],
            lambda key: self.delete(admin_context(), key, None),
        )


class ChildCollection:
    """Reads and writes resources below a parent. The caller has to see the parent, whose project policy rules check.

    A subclass overrides the steps that are its own: `changed`, `check` and `also_write`. In these `before` is None for a
    new object, and `after` for one that is deleted.
    """

    def __init__(self, db: Database, view: View, parent: sa.Column[str], parents: View) -> None:
        """`parent`: the column with the parent's id."""
        self.db = db
        self._view, self._parent, self._parents = view, parent, parents
        self._mine = parent == sa.bindparam("parent", type_=sa.String), view.key == sa.bindparam("as_read")
        self._load = view.load_kept(*self._mine)

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

    # --- steps of a write -----------------------------------------------------------------------------------------

    def changed(self, before: Object | None, values: Object) -> Object:
        """Make the object that a request creates, or as it is after an update with these values."""
        return {**({"id": new_id()} if before is None else before), **values}

    def check(
        self, connection: Connection, context: Context, parent: Object, before: Object | None, after: Object | None
    ) -> None:
        """Refuse a write; or complete the parent or the object with what is read."""

    def also_write(self, tx: Transaction, parent: Object, before: Object | None, after: Object | None) -> None:
        """Write what belongs to the object in the same transaction, as a part of its parent.

        Called before its own row is written: a new row locks its parent's for reading, and two requests that went on to
        change the parent's would wait for each other.
        """

    # --- requests -------------------------------------------------------------------------------------------------

    @retried
    def create(self, context: Context, parent_id: str, values: Object) -> Object:
        table = self._view.table
        with self.db.read() as connection:
            parent = self._parents.get(connection, parent_id)
            after = self.changed(None, {**values, self._parent.name: parent_id})
            self.check(connection, context, parent, None, after)
        with self.db.transaction() as tx:
            self.also_write(tx, parent, None, after)
            tx.insert(table, [as_row(table, after)])
        return after

    @retried
    def update(self, context: Context, parent_id: str, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            parent, before = self._read(connection, parent_id, key)
            after = self.changed(before, values)
            self.check(connection, context, parent, before, after)
        with self.db.transaction() as tx:
            self.also_write(tx, parent, before, after)
            # Stale: deleted since, as together with another object. The next attempt does not find it.
            tx.change(sa.update(self._view.table).where(*self._mine), self._row(parent_id, key, after))
        return after

    @retried
    def delete(self, context: Context, parent_id: str, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            parent, before = self._read(connection, parent_id, key)
            self.check(connection, context, parent, before, None)
        with self.db.transaction() as tx:
            self.also_write(tx, parent, before, None)
            tx.change(sa.delete(self._view.table).where(*self._mine), self._row(parent_id, key, {}))

    def _read(self, connection: Connection, parent_id: str, key: str) -> tuple[Object, Object]:
        """The parent and the object before a change, in one round trip."""
        parent, rows = read_together(
            connection, self._parents.reading(parent_id), self._load(parent=parent_id, as_read=key)
        )
        parent = self._parents.found(parent_id, parent)
        if not rows:
            raise self._view.not_found(id=key)
        return parent, rows[0]

    def _row(self, parent_id: str, key: str, values: Object) -> Object:
        return {**as_row(self._view.table, values), "parent": parent_id, "as_read": key}


def child_view(parent: sa.Column[str], parents: sa.Table, not_found: type[ApiError], **more: Any) -> View:
    """The view of objects below a parent: whoever sees the parent, sees them. `parent`: the column with its id."""
    table = parent.table
    assert isinstance(table, sa.Table)
    owner = sa.select(parents.c.project_id).where(parents.c.id == parent).scalar_subquery()
    hidden = ("ext_parent:project_id", parent.name)
    computed = {"ext_parent:project_id": owner}
    return View(table, computed=computed, scope=sa.true(), hidden=hidden, not_found=not_found, **more)


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
