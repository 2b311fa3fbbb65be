"""Service types of routers; who named a port, for the keywords of DNS domains; writes of segment ranges."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

CALLERS, WRITES = "dns_callers", "segment_range_writes"
_TEXT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    inspector = sa.inspect(op.get_bind())
    if "service_type_id" not in {column["name"] for column in inspector.get_columns("routers")}:
        op.add_column("routers", sa.Column("service_type_id", sa.String(36), nullable=True))
    if not inspector.has_table(CALLERS):
        op.create_table(
            CALLERS,
            sa.Column("port_id", sa.String(36), sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
            sa.Column("project_name", sa.String(255), nullable=False),
            sa.Column("user_id", sa.String(255), nullable=False),
            sa.Column("user_name", sa.String(255), nullable=False),
            **_TEXT,
        )
    if not inspector.has_table(WRITES):
        name = sa.Column("name", sa.String(96), primary_key=True)
        op.create_table(WRITES, name, sa.Column("revision", sa.Integer, nullable=False), **_TEXT)
