"""How tables are declared: each of these functions makes a table, or a column for each name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

import sqlalchemy as sa

from neutrino.server.db.sql import ColumnOptions, Columns, ColumnType

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")  # TEXT ends at 64 KiB there
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows only in an INTEGER


@dataclass(frozen=True)
class History:
    """How changes of a table's rows are written to the change log."""

    kind: str  # of the change-log rows
    feed: bool = False  # hosts get these objects: the feed reads the changes
    secrets: frozenset[str] = frozenset()  # attributes whose values the log does not get


def table(
    name: str, *parts: Columns | sa.schema.SchemaItem, history: History | None = None, quota: str = ""
) -> sa.Table:
    """A table; with a history, changes of its rows are logged; with a quota, its rows count against it."""
    items = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return sa.Table(name, metadata, *items, info={"history": history, "quota": quota})


def history_of(changed: sa.Table) -> History | None:
    history: History | None = changed.info.get("history")
    return history


def quota_of(counted: sa.Table) -> str:
    """The quota that rows of the table count against; empty: none."""
    return str(counted.info.get("quota", ""))


def histories() -> dict[sa.Table, History]:
    """The tables whose changes are logged, of the core and of all features that are imported."""
    return {each: history for each in metadata.tables.values() if (history := history_of(each)) is not None}


def count_through(counted: sa.Table, owner_id: sa.Column[str], owners: sa.Table) -> None:
    """Count rows of a table against the project of the object that they belong to."""
    rows = sa.select(counted.c.id, owners.c.project_id).join(owners, owners.c.id == owner_id)
    counted.info["counted"] = rows.subquery(f"counted_{counted.name}")


def counted_rows() -> dict[str, sa.FromClause]:
    """The rows with their projects that count against each quota."""
    return {name: each.info.get("counted", each) for each in metadata.tables.values() if (name := quota_of(each))}


def _columns(type_: ColumnType, names: Iterable[str], options: ColumnOptions) -> Columns:
    with_defaults: ColumnOptions = {"nullable": False, **options}
    return [sa.Column(name, type_, **with_defaults) for name in names]


def text(size: int, *names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return _columns(sa.String(size), names, options)


def integers(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return _columns(sa.Integer, names, options)


def flags(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return _columns(sa.Boolean, names, options)


def json(*names: str, empty: str = "[]") -> Columns:
    return _columns(Json, names, {"default": empty})


def primary_id() -> sa.Column[str]:
    return sa.Column("id", Id, primary_key=True)


def optional_ids(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    """Ids without a foreign key, because what they name may be deleted on its own."""
    return _columns(Id, names, {"nullable": True, **options})


def reference(name: str, table_name: str, *, cascade: bool = False, **options: Unpack[ColumnOptions]) -> sa.Column[str]:
    """A foreign key to a table's `id`. It has an index, unless it is the first column of the primary key."""
    key = sa.ForeignKey(f"{table_name}.id", ondelete="CASCADE" if cascade else None)
    with_defaults: ColumnOptions = {"nullable": False, "index": True, **options}
    return sa.Column(name, Id, key, **with_defaults)


def owner(name: str, table_name: str) -> sa.Column[str]:
    """The first column of the primary key: rows are deleted with the row that they belong to."""
    return reference(name, table_name, cascade=True, primary_key=True, index=False)


def object_table(
    name: str, *parts: Columns | sa.schema.SchemaItem, history: History | None = None, quota: str = ""
) -> sa.Table:
    """A table of top-level objects, with the columns that all of these have."""
    standard = [
        primary_id(),
        *text(255, "project_id", index=True),
        *text(255, "name", default=""),
        *text(255, "description", default="", nullable=True),
        *text(20, "created_at", "updated_at"),
        *integers("revision_number", default=0),
        *json("tags"),
    ]
    return table(name, standard, *parts, history=history, quota=quota)
