"""Metering labels with their rules and reported totals; NDP proxies, and whether a router has them enabled."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _cascade(name: str, table: str) -> sa.Column[Any]:
    return sa.Column(name, Id, sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False, index=True)


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[Any]]:
    return {
        "ndp_proxies": [
            sa.Column("id", Id, primary_key=True),
            *_text(255, "project_id", index=True),
            *_text(255, "name"),
            *_text(255, "description", nullable=True),
            *_text(20, "created_at", "updated_at"),
            sa.Column("revision_number", sa.Integer, nullable=False),
            sa.Column("tags", Json, nullable=False),
            _cascade("router_id", "routers"),
            _cascade("port_id", "ports"),
            *_text(64, "ip_address"),
            sa.UniqueConstraint("router_id", "ip_address", name="uq_ndp_proxies_router_id_ip_address"),
        ],
        "metering_labels": [
            sa.Column("id", Id, primary_key=True),
            *_text(255, "project_id", index=True),
            *_text(255, "name"),
            *_text(1024, "description"),
            sa.Column("shared", sa.Boolean, nullable=False, index=True),
            sa.Column("revision_number", sa.Integer, nullable=False),
        ],
        "metering_label_rules": [
            sa.Column("id", Id, primary_key=True),
            _cascade("metering_label_id", "metering_labels"),
            *_text(16, "direction"),
            *_text(64, "remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix", nullable=True),
            sa.Column("excluded", sa.Boolean, nullable=False),
        ],
        "metering_totals": [
            *_text(255, "host", primary_key=True),
            *_text(36, "counter_id", primary_key=True),
            *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("packets", "bytes", "last_update")),
        ],
    }


def upgrade() -> None:
    # MariaDB commits every statement: what an attempt that was interrupted has made exists already.
    for name, parts in _tables().items():
        inspector = sa.inspect(op.get_bind())
        if not inspector.has_table(name):
            op.create_table(name, *parts, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
            continue
        existing = {index["name"] for index in inspector.get_indexes(name)}
        for column in (part for part in parts if isinstance(part, sa.Column)):
            if column.index and f"ix_{name}_{column.name}" not in existing:
                op.create_index(f"ix_{name}_{column.name}", name, [column.name])
    if "enable_ndp_proxy" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("routers")}:
        op.add_column("routers", sa.Column("enable_ndp_proxy", sa.Boolean, nullable=False, server_default=sa.false()))
