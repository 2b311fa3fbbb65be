"""Placements of networks on DHCP agents by the operator's request, which are never surplus."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0020"

TABLE, COLUMN = "network_dhcp_agents", "requested"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made it already.
    if COLUMN not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}:
        op.add_column(TABLE, sa.Column(COLUMN, sa.Boolean, nullable=False, server_default=sa.false()))
