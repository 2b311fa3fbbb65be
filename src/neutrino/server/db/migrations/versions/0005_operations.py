"""Who made a change, for the history of objects; queries to hosts; the processes of the servers."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    bind = op.get_bind()
    existing = {column["name"] for column in sa.inspect(bind).get_columns("changes")}
    for column in (
        sa.Column("created", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("project_id", sa.String(255), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
    ):
        if column.name not in existing:
            op.add_column("changes", column)
    if "ix_changes_object_id" not in {index["name"] for index in sa.inspect(bind).get_indexes("changes")}:
        op.create_index("ix_changes_object_id", "changes", ["object_id"])
    tables: dict[str, list[sa.Column[Any]]] = {
        "host_queries": [
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("host", sa.String(255), nullable=False, index=True),
            sa.Column("kind", sa.String(32), nullable=False),
            sa.Column("question", Json, nullable=False),
            sa.Column("expires_at", sa.Double, nullable=False),
            sa.Column("answer", Json, nullable=True),
            sa.Column("error", sa.String(2000), nullable=True),
        ],
        "server_processes": [
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("host", sa.String(255), nullable=False),
            sa.Column("kind", sa.String(16), nullable=False),
            sa.Column("pid", sa.Integer, nullable=False),
            sa.Column("release", sa.String(64), nullable=False),
            sa.Column("started_at", sa.String(20), nullable=False),
            sa.Column("seen_at", sa.String(20), nullable=False),
            sa.Column("details", Json, nullable=False),
        ],
    }
    for name, columns in tables.items():
        if not sa.inspect(bind).has_table(name):
            op.create_table(name, *columns, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
    if "ix_host_queries_host" not in {index["name"] for index in sa.inspect(bind).get_indexes("host_queries")}:
        op.create_index("ix_host_queries_host", "host_queries", ["host"])
