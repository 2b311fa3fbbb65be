"""Ports by address: a list by `fixed_ips=ip_address=…` read the addresses of all ports."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

NAME, TABLE = "ix_ip_allocations_ip_address", "ip_allocations"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made it already.
    if NAME not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(TABLE)}:
        op.create_index(NAME, TABLE, ["ip_address"])
