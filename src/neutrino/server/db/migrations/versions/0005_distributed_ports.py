"""Which hosts have a distributed router's port wired."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "distributed_port_hosts",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=op.f("fk_distributed_port_hosts_port_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("port_id", "host", name=op.f("pk_distributed_port_hosts")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )


def downgrade() -> None:
    op.drop_table("distributed_port_hosts")
