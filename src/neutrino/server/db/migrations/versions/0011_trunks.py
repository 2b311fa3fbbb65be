"""Tables of trunks and their subports."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def _text(size: int, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(size), **({"nullable": False} | options)) for name in names]


def _tables() -> dict[str, list[sa.schema.SchemaItem]]:
    return {
        "trunks": [
            sa.Column("id", Id, primary_key=True),
            *_text(255, "project_id", index=True),
            *_text(255, "name"),
            *_text(255, "description", nullable=True),
            *_text(20, "created_at", "updated_at"),
            sa.Column("revision_number", sa.Integer, nullable=False),
            sa.Column("tags", Json, nullable=False),
            sa.Column("admin_state_up", sa.Boolean, nullable=False),
            sa.Column("port_id", Id, sa.ForeignKey("ports.id"), nullable=False, unique=True),
            sa.Column("generation", sa.Integer, nullable=False),
            *_text(255, "failed_host"),
        ],
        "trunk_subports": [
            sa.Column("port_id", Id, sa.ForeignKey("ports.id"), primary_key=True),
            sa.Column("trunk_id", Id, sa.ForeignKey("trunks.id", ondelete="CASCADE"), nullable=False),
            *_text(16, "segmentation_type"),
            sa.Column("segmentation_id", sa.Integer, nullable=False),
            sa.UniqueConstraint("trunk_id", "segmentation_type", "segmentation_id"),
        ],
    }


def upgrade() -> None:
    # MariaDB commits every statement: tables and indexes of an attempt that was interrupted exist already.
    for name, items in _tables().items():
        inspector = sa.inspect(op.get_bind())
        if not inspector.has_table(name):
            op.create_table(name, *items, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")
            continue
        existing = {index["name"] for index in inspector.get_indexes(name)}
        if name == "trunks" and "ix_trunks_project_id" not in existing:
            op.create_index("ix_trunks_project_id", name, ["project_id"])
