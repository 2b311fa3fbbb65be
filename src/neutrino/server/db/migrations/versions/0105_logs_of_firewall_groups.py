"""Packet logs of firewall groups."""

import sqlalchemy as sa
from alembic import op

revision = "0105"
down_revision = "0104"

_COLUMN, _KEY, _INDEX = "firewall_group_id", "fk_logs_firewall_group_id", "ix_logs_firewall_group_id"


def upgrade() -> None:
    """Each step only if it is missing: MariaDB commits every statement, and an attempt may have been interrupted."""
    inspector = sa.inspect(op.get_bind())
    has_column = _COLUMN in {column["name"] for column in inspector.get_columns("logs")}
    has_key = _KEY in {key["name"] for key in inspector.get_foreign_keys("logs")}
    has_index = _INDEX in {index["name"] for index in inspector.get_indexes("logs")}
    with op.batch_alter_table("logs") as logs:  # SQLite adds a foreign key to a new table alone
        if not has_column:
            logs.add_column(sa.Column(_COLUMN, sa.String(36), nullable=True))
        if not has_index:
            logs.create_index(_INDEX, [_COLUMN])
        if not has_key:
            logs.create_foreign_key(_KEY, "firewall_groups", [_COLUMN], ["id"], ondelete="CASCADE")
