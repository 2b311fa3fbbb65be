"""Tables of tap services, tap flows and tap mirrors."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _reference(name: str, table: str, *, cascade: bool = False) -> sa.Column[Any]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, nullable=False, index=True)


def _identity() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", Id, primary_key=True),
        *_text(255, "project_id", index=True),
        *_text(255, "name"),
        *_text(1024, "description"),
        sa.Column("revision_number", sa.Integer, nullable=False),
    ]


def _reported() -> list[sa.Column[Any]]:
    return [*_text(255, "reported_host"), *_text(16, "reported_status")]


# In an order in which referenced tables come first. A function: a column belongs to one table only.
def _tables() -> dict[str, list[sa.Column[Any]]]:
    return {
        "tap_services": [*_identity(), _reference("port_id", "ports"), *_reported()],
        "tap_flows": [
            *_identity(),
            _reference("tap_service_id", "tap_services"),
            _reference("source_port", "ports"),
            *_text(4, "direction"),
            *_text(1024, "vlan_filter", nullable=True),
            sa.Column("tunnel_id", sa.Integer, nullable=False, unique=True),
            *_reported(),
        ],
        "tap_mirrors": [
            *_identity(),
            _reference("port_id", "ports"),
            sa.Column("directions", Json, nullable=False),
            *_text(64, "remote_ip"),
            *_text(16, "mirror_type"),
        ],
        "tap_mirror_tunnels": [
            *_text(255, "project_id", primary_key=True),
            sa.Column("tunnel_id", sa.BigInteger, primary_key=True, autoincrement=False),
            _reference("tap_mirror_id", "tap_mirrors", cascade=True),
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
