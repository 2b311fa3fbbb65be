"""Placements by the operator's request, which are never surplus; references of HA routers to their network; the age of
INACTIVE bindings."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

BINDINGS, SINCE = "port_bindings", "inactive_since"
PLACEMENTS, REQUESTED, HA = "network_dhcp_agents", "requested", "ha_router_networks"


def upgrade() -> None:
    # MariaDB commits every statement: an attempt that was interrupted may have made a part of this already.
    inspector = sa.inspect(op.get_bind())
    if REQUESTED not in {column["name"] for column in inspector.get_columns(PLACEMENTS)}:
        op.add_column(PLACEMENTS, sa.Column(REQUESTED, sa.Boolean, nullable=False, server_default=sa.false()))
    if not inspector.has_table(HA):
        op.create_table(
            HA,
            sa.Column("router_id", sa.String(36), _key("router_id", "routers", "CASCADE"), primary_key=True),
            sa.Column("network_id", sa.String(36), _key("network_id", "networks"), nullable=False),
            mysql_charset="utf8mb4",
            mysql_collate="utf8mb4_nopad_bin",
        )
        op.create_index(f"ix_{HA}_network_id", HA, ["network_id"])
    if SINCE not in {column["name"] for column in inspector.get_columns(BINDINGS)}:
        op.add_column(BINDINGS, sa.Column(SINCE, sa.String(20), nullable=True))
    if f"ix_{BINDINGS}_{SINCE}" not in {index["name"] for index in inspector.get_indexes(BINDINGS)}:
        op.create_index(f"ix_{BINDINGS}_{SINCE}", BINDINGS, [SINCE])
    old = sa.text("UPDATE port_bindings SET inactive_since = :now WHERE status = 'INACTIVE' AND inactive_since IS NULL")
    op.get_bind().execute(old, {"now": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    # A network may have been deleted while a router was created: the server gives such a router another one at its start.
    op.execute(
        "UPDATE routers SET ha_network_id = NULL, ha_vr_id = NULL"
        " WHERE ha_network_id IS NOT NULL AND ha_network_id NOT IN (SELECT id FROM networks)"
    )
    op.execute(
        "INSERT INTO ha_router_networks (router_id, network_id) SELECT id, ha_network_id FROM routers"
        " WHERE ha_network_id IS NOT NULL AND id NOT IN (SELECT router_id FROM ha_router_networks)"
    )


def _key(column: str, table: str, ondelete: str | None = None) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", name=f"fk_{HA}_{column}", ondelete=ondelete)
