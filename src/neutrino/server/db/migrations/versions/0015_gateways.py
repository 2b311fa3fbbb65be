"""Routers with several gateways, and default routes over all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

TABLE = "routers"
_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def upgrade() -> None:
    columns: list[sa.Column[object]] = [
        sa.Column("enable_default_route_ecmp", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("extra_gw_port_ids", _JSON, nullable=False, server_default=sa.text("'[]'")),
    ]
    # MariaDB commits every statement: an attempt that was interrupted may have made one already.
    existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}
    for column in columns:
        if column.name not in existing:
            op.add_column(TABLE, column)
