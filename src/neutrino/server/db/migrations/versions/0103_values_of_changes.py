"""Old and new values of the attributes that changes have changed."""

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"

_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def upgrade() -> None:
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("changes")}
    if "changed" not in columns:  # else it is of an attempt that was interrupted on MariaDB
        op.add_column("changes", sa.Column("changed", _JSON, nullable=True))
