"""The change log without the revision of the object, which nothing reads."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have dropped it already.
    if "revision" in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("changes")}:
        op.drop_column("changes", "revision")
