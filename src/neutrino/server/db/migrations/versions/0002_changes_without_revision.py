"""The change log without the revision of the object, which nothing reads."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_column("changes", "revision")
