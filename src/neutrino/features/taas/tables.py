"""Tap services, tap flows and tap mirrors."""

import sqlalchemy as sa

from neutrino.server.db.columns import History, integers, json, primary_id, reference, table, text
from neutrino.server.db.sql import Columns


def _tap_table(name: str, kind: str, *parts: Columns | sa.schema.SchemaItem) -> sa.Table:
    """A table without timestamps and tags, which Neutron's do not have either."""
    own = [primary_id(), *text(255, "project_id", index=True), *text(255, "name"), *text(1024, "description")]
    return table(name, own, integers("revision_number", default=0), *parts, history=History(kind), quota=kind)


def _reported() -> Columns:
    """What the host of the port reported last, and which host that was: it counts while the port is there."""
    return [*text(255, "reported_host", default=""), *text(16, "reported_status", default="")]


# Deleted with their port, explicitly and not by a cascade: quotas count them, and the host at the other end learns of it.
tap_services = _tap_table("tap_services", "tap_service", reference("port_id", "ports"), _reported())

tap_flows = _tap_table(
    "tap_flows",
    "tap_flow",
    reference("tap_service_id", "tap_services"),
    reference("source_port", "ports"),
    text(4, "direction"),
    text(1024, "vlan_filter", nullable=True),
    integers("tunnel_id", unique=True),  # of the copies between two hosts
    _reported(),
)

tap_mirrors = _tap_table(
    "tap_mirrors",
    "tap_mirror",
    reference("port_id", "ports"),
    json("directions", empty="{}"),
    text(64, "remote_ip"),
    text(16, "mirror_type"),
)

# The tunnel ids of a project's mirrors: each is used by one mirror only.
tap_mirror_tunnels = table(
    "tap_mirror_tunnels",
    text(255, "project_id", primary_key=True),
    sa.Column("tunnel_id", sa.BigInteger, primary_key=True, autoincrement=False),
    reference("tap_mirror_id", "tap_mirrors", cascade=True),
)
