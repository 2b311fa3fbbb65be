"""The roles that a host's credential has; those that there are keep all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    roles = sa.Column("roles", sa.String(length=255), nullable=False, server_default="l2,dhcp,l3,metadata")
    op.add_column("host_credentials", roles)


def downgrade() -> None:
    with op.batch_alter_table("host_credentials") as batch:
        batch.drop_column("roles")
