"""Reading objects: how a table's rows become API objects, for one and for many.

A view maps API names to columns or expressions. Only the fields asked for are selected; JSON columns go to the client
as the text they are (`msgspec.Raw`), without being parsed on the way. A list is one query, however many rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.query import Query, Sort

Object = dict[str, Any]
Condition = sa.ColumnElement[bool]
FilterRule = Callable[[tuple[Any, ...]], Condition]
PROJECT = sa.bindparam("viewer_project", type_=sa.String)  # bound by `viewed_by`
_decode = msgspec.json.decode
BATCH = 500
Prepared = tuple[sa.Select[Any], tuple[str, ...], tuple[int, ...]]  # a statement, its names, which of them are JSON


def viewed_by(project: str | None) -> dict[str, str | None]:
    """The parameter of a statement with PROJECT in it. No project is NULL, which equals no row's project, not even the
    empty one that the server's own ports and networks have.
    """
    return {"viewer_project": project or None}


class View:
    """The API's view of one table.

    `scope` says whether a project may see a row, by the parameter PROJECT. `listed` says the same for lists, as ids that
    are looked up first by their indexes: asking every row with an OR would read the rows of all projects.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        columns: Iterable[str] = (),
        renamed: Mapping[str, str] | None = None,
        computed: Mapping[str, sa.ColumnElement[Any]] | None = None,
        filters: Mapping[str, FilterRule] | None = None,
        scope: Condition | None = None,
        listed: Condition | None = None,
        key: str = "id",
        hidden: Iterable[str] = (),
    ) -> None:
        self.table = table
        self.key = table.c[key]
        fields: dict[str, sa.ColumnElement[Any]] = {name: table.c[name] for name in columns}
        fields |= {name: table.c[column] for name, column in (renamed or {}).items()}
        if "project_id" in fields:
            fields["tenant_id"] = fields["project_id"]
        fields |= computed or {}
        self.fields = fields
        self.json = frozenset(name for name, column in fields.items() if isinstance(column.type, sa.Text))
        self.filters = dict(filters or {})
        self.scope = scope if scope is not None else table.c.project_id == PROJECT
        self.listed = listed if listed is not None else self.scope
        self.names = tuple(name for name in fields if name not in set(hidden))
        self._shows: dict[tuple[Any, ...], Prepared] = {}
        self._loads: dict[str, Prepared] = {}

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
        """The object for the API, or None if it is not there or not for this project to see."""
        wanted = tuple(fields) if fields is not None else self.names
        cached = self._shows.get((wanted, everyone))
        if cached is None:
            names, statement = self._select(wanted)
            statement = statement.where(self.key == sa.bindparam("key"))
            if not everyone:
                statement = statement.where(self.scope)
            cached = statement, names, self._json_positions(names)
            self._shows[wanted, everyone] = cached
        statement, names, positions = cached
        row = connection.execute(statement, {"key": key, **viewed_by(project)}).first()
        return None if row is None else _object(names, positions, row)

    def load(self, connection: Connection, key: str, project: str | None = None) -> Object | None:
        """The object with plain Python values, whoever it belongs to: for the server's own decisions."""
        row = self.show(connection, key, project=project, everyone=True)
        return None if row is None else self.decoded(row)

    def load_where(self, connection: Connection, *conditions: Condition, project: str | None = None) -> list[Object]:
        names, statement = self._select(self.names)
        rows = connection.execute(statement.where(*conditions), viewed_by(project)).all()
        positions = self._json_positions(names)
        return [self.decoded(_object(names, positions, row)) for row in rows]

    def load_in(self, connection: Connection, column: str, values: Sequence[Any]) -> list[Object]:
        """The objects whose column has one of the values."""
        cached = self._loads.get(column)
        if cached is None:
            names, statement = self._select(self.names)
            among = self.table.c[column].in_(sa.bindparam("among", expanding=True))
            cached = statement.where(among), names, self._json_positions(names)
            self._loads[column] = cached
        statement, names, positions = cached
        rows = connection.execute(statement, {"among": list(values), **viewed_by(None)}).all()
        return [self.decoded(_object(names, positions, row)) for row in rows]

    def decoded(self, row: Object) -> Object:
        return {k: _decode(v) if isinstance(v, msgspec.Raw) else v for k, v in row.items()}

    # --- many -----------------------------------------------------------------------------------------------------

    def many(self, connection: Connection, query: Query, project: str | None, *conditions: Condition) -> list[Object]:
        objects = list(self.stream(connection, query, project, *conditions))
        return objects[::-1] if query.reverse else objects

    def stream(
        self, connection: Connection, query: Query, project: str | None, *conditions: Condition
    ) -> Iterator[Object]:
        """The objects one after the other, so that a long list is never in memory as a whole; not for reversed pages."""
        names, statement = self._select(self.names if query.fields is None else query.fields)
        where = [*conditions, *self._conditions(query)]
        if not query.everyone:
            where.append(self.listed)
        parameters = viewed_by(project)
        if query.limit is not None or query.marker is not None or query.sorts or query.is_ordered:
            statement = self._page(connection, statement, query, where, parameters)
        if where:
            statement = statement.where(*where)
        positions = self._json_positions(names)
        for rows in connection.execute(statement, parameters).partitions(BATCH):
            for row in rows:
                yield _object(names, positions, row)

    def _page(
        self,
        connection: Connection,
        statement: sa.Select[Any],
        query: Query,
        where: list[Condition],
        parameters: Mapping[str, Any],
    ) -> sa.Select[Any]:
        """The statement in its order, from its marker on, up to its limit."""
        sorts = [*query.sorts, Sort(self.key.name)]
        if query.reverse:
            sorts = [Sort(s.key, not s.descending) for s in sorts]
        if query.marker is not None:
            where.append(self._after(connection, query.marker, sorts, parameters))
        for s in sorts:
            statement = statement.order_by(_ordered(self._column(s.key), s.descending, connection))
        return statement if query.limit is None else statement.limit(query.limit)

    def _column(self, name: str) -> sa.ColumnElement[Any]:
        return self.fields[name] if name in self.fields else self.table.c[name]

    def _select(self, wanted: Sequence[str]) -> tuple[tuple[str, ...], sa.Select[Any]]:
        names = tuple(name for name in wanted if name in self.fields)
        # At least the key is selected, so that a list of objects without any field still has its length.
        columns: list[Any] = [self.fields[name].label(f"c{i}") for i, name in enumerate(names)]
        columns = columns or [sa.literal(1)]
        return names, sa.select(*columns).select_from(self.table)

    def _json_positions(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(names) if name in self.json)

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

    def _after(
        self, connection: Connection, marker: str, sorts: Sequence[Sort], parameters: Mapping[str, Any]
    ) -> Condition:
        """The rows behind the marker in the order of `sorts`: later in the first key, or equal there and later on."""
        columns = [self._column(s.key) for s in sorts]
        found = connection.execute(sa.select(*columns).where(self.key == marker), parameters).first()
        if found is None:  # it has gone since the API looked: nothing is behind it
            return sa.false()
        behind: Condition = sa.false()
        for s, column, value in reversed(list(zip(sorts, columns, found, strict=True))):
            equal = column.is_(None) if value is None else column == value
            behind = sa.or_(_beyond(column, value, s.descending), sa.and_(equal, behind))
        return behind


_EMPTY = {text: msgspec.Raw(text) for text in ("[]", "{}", "null")}


def _beyond(column: sa.ColumnElement[Any], value: Any, descending: bool) -> Condition:
    """Whether a row comes after one that has `value` in this column; NULL is the least value."""
    if value is None:
        return sa.false() if descending else column.is_not(None)
    if isinstance(value, bool):  # no operator of SQL has truth after falsehood on every database
        if descending:
            return sa.or_(sa.not_(column), column.is_(None)) if value else column.is_(None)
        return sa.false() if value else sa.and_(column.is_not(None), column)
    return sa.or_(column < value, column.is_(None)) if descending else column > value


def _ordered(column: sa.ColumnElement[Any], descending: bool, connection: Connection) -> sa.UnaryExpression[Any]:
    """In order, with NULL as the least value: so SQLite and MariaDB have it, and PostgreSQL when told."""
    order = column.desc() if descending else column.asc()
    # Not where there is no NULL: an index on the column could not serve an order that says where they go.
    if connection.dialect.name == "postgresql" and getattr(column, "nullable", True):
        return order.nulls_last() if descending else order.nulls_first()
    return order


def _object(names: tuple[str, ...], json_positions: tuple[int, ...], row: sa.Row[Any]) -> Object:
    values: list[Any] = list(row)
    for i in json_positions:
        text = values[i]
        values[i] = _EMPTY.get(text) or msgspec.Raw(text)
    return dict(zip(names, values, strict=False))


def one_of(column: sa.ColumnElement[Any], values: tuple[Any, ...]) -> Condition:
    present = [v for v in values if v is not None]
    if len(present) < len(values):
        return sa.or_(column.is_(None), column.in_(present)) if present else column.is_(None)
    return column == present[0] if len(present) == 1 else column.in_(present)


def shared_with_viewer(object_id: sa.ColumnElement[Any], action: str = "access_as_shared") -> Condition:
    """Whether an RBAC policy opens the object to the viewer's project or to all."""
    c = t.rbac_policies.c
    return sa.exists(
        sa.select(c.id).where(
            c.object_id == object_id, c.action == action, sa.or_(c.target_project == "*", c.target_project == PROJECT)
        )
    )


def among(table: sa.Table, *ids: sa.Select[Any]) -> Condition:
    """The rows whose id one of the selects gives. The derived table makes MariaDB look these up first."""
    found = sa.union_all(*ids).subquery()
    return table.c.id.in_(sa.select(found.c[0]))


def own_ids(table: sa.Table) -> sa.Select[Any]:
    own = table.alias()
    return sa.select(own.c.id).where(own.c.project_id == PROJECT)


def shared_ids(*actions: str) -> sa.Select[Any]:
    """Ids of objects that RBAC policies open to the viewer's project or to all."""
    c = t.rbac_policies.c
    return sa.select(c.object_id).where(
        c.action.in_(actions or ("access_as_shared",)), c.target_project.in_(("*", PROJECT))
    )


# --- tags ---------------------------------------------------------------------------------------------------------


def _has_all(key: sa.ColumnElement[Any]) -> FilterRule:
    return lambda names: sa.and_(*(_has(key, (name,)) for name in names))


def _has(key: sa.ColumnElement[Any], names: Sequence[str]) -> Condition:
    return sa.exists(sa.select(t.tags.c.tag).where(t.tags.c.object_id == key, t.tags.c.tag.in_(list(names))))


TAG_FILTERS: dict[str, Callable[[sa.ColumnElement[Any]], FilterRule]] = {
    "tags": _has_all,
    "tags-any": lambda key: lambda names: _has(key, names),
    "not-tags": lambda key: lambda names: sa.not_(_has_all(key)(names)),
    "not-tags-any": lambda key: lambda names: sa.not_(_has(key, names)),
}
