"""Routers whose next hops are supervised by BFD."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

TABLE, COLUMN = "routers", "enable_default_route_bfd"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made it already.
    if COLUMN not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}:
        op.add_column(TABLE, sa.Column(COLUMN, sa.Boolean, nullable=False, server_default=sa.false()))
