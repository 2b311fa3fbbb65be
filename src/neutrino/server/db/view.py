"""Reading objects: how rows of a table become API objects.

A view maps API names to columns or expressions; by default every column is an attribute of the same name. Only the fields
asked for are selected. JSON columns reach the client as the text they are (`msgspec.Raw`), without being parsed. A list is
one query, however many rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import check_revision
from neutrino.server.db.reads import Read, first, read
from neutrino.server.db.sql import Condition, Expression, Row, Selection
from neutrino.server.query import Query, Sort

FilterRule = Callable[[tuple[object, ...]], Condition]
PROJECT = sa.bindparam("viewer_project", type_=sa.String)  # bound by `viewed_by`
BATCH = 100
MAX_PREPARED = 64  # statements kept for `show`; real clients use a few combinations of fields
_decode = msgspec.json.decode
_EMPTY = {text: msgspec.Raw(text) for text in ("[]", "{}", "null")}  # most JSON columns of most rows


def viewed_by(project: str | None) -> dict[str, str | None]:
    """The parameter of a statement that contains PROJECT.

    No project is NULL, which equals no row's project, not even the empty one of the server's own ports and networks.
    """
    return {"viewer_project": project or None}


@dataclass(frozen=True)
class _Prepared:
    """A statement with the API names of its columns. Views keep these, because making one costs more than running it."""

    statement: Selection
    names: tuple[str, ...]
    json: tuple[int, ...]  # the positions of JSON columns

    def reading(self, **parameters: object) -> Read[Row | None]:
        return Read(self.statement, parameters, first)

    def loading(self, **parameters: object) -> Read[list[Object]]:
        return Read(self.statement, {**viewed_by(None), **parameters}, lambda rows: [self.decoded(row) for row in rows])

    def decoded(self, row: Row | sa.Row[Row]) -> Object:
        """Return an object for the server's own decisions: with the values of JSON columns."""
        values = list(row)
        for i in self.json:
            values[i] = _decode(values[i])
        return dict(zip(self.names, values, strict=False))

    def object(self, row: Row | sa.Row[Row]) -> Object:
        """Return an object for the API: JSON columns are sent as they are."""
        values = list(row)
        for i in self.json:
            text = values[i]
            values[i] = _EMPTY.get(text) or msgspec.Raw(text)
        return dict(zip(self.names, values, strict=False))


@dataclass(frozen=True)
class Added:
    """An attribute from other tables: the columns that it needs, and a function that gives its value for each row."""

    needs: tuple[str, ...]
    read: Callable[[Connection, Sequence[Object]], Iterable[object]]


class View:
    """The API's view of one table.

    `renamed` maps API names to columns, `computed` adds expressions, `hidden` attributes are read only when asked for.
    `scope` is the condition under which the viewer's project (PROJECT) may see a row. `listed` is the same condition for
    lists, as ids that are looked up by their indexes first: an OR over all rows would read the rows of all projects.
    Other rows of the table than those of `only` do not exist for the view.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        columns: Iterable[str] | None = None,
        renamed: Mapping[str, str] | None = None,
        computed: Mapping[str, Expression] | None = None,
        filters: Mapping[str, FilterRule] | None = None,
        scope: Condition | None = None,
        listed: Condition | None = None,
        only: Condition | None = None,
        key: str = "id",
        hidden: Iterable[str] = (),
        not_found: type[errors.ApiError] = errors.NotFound,
    ) -> None:
        self.table = table
        self.not_found = not_found
        self.key = table.c[key]
        self.renamed = other = renamed or {}
        own = table.c.keys() if columns is None else columns
        fields: dict[str, Expression] = {name: table.c[name] for name in own if name not in other.values()}
        fields |= {name: table.c[column] for name, column in other.items()}
        # Both names are shown; clients of either age find theirs.
        if "project_id" in fields:
            fields["tenant_id"] = fields["project_id"]
        fields |= computed or {}
        self.fields = fields
        self.json = frozenset(name for name, column in fields.items() if isinstance(column.type, sa.Text))
        self.filters = dict(filters or {})
        self.scope = scope if scope is not None else table.c.project_id == PROJECT
        self._only = () if only is None else (only,)
        self.listed = listed if listed is not None else self.scope
        self.names = self.stored = tuple(name for name in fields if name not in set(hidden))
        self.added: Mapping[str, Added] = {}
        self._shows: dict[tuple[object, ...], _Prepared] = {}
        self._loads: dict[tuple[str, bool], _Prepared] = {}

    def extended(self, computed: Mapping[str, Expression], filters: Mapping[str, FilterRule]) -> View:
        """A copy with further attributes, which are expressions of the same statement."""
        view = copy(self)
        view.fields = {**self.fields, **computed}
        view.json = self.json | {name for name, column in computed.items() if isinstance(column.type, sa.Text)}
        view.filters = {**self.filters, **filters}
        view.names = view.stored = (*self.names, *computed)
        view._shows, view._loads = {}, {}
        return view

    def with_hidden(self, names: Iterable[str]) -> View:
        """A copy that shows some of the hidden attributes."""
        view = copy(self)
        view.names = view.stored = (*self.names, *names)
        view._shows, view._loads = {}, {}
        return view

    def composed(self, added: Mapping[str, Added]) -> View:
        """A copy with attributes from other tables, each read for all rows of a list at once; not for `stream`."""
        view = copy(self)
        view.names, view.added = (*self.names, *added), added
        view._shows, view._loads = {}, {}
        return view

    # --- one object -----------------------------------------------------------------------------------------------

    def show(
        self,
        connection: Connection,
        key: str,
        *,
        project: str | None,
        everyone: bool,
        fields: Sequence[str] | None = None,
    ) -> Object | None:
        """The object as the API shows it, or None if it does not exist or the project may not see it."""
        wanted = tuple(fields) if fields is not None else self.names
        prepared = self._prepared_show(wanted, everyone)
        row = read(connection, prepared.reading(key=key, **viewed_by(project)))
        return None if row is None else self._complete(connection, [prepared.object(row)], wanted)[0]

    def _prepared_show(self, wanted: tuple[str, ...], everyone: bool) -> _Prepared:
        prepared = self._shows.get((wanted, everyone))
        if prepared is None:
            where = [self.key == sa.bindparam("key"), *(() if everyone else (self.scope,))]
            if len(self._shows) >= MAX_PREPARED:  # clients choose the fields: any number of combinations
                self._shows.clear()
            prepared = self._shows[wanted, everyone] = self._select(wanted, *where)
        return prepared

    def reading(self, key: str, project: str | None = None, *, everyone: bool = True) -> Read[Object | None]:
        """What `load` reads, to be read together with others; for views without attributes from other tables."""
        prepared = self._prepared_show(self.stored, everyone)

        def loaded(rows: Sequence[Row]) -> Object | None:
            return prepared.decoded(rows[0]) if rows else None

        return Read(prepared.statement, {"key": key, **viewed_by(project)}, loaded)

    def load(
        self,
        connection: Connection,
        key: str,
        project: str | None = None,
        *,
        everyone: bool = True,
        more: Sequence[str] = (),
    ) -> Object | None:
        """The object with decoded values, of whichever project: for the server's own decisions.

        `more`: attributes besides the visible ones of the object's row.
        """
        wanted = (*self.stored, *more)
        prepared = self._prepared_show(wanted, everyone)
        row = read(connection, prepared.reading(key=key, **viewed_by(project)))
        if row is None:
            return None
        found = prepared.decoded(row)
        return self.decoded(self._complete(connection, [found], wanted)[0]) if self.added else found

    def found(self, key: str, loaded: Object | None, revision: int | None = None) -> Object:
        """What was read; an error if the object does not exist or has another revision than `If-Match` asks for."""
        if loaded is None:
            raise self.not_found(id=key)
        check_revision(loaded, revision)
        return loaded

    def get(
        self, connection: Connection, key: str, project: str | None = None, *, revision: int | None = None, **how: Any
    ) -> Object:
        """`load`, with the error for an object that does not exist or has another revision than `If-Match` asks for."""
        return self.found(key, self.load(connection, key, project, **how), revision)

    def get_visible(self, connection: Connection, context: Context, key: str) -> Object:
        """`get` for a request that refers to the object: an error too if the caller may not see it."""
        return self.get(connection, key, context.project_id, everyone=context.is_admin)

    def load_where(self, connection: Connection, *conditions: Condition) -> list[Object]:
        prepared = self._select(self.stored, *conditions)
        rows = connection.execute(prepared.statement, viewed_by(None)).all()
        return [prepared.decoded(row) for row in rows]

    def load_kept(self, *conditions: Condition) -> Callable[..., Read[list[Object]]]:
        """`load_where` with conditions on parameters: compiled once."""
        return self._select(self.stored, *conditions).loading

    def load_in(self, connection: Connection, column: str, values: Sequence[object]) -> list[Object]:
        """The objects whose column has one of the values."""
        return read(connection, self.reading_in(column, values))

    def reading_in(self, column: str, values: Sequence[object]) -> Read[list[Object]]:
        """What `load_in` reads, to be read together with others."""
        among = values[0] if len(values) == 1 else list(values)
        return self._prepared_load(column, len(values) == 1).loading(among=among)

    def _prepared_load(self, column: str, is_single: bool) -> _Prepared:
        prepared = self._loads.get((column, is_single))
        if prepared is None:
            own = self.table.c[column]
            # A statement whose text does not depend on the number of values is found faster by all who keep statements.
            condition = own == sa.bindparam("among") if is_single else own.in_(sa.bindparam("among", expanding=True))
            prepared = self._loads[column, is_single] = self._select(self.stored, condition)
        return prepared

    def decoded(self, row: Object) -> Object:
        return {k: _decode(v) if isinstance(v, msgspec.Raw) else v for k, v in row.items()}

    # --- many -----------------------------------------------------------------------------------------------------

    def many(self, connection: Connection, query: Query, project: str | None, *conditions: Condition) -> list[Object]:
        objects = list(self.stream(connection, query, project, *conditions))
        wanted = self.names if query.fields is None else query.fields
        return self._complete(connection, objects[::-1] if query.reverse else objects, wanted)

    def stream(
        self, connection: Connection, query: Query, project: str | None, *conditions: Condition
    ) -> Iterator[Object]:
        """The objects one by one, so that a long list is never in memory as a whole; not for reversed pages."""
        where = [*conditions, *self._conditions(query), *(() if query.everyone else (self.listed,))]
        prepared = self._select(self.names if query.fields is None else query.fields, *where)
        statement, parameters = prepared.statement, viewed_by(project)
        # Without a page no order is promised, and none is paid for.
        if query.limit is not None or query.marker is not None or query.sorts or query.is_ordered:
            statement = self._page(connection, statement, query, parameters)
        for rows in connection.execute(statement, parameters).partitions(BATCH):
            for row in rows:
                yield prepared.object(row)

    def _page(self, connection: Connection, statement: Selection, query: Query, parameters: Values) -> Selection:
        """The statement for one page: ordered, after the marker, up to the limit."""
        # The key makes the order total: pages neither repeat nor skip rows that are equal in all sort keys.
        sorts = [*query.sorts, Sort(self.key.name)]
        if query.reverse:
            sorts = [Sort(s.key, not s.descending) for s in sorts]
        if query.marker is not None:
            statement = statement.where(self._after(connection, query.marker, sorts, parameters))
        for s in sorts:
            statement = statement.order_by(_ordered(self._column(s.key), s.descending, connection))
        return statement if query.limit is None else statement.limit(query.limit)

    def _column(self, name: str) -> Expression:
        return self.fields[name] if name in self.fields else self.table.c[name]

    def _select(self, wanted: Sequence[str], *conditions: Condition) -> _Prepared:
        needed = (column for name in wanted if name in self.added for column in self.added[name].needs)
        names = tuple(dict.fromkeys([*(name for name in wanted if name in self.fields), *needed]))
        columns: list[Expression] = [self.fields[name].label(f"c{i}") for i, name in enumerate(names)]
        # A list of objects without any field still has its length.
        statement = sa.select(*(columns or [sa.literal(1)])).select_from(self.table).where(*self._only, *conditions)
        return _Prepared(statement, names, tuple(i for i, name in enumerate(names) if name in self.json))

    def _complete(self, connection: Connection, rows: list[Object], wanted: Sequence[str]) -> list[Object]:
        """The rows with their added attributes, without the columns that only these needed."""
        if not self.added:
            return rows
        for name, added in self.added.items():
            if rows and name in wanted:
                for row, value in zip(rows, added.read(connection, rows), strict=True):
                    row[name] = value
        return [{name: row[name] for name in wanted if name in row} for row in rows]

    def _conditions(self, query: Query) -> list[Condition]:
        out = []
        for name, values in query.filters.items():
            if name in self.filters:
                out.append(self.filters[name](values))
            elif name in TAG_FILTERS:
                out.append(TAG_FILTERS[name](self.key)(values))
            elif name == "changed_since":
                out.append(self.table.c.updated_at >= values[0])
            else:
                out.append(one_of(self._column(name), values))
        return out

    def _after(self, connection: Connection, marker: str, sorts: Sequence[Sort], parameters: Values) -> Condition:
        """The rows after the marker in the order of `sorts`: greater in the first key, or equal there and greater later."""
        columns = [self._column(s.key) for s in sorts]
        found = connection.execute(sa.select(*columns).where(self.key == marker), parameters).first()
        if found is None:  # deleted since the API checked it: no page follows
            return sa.false()
        # Not a row comparison (a, b) > (x, y): sort keys may have different directions, and NULLs.
        behind: Condition | None = None
        for s, column, value in reversed(list(zip(sorts, columns, found, strict=True))):
            equal = column.is_(None) if value is None else column == value
            beyond = _beyond(column, value, s.descending)
            behind = beyond if behind is None else sa.or_(beyond, sa.and_(equal, behind))
        assert behind is not None, "a page is sorted by the key at least"
        # Implied by the rest, but a plain range: a database starts in the index there, instead of reading all before it.
        first, start, descending = columns[0], found[0], sorts[0].descending
        if isinstance(start, str) and not getattr(first, "nullable", True):
            return sa.and_(first <= start if descending else first >= start, behind)
        return behind


def _beyond(column: Expression, value: Any, descending: bool) -> Condition:
    """The condition for rows that sort after `value` in this column; NULL is the least value."""
    if value is None:
        return sa.false() if descending else column.is_not(None)
    if isinstance(value, bool):  # booleans have no order that is the same on every database
        if descending:
            return sa.or_(sa.not_(column), column.is_(None)) if value else column.is_(None)
        return sa.false() if value else sa.and_(column.is_not(None), column)
    return sa.or_(column < value, column.is_(None)) if descending else column > value


def _ordered(column: Expression, descending: bool, connection: Connection) -> Expression:
    """The sort order with NULL as the least value: the default of SQLite and MariaDB, explicit for PostgreSQL."""
    order = column.desc() if descending else column.asc()
    # Not for NOT NULL columns: PostgreSQL cannot use the column's index for an order with NULLS FIRST.
    if connection.dialect.name == "postgresql" and getattr(column, "nullable", True):
        return order.nulls_last() if descending else order.nulls_first()
    return order


def one_of(column: Expression, values: tuple[object, ...]) -> Condition:
    present = [v for v in values if v is not None]  # NULL is never IN a list
    if len(present) < len(values):
        return sa.or_(column.is_(None), column.in_(present)) if present else column.is_(None)
    return column == present[0] if len(present) == 1 else column.in_(present)


def shared_with_viewer(object_id: Expression, action: str = "access_as_shared") -> Condition:
    """The condition that an RBAC policy shares the object with the viewer's project or with all."""
    c = t.rbac_policies.c
    return sa.exists(
        sa.select(c.id).where(
            c.object_id == object_id, c.action == action, sa.or_(c.target_project == "*", c.target_project == PROJECT)
        )
    )


def among(table: sa.Table, *ids: Selection) -> Condition:
    """The rows whose id is in one of the selects. The derived table makes MariaDB evaluate these first."""
    # UNION ALL: duplicates do not matter for IN, and removing them would sort the ids.
    found = sa.union_all(*ids).subquery()
    return table.c.id.in_(sa.select(found.c[0]))


def own_ids(table: sa.Table) -> Selection:
    own = table.alias()  # an alias, so that SQLAlchemy does not correlate it with the outer statement
    return sa.select(own.c.id).where(own.c.project_id == PROJECT)


def shared_ids(*actions: str) -> Selection:
    """Ids of objects that RBAC policies share with the viewer's project or with all."""
    c = t.rbac_policies.c
    return sa.select(c.object_id).where(
        c.action.in_(actions or ("access_as_shared",)), c.target_project.in_(("*", PROJECT))
    )


def shareable_view(table: sa.Table, not_found: type[errors.ApiError], *, hidden: Iterable[str] = ()) -> View:
    """The view of a table whose objects RBAC policies share: `shared` is an attribute, and makes an object visible."""
    shared = shared_with_viewer(table.c.id)
    return View(
        table,
        computed={"shared": shared},
        scope=sa.or_(table.c.project_id == PROJECT, shared),
        listed=among(table, own_ids(table), shared_ids()),
        hidden=hidden,
        not_found=not_found,
    )


# --- tags ---------------------------------------------------------------------------------------------------------


def _has_all(key: Expression) -> FilterRule:
    return lambda names: sa.and_(*(_has(key, (name,)) for name in names))


def _has(key: Expression, names: Sequence[object]) -> Condition:
    return sa.exists(sa.select(t.tags.c.tag).where(t.tags.c.object_id == key, t.tags.c.tag.in_(list(names))))


TAG_FILTERS: dict[str, Callable[[Expression], FilterRule]] = {
    "tags": _has_all,
    "tags-any": lambda key: lambda names: _has(key, names),
    "not-tags": lambda key: lambda names: sa.not_(_has_all(key)(names)),
    "not-tags-any": lambda key: lambda names: sa.not_(_has(key, names)),
}
