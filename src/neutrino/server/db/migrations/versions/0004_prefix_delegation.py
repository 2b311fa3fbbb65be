"""Subnets whose prefix is delegated to their router."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subnets", sa.Column("prefix_delegated", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("subnets") as batch:
        batch.drop_column("prefix_delegated")
