"""Service types of routers."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0015"

TABLE = "routers"


def upgrade() -> None:
    column: sa.Column[object] = sa.Column("service_type_id", sa.String(36), nullable=True)
    # MariaDB commits every statement: an attempt that was interrupted may have made the column already.
    if column.name not in {existing["name"] for existing in sa.inspect(op.get_bind()).get_columns(TABLE)}:
        op.add_column(TABLE, column)
