"""Tables of logs, local IPs and their associations with ports."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _reference(name: str, table: str, *, cascade: bool = False, **options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def _standard() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", Id, primary_key=True),
        *_text(255, "project_id", index=True),
        *_text(255, "name"),
        *_text(255, "description", nullable=True),
        *_text(20, "created_at", "updated_at"),
        sa.Column("revision_number", sa.Integer, nullable=False),
        sa.Column("tags", Json, nullable=False),
    ]


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[sa.Column[Any]]]:
    return {
        "logs": [
            *_standard(),
            *_text(255, "resource_type"),
            _reference("resource_id", "security_groups", cascade=True, nullable=True),
            _reference("target_id", "ports", cascade=True, nullable=True),
            *_text(8, "event"),
            sa.Column("enabled", sa.Boolean, nullable=False),
        ],
        "local_ips": [
            *_standard(),
            _reference("local_port_id", "ports"),
            _reference("network_id", "networks"),
            *_text(64, "local_ip_address"),
            *_text(16, "ip_mode"),
            sa.Column("owns_port", sa.Boolean, nullable=False),
        ],
        "local_ip_associations": [
            _reference("local_ip_id", "local_ips", primary_key=True, index=False),
            _reference("fixed_port_id", "ports", cascade=True, primary_key=True),
            *_text(64, "fixed_ip"),
        ],
    }


def upgrade() -> None:
    # MariaDB commits every statement: tables and indexes of an attempt that was interrupted exist already.
    for name, columns in _tables().items():
        inspector = sa.inspect(op.get_bind())
        if not inspector.has_table(name):
            op.create_table(name, *columns, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
            continue
        existing = {index["name"] for index in inspector.get_indexes(name)}
        for column in columns:
            if column.index and f"ix_{name}_{column.name}" not in existing:
                op.create_index(f"ix_{name}_{column.name}", name, [column.name])
