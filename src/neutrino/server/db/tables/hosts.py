"""The agents that serve the networks, and the hosts that they are on."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, json, table

agents = table(
    "agents",
    sa.Column("id", Id, primary_key=True),
    sa.Column("agent_type", sa.String(255), nullable=False),
    sa.Column("binary", sa.String(255), nullable=False),
    sa.Column("topic", sa.String(255), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("availability_zone", sa.String(255), nullable=True),
    sa.Column("admin_state_up", sa.Boolean, nullable=False, default=True),
    sa.Column("created_at", sa.String(20), nullable=False),
    sa.Column("started_at", sa.String(20), nullable=False),
    sa.Column("heartbeat_timestamp", sa.String(20), nullable=False),
    sa.Column("description", sa.String(255), nullable=True),
    sa.Column("load", sa.Integer, nullable=False, default=0),
    sa.Column("resources_synced", sa.Boolean, nullable=True),
    json("configurations", "{}"),
    json("resource_versions", "{}"),
    sa.UniqueConstraint("host", "agent_type"),
)

# Who may connect to the feed as which host. Only the credential's SHA-256 is kept.
host_credentials = table(
    "host_credentials",
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("created_at", sa.String(20), nullable=False),
    sa.Column("roles", sa.String(255), nullable=False, server_default="l2,dhcp,l3,metadata"),  # separated by commas
)
