"""The users who made changes."""

import sqlalchemy as sa
from alembic import op

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("changes")}
    if "user_id" not in columns:  # else it is of an attempt that was interrupted on MariaDB
        op.add_column("changes", sa.Column("user_id", sa.String(255), nullable=True))
