"""Parts of collections: `index` and `show` of a resource from its view, plain updates, and bulk creates of all or none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.context import Context
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.query import Query


@dataclass(eq=False)
class ViewCollection:
    db: Database
    _view: View
    _shown: Callable[[Object], Object] = lambda row: row  # the form of a row in the API

    def index(self, context: Context, query: Query) -> list[Object]:
        with self.db.read() as connection:
            rows = self._view.many(connection, query, context.project_id)
        return [self._shown(row) for row in rows]

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self.db.read() as connection:
            row = self._view.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)
        return None if row is None else self._shown(row)


@dataclass(eq=False)
class RowUpdates:
    """`update` of a resource whose writable attributes are columns of its row, and nothing else depends on them."""

    db: Database
    _view: View

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self._view.get(connection, key, revision=revision)
        with self.db.transaction() as tx:
            stamp = update_row(tx, self._view.table, before, values)
        return {**before, **values, **stamp}


@dataclass(eq=False)
class ChildViewCollection:
    """Resources below a parent. The caller has to see the parent, whose project policy rules check."""

    db: Database
    _view: View
    _parent: sa.Column[str]  # the column with the parent's id
    _parents: View  # the view of the parents

    def target(self, context: Context, parent_id: str, _: Any = None) -> Object:
        with self.db.read() as connection:
            found = self._parents.show(
                connection, parent_id, project=context.project_id, everyone=context.is_admin, fields=("project_id",)
            )
        if found is None:
            raise self._parents.not_found(id=parent_id)
        return {"ext_parent:project_id": found["project_id"]}

    def index(self, context: Context, parent_id: str, query: Query) -> list[Object]:
        with self.db.read() as connection:
            return self._view.many(connection, query, context.project_id, self._parent == parent_id)

    def show(
        self, context: Context, parent_id: str, key: str, fields: Sequence[str] | None, everyone: bool
    ) -> Object | None:
        self.target(context, parent_id)
        asked = Query(fields=None if fields is None else tuple(fields), everyone=True)
        with self.db.read() as connection:
            rows = self._view.many(connection, asked, None, self._parent == parent_id, self._view.key == key)
        return rows[0] if rows else None


def one_by_one(
    several: Sequence[Object], create: Callable[[Object], Object], undo: Callable[[str], None]
) -> list[Object]:
    """A bulk create of objects that are written one by one: all or none.

    When one is refused, those created before are deleted again, by their ids.
    """
    made: list[Object] = []
    try:
        for values in several:
            made.append(create(values))
    except Exception:
        for one in reversed(made):
            undo(one["id"])
        raise
    return made
