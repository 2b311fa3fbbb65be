"""What hosts have counted lately, for rates of ports and tunnels."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0104"
down_revision = "0103"

_BYTEWISE: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}
_JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")


def upgrade() -> None:
    if "host_rates" in sa.inspect(op.get_bind()).get_table_names():
        return  # of an attempt that was interrupted on MariaDB
    op.create_table(
        "host_rates",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("slot", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Integer, nullable=False),
        sa.Column("counted", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("host", "slot", name="pk_host_rates"),
        **_BYTEWISE,
    )
