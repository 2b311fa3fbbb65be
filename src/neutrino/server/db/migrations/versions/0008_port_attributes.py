"""Hardware offload of ports; networks that carry the VLAN tags of instances."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have added some of them already.
    inspector = sa.inspect(op.get_bind())
    ports = {column["name"] for column in inspector.get_columns("ports")}
    networks = {column["name"] for column in inspector.get_columns("networks")}
    if "hardware_offload_type" not in ports:
        op.add_column("ports", sa.Column("hardware_offload_type", sa.String(32), nullable=True))
    for name in ("vlan_transparent", "qinq"):
        if name not in networks:
            op.add_column("networks", sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()))
