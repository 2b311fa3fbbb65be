"""The feed: positions in the change log, and credentials of hosts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("changes", sa.Column("position", sa.BigInteger(), nullable=True))
    op.create_index("uq_changes_position", "changes", ["position"], unique=True)
    op.create_table(
        "change_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.String(length=36), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_head")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "host_credentials",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_host_credentials")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )


def downgrade() -> None:
    op.drop_table("host_credentials")
    op.drop_table("change_head")
    op.drop_index("uq_changes_position", table_name="changes")
    with op.batch_alter_table("changes") as batch:
        batch.drop_column("position")
