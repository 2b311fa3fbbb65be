"""How every table here is made.

One row is one API object: attributes that are lists or dictionaries are JSON text in it, so that showing or listing
objects reads one table. Beside it, narrow tables hold what must be unique or is searched by (addresses, segments, tags,
group memberships); they are written in the same transaction and are what constraints look at.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Id = sa.String(36)
Project = sa.String(255)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")  # a TEXT there ends at 64 KiB
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def table(name: str, *columns: Any) -> sa.Table:
    # Names and tags are compared byte for byte on every database, also on MariaDB.
    return sa.Table(name, metadata, *columns, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")


def json(name: str, empty: str = "[]") -> sa.Column[str]:
    return sa.Column(name, Json, nullable=False, default=empty)


def standard_columns() -> list[sa.Column[Any]]:
    """What every top-level object has."""
    return [
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Project, nullable=False, index=True),
        sa.Column("name", sa.String(255), nullable=False, default=""),
        sa.Column("description", sa.String(255), nullable=True, default=""),
        sa.Column("created_at", sa.String(20), nullable=False),
        sa.Column("updated_at", sa.String(20), nullable=False),
        sa.Column("revision_number", sa.Integer, nullable=False, default=0),
        json("tags"),
    ]
