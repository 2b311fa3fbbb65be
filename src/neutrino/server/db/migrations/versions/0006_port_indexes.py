"""Ports by name and by MAC address: with a hundred thousand ports, each such list read all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

INDEXES = {"ix_ports_name": ["name", "id"], "ix_ports_mac_address": ["mac_address"]}


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    existing = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("ports")}
    for name, columns in INDEXES.items():
        if name not in existing:
            op.create_index(name, "ports", columns)
