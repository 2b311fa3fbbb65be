"""How tables are declared: each of these functions makes a table, or a column for each name."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

Columns = list[sa.Column[Any]]
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


def table(name: str, *parts: Columns | sa.Column[Any] | sa.schema.SchemaItem) -> sa.Table:
    items = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return sa.Table(name, metadata, *items)


def alias(original: sa.Table, *names: str, name: str | None = None) -> sa.FromClause:
    """An alias with these columns of a table. `Table.alias` copies all of them, which takes 70 kB for ports."""
    return sa.table(original.name, *(sa.column(each, original.c[each].type) for each in names)).alias(name)


@sa.event.listens_for(metadata, "before_create")
def _set_collation(_target: sa.MetaData, connection: sa.Connection, **_: Any) -> None:
    """MariaDB compares without case and trailing spaces by default; names are equal byte for byte on all databases.

    Not an argument of the tables: SQLAlchemy would load its dialect of MySQL for it, which takes 2 MB, on all databases.
    """
    dialect = connection.dialect.name
    if dialect in ("mysql", "mariadb"):
        for each in metadata.tables.values():
            each.dialect_kwargs.update({f"{dialect}_charset": "utf8mb4", f"{dialect}_collate": "utf8mb4_nopad_bin"})


def _columns(type_: Any, names: Iterable[str], options: dict[str, Any]) -> Columns:
    return [sa.Column(name, type_, **({"nullable": False} | options)) for name in names]


def text(size: int, *names: str, **options: Any) -> Columns:
    return _columns(sa.String(size), names, options)


def integers(*names: str, **options: Any) -> Columns:
    return _columns(sa.Integer, names, options)


def flags(*names: str, **options: Any) -> Columns:
    return _columns(sa.Boolean, names, options)


def json(*names: str, empty: str = "[]") -> Columns:
    return _columns(Json, names, {"default": empty})


def primary_id() -> sa.Column[str]:
    return sa.Column("id", Id, primary_key=True)


def optional_ids(*names: str, **options: Any) -> Columns:
    """Ids without a foreign key, because what they name may be deleted on its own."""
    return _columns(Id, names, {"nullable": True} | options)


def reference(name: str, table_name: str, *, cascade: bool = False, **options: Any) -> sa.Column[str]:
    """A foreign key to a table's `id`. It has an index, unless it is the first column of the primary key."""
    key = sa.ForeignKey(f"{table_name}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def owner(name: str, table_name: str) -> sa.Column[str]:
    """The first column of the primary key: rows are deleted with the row that they belong to."""
    return reference(name, table_name, cascade=True, primary_key=True, index=False)


def object_table(name: str, *parts: Columns | sa.Column[Any] | sa.schema.SchemaItem) -> sa.Table:
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
    return table(name, standard, *parts)
