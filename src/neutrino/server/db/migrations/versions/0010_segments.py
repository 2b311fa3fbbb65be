"""Segments as objects of the API, subnets of segments, and ranges of segmentation ids."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TABLE: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")
SEGMENTS, RANGES, SUBNETS = "network_segments", "network_segment_ranges", "subnets"


def upgrade() -> None:
    # MariaDB commits every statement: what an attempt that was interrupted has done already is skipped.
    existing = _columns(SEGMENTS)
    for column in (
        sa.Column("name", sa.String(255), nullable=True),
        sa.Column("description", sa.String(255), nullable=True),
        sa.Column("created_at", sa.String(20), nullable=False, server_default=""),
        sa.Column("updated_at", sa.String(20), nullable=False, server_default=""),
        sa.Column("revision_number", sa.Integer, nullable=False, server_default="1"),
    ):
        if column.name not in existing:
            op.add_column(SEGMENTS, column)
    # Segments were created with their networks, and never changed as objects.
    op.execute(
        "UPDATE network_segments SET created_at = (SELECT n.created_at FROM networks n WHERE n.id = network_id), "
        "updated_at = (SELECT n.created_at FROM networks n WHERE n.id = network_id) WHERE created_at = ''"
    )
    if not any(key["constrained_columns"] == ["segment_id"] for key in _inspector().get_foreign_keys(SUBNETS)):
        # The column existed without a foreign key and was always NULL.
        if "segment_id" in _columns(SUBNETS):
            op.drop_column(SUBNETS, "segment_id")
        _add_segment_of_subnets()
    _create_index(SUBNETS, "segment_id")
    if not _inspector().has_table(RANGES):
        op.create_table(
            RANGES,
            sa.Column("id", sa.String(36), nullable=False),
            sa.Column("project_id", sa.String(255), nullable=True),
            sa.Column("name", sa.String(255), nullable=False),
            sa.Column("description", sa.String(255), nullable=True),
            sa.Column("created_at", sa.String(20), nullable=False),
            sa.Column("updated_at", sa.String(20), nullable=False),
            sa.Column("revision_number", sa.Integer, nullable=False),
            sa.Column("tags", _JSON, nullable=False),
            sa.Column("default", sa.Boolean, nullable=False),
            sa.Column("shared", sa.Boolean, nullable=False),
            sa.Column("network_type", sa.String(32), nullable=False),
            sa.Column("physical_network", sa.String(64), nullable=True),
            sa.Column("minimum", sa.Integer, nullable=False),
            sa.Column("maximum", sa.Integer, nullable=False),
            sa.PrimaryKeyConstraint("id", name="pk_network_segment_ranges"),
            **_TABLE,
        )
    _create_index(RANGES, "project_id")


def _inspector() -> sa.Inspector:
    return sa.inspect(op.get_bind())  # a new one each time: it caches what it has read


def _columns(table: str) -> set[str]:
    return {column["name"] for column in _inspector().get_columns(table)}


def _create_index(table: str, column: str) -> None:
    name = f"ix_{table}_{column}"
    if name not in {index["name"] for index in _inspector().get_indexes(table)}:
        op.create_index(name, table, [column])


def _add_segment_of_subnets() -> None:
    name = "fk_subnets_segment_id"
    if op.get_bind().dialect.name == "sqlite":  # it adds a foreign key only together with its column
        op.execute(
            f"ALTER TABLE subnets ADD COLUMN segment_id VARCHAR(36) CONSTRAINT {name} REFERENCES network_segments (id)"
        )
        return
    op.add_column(SUBNETS, sa.Column("segment_id", sa.String(36), nullable=True))
    # Before the foreign key, for which MariaDB would else create an index of its own.
    _create_index(SUBNETS, "segment_id")
    op.create_foreign_key(name, SUBNETS, SEGMENTS, ["segment_id"], ["id"])
