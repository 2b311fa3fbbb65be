"""Records of ports and floating IPs in an external DNS."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

TABLE = "dns_records"
INDEXES = ("object_id", "name", "pending")


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    bind = op.get_bind()
    if not sa.inspect(bind).has_table(TABLE):
        op.create_table(
            TABLE,
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("object_type", sa.String(16), nullable=False),
            sa.Column("object_id", sa.String(36), nullable=False),
            sa.Column("project_id", sa.String(255), nullable=False),
            sa.Column("zone", sa.String(255), nullable=False),
            sa.Column("name", sa.String(255), nullable=False),
            sa.Column("type", sa.String(8), nullable=False),
            sa.Column("address", sa.String(64), nullable=False),
            sa.Column("wanted", sa.Boolean, nullable=False),
            sa.Column("pending", sa.Boolean, nullable=False),
            sa.Column("published", sa.Boolean, nullable=False),
            sa.Column("error", sa.String(1000), nullable=False),
            sa.Column("attempts", sa.Integer, nullable=False),
            sa.Column("retry_at", sa.Double, nullable=False),
            sa.Column("claimed_by", sa.String(36), nullable=False),
            sa.Column("claimed_until", sa.Double, nullable=False),
            sa.UniqueConstraint("object_id", "zone", "name", "type", "address"),
            mysql_charset="utf8mb4",
            mysql_collate="utf8mb4_nopad_bin",
        )
    existing = {index["name"] for index in sa.inspect(bind).get_indexes(TABLE)}
    for column in INDEXES:
        name = f"ix_{TABLE}_{column}"
        if name not in existing:
            op.create_index(name, TABLE, [column])
