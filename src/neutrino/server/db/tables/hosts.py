"""Agents, credentials of hosts, queries to hosts, and the processes of the servers."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import Json, flags, integers, json, primary_id, table, text

agents = table(
    "agents",
    primary_id(),
    text(255, "agent_type", "binary", "topic", "host"),
    text(255, "availability_zone", "description", nullable=True),
    flags("admin_state_up", default=True),
    text(20, "created_at", "started_at", "heartbeat_timestamp"),
    integers("load", default=0),
    flags("resources_synced", nullable=True),
    json("configurations", "resource_versions", empty="{}"),
    sa.UniqueConstraint("host", "agent_type"),
)

# Credentials with which hosts connect to the feed. Only the SHA-256 digest is stored.
host_credentials = table(
    "host_credentials",
    text(255, "host", primary_key=True),
    text(64, "digest"),
    text(20, "created_at"),
    text(255, "roles", server_default="l2,dhcp,l3,metadata"),  # separated by commas
)

# Queries to hosts, such as traces. Inserted with a change-log row, by which the feed process that serves the host sends it;
# that process writes the answer. The asking process deletes the row, or a sweep does if that process has ended.
host_queries = table(
    "host_queries",
    primary_id(),
    text(255, "host", index=True),
    text(32, "kind"),
    sa.Column("question", Json, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),  # seconds since the epoch
    sa.Column("answer", Json, nullable=True),
    text(2000, "error", nullable=True),
)

# The processes of all servers on this database: each writes the time regularly, so that `neutrino status` can list them.
server_processes = table(
    "server_processes",
    primary_id(),
    text(255, "host"),
    text(16, "kind"),  # "api" or "feed"
    integers("pid"),
    text(64, "release"),
    text(20, "started_at", "seen_at"),
    json("details", empty="{}"),
)

# The source MAC of a host's distributed routers. The MAC of a router's port exists on every host, so it is never sent.
dvr_host_macs = table("dvr_host_macs", text(255, "host", primary_key=True), text(32, "mac_address", unique=True))
