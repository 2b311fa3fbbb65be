"""Imports from a database of Neutron."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"

_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")
_BYTEWISE: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table("takeovers"):  # of an attempt that was interrupted on MariaDB
        return
    op.create_table(
        "takeovers",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("release", sa.String(16), nullable=False),
        sa.Column("started_at", sa.String(20), nullable=False),
        sa.Column("finished_at", sa.String(20), nullable=True),
        sa.Column("opened_at", sa.String(20), nullable=True),
        sa.Column("closed_at", sa.String(20), nullable=True),
        sa.Column("exported_at", sa.String(20), nullable=True),
        sa.Column("concluded_at", sa.String(20), nullable=True),
        sa.Column("final", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("counts", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_takeovers"),
        **_BYTEWISE,
    )
