"""The contract of a family: a kind of object in Neutron's database, how its rows become ours, and ours Neutron's.

A family is data: tables, pairs of columns, and a pure function for what is more than a pair. Features declare those of
their objects (`Feature.takeover`), the core has its own in `families/`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino.model.objects import Object, Values
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.inverse import Parts, Theirs, standard_columns
from neutrino.takeover.source import Bounds, Source

STANDARD_NAMES: Final = ("created_at", "updated_at", "description", "revision_number")


@dataclass(frozen=True)
class Pair:
    """A column of ours that has the value of one column of Neutron's."""

    ours: str
    theirs: str
    default: object = None  # where Neutron has NULL, or its release no such column


def pairs(*names: str, default: object = None) -> tuple[Pair, ...]:
    """Columns that have the same name."""
    return tuple(Pair(name, name, default) for name in names)


@dataclass(frozen=True)
class Owned:
    """A table of ours whose rows belong to the objects of a family."""

    table: sa.Table
    owner: str = "id"  # the column with the key of the object


@dataclass
class Chunk:
    """Some objects of a family: their rows in Neutron's table, and the rows composed for ours."""

    source: Source
    kind: str  # Neutron's table of the objects
    rows: Sequence[Object]
    deviations: Deviations
    dns_domain: str = ""
    key: str = "id"
    bounds: Bounds | None = None  # the first and the last key, if the rows are in its order
    composed: dict[sa.Table, list[Object]] = field(default_factory=dict)

    def children(self, table: str, column: str, of: str = "id") -> dict[object, list[Object]]:
        """Rows of another table of Neutron's by the object that they belong to."""
        bounds = self.bounds if of == self.key else None
        return self.source.children(table, column, {row.get(of) for row in self.rows}, bounds)

    def first(self, table: str, column: str, of: str = "id") -> dict[object, Object]:
        """The same, where there is at most one row for each object."""
        return {key: rows[0] for key, rows in self.children(table, column, of).items()}

    def tags(self) -> dict[object, list[str]]:
        """The tags of the objects by `standard_attr_id`, sorted as the API shows them."""
        found = self.children("tags", "standard_attr_id", "standard_attr_id")
        return {key: sorted({str(row["tag"]) for row in rows}) for key, rows in found.items()}

    def decoded(self, object_id: object, column: str, text: object, default: object) -> object:
        """JSON in a column of text; `default` where it is empty, or no JSON."""
        if not text:
            return default
        try:
            return msgspec.json.decode(str(text))
        except msgspec.DecodeError:
            self.deviations.repair(self.kind, object_id, f"{column} is no JSON: taken as empty")
            return default

    def add(self, table: sa.Table, values: Values) -> None:
        """Add a row of ours; lists and dictionaries become JSON."""
        self.composed.setdefault(table, []).append(as_row(table, values))

    def add_tags(self, object_id: str, tags: Sequence[str]) -> None:
        for tag in tags:
            self.add(t.tags, {"object_id": object_id, "tag": tag})


@dataclass(frozen=True)
class Shown:
    """A collection of the API that shows objects of a family."""

    path: str
    key: str = ""  # of the list in the answer, if it is not the path
    parts: Sequence[tuple[str, str]] = ()  # collections below an object: paths with {id}, and keys


@dataclass(frozen=True, kw_only=True)
class Family:
    name: str  # in progress and reports
    source: str  # Neutron's table of the objects
    key: str = "id"  # its unique column, which is also the key of `tables`
    tables: Sequence[Owned]  # ours, each after those that it refers to; the first one has the objects
    compose: Callable[[Chunk], None]
    reads: Sequence[str] = ()  # further tables of Neutron that it reads
    after: Sequence[str] = ()  # families that it refers to
    shown: Sequence[Shown] = ()
    ours: sa.ColumnElement[bool] | None = None  # rows of the first table that are none of Neutron's: left alone
    theirs: Sequence[Theirs] = ()  # Neutron's tables that an export writes, each after those that it refers to
    decompose: Callable[[Parts], None] | None = None  # the inverse of `compose`
    whole: bool = False  # read, compared and written at once: a small table, or one without a key in common


TAGS: Final = Owned(t.tags, "object_id")


def paired(row: Values, columns: Sequence[Pair]) -> Object:
    """The values of columns that are pairs."""
    return {pair.ours: pair.default if (value := row.get(pair.theirs)) is None else value for pair in columns}


def unpaired(row: Values, columns: Sequence[Pair]) -> Object:
    """The columns of Neutron's that have the values of ours."""
    return {pair.theirs: row[pair.ours] for pair in columns}


def timestamp(value: object) -> str:
    """A time as the API shows it; empty where there is none."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return "" if value is None else f"{str(value)[:19].replace(' ', 'T')}Z"


def standard(row: Values, deviations: Deviations, kind: str) -> Object:
    """What all objects have: id, project, name, description, times and revision."""
    if "standard_attr_id" in row and row.get("standard_resource_type") is None:
        deviations.repair(kind, row["id"], "has no standard attributes: revision 0, times empty")
    return {
        "id": row["id"],
        "project_id": row.get("project_id") or "",
        "name": row.get("name") or "",
        "description": row.get("standard_description"),
        "created_at": timestamp(row.get("standard_created_at")),
        "updated_at": timestamp(row.get("standard_updated_at")),
        "revision_number": row.get("standard_revision_number") or 0,
    }


def tagged(chunk: Chunk, table: sa.Table, columns: Sequence[Pair], **more: object) -> None:
    """Compose objects that are their standard attributes, tags and pairs of columns."""
    tags = chunk.tags()
    kind = chunk.kind
    for row in chunk.rows:
        labels = tags.get(row.get("standard_attr_id"), [])
        chunk.add(table, {**standard(row, chunk.deviations, kind), **paired(row, columns), **more, "tags": labels})
        chunk.add_tags(row["id"], labels)


def untagged(table: sa.Table, theirs: str, columns: Sequence[Pair], **more: object) -> Callable[[Parts], None]:
    """The inverse of `tagged`; `more`: columns of Neutron's that ours does not have."""

    def decompose(parts: Parts) -> None:
        for row in parts.rows[table]:
            parts.add(theirs, {**standard_columns(row), **unpaired(row, columns), **more})

    return decompose


def unpaired_rows(parts: Parts, table: sa.Table, theirs: str, columns: Sequence[Pair]) -> None:
    """Decompose rows that are pairs of columns."""
    for row in parts.rows[table]:
        parts.add(theirs, unpaired(row, columns))


def flag(row: Values | None, column: str, default: bool) -> bool:
    """A boolean of a side table, which may have no row."""
    value = None if row is None else row.get(column)
    return default if value is None else bool(value)
