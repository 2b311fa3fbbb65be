"""Networks, their segments and subnets."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, json, standard_columns, table

networks = table(
    "networks",
    *standard_columns(),
    sa.Column("admin_state_up", sa.Boolean, nullable=False, default=True),
    sa.Column("status", sa.String(16), nullable=False, default="ACTIVE"),
    sa.Column("mtu", sa.Integer, nullable=False, default=0),
    sa.Column("external", sa.Boolean, nullable=False, default=False, index=True),
    sa.Column("is_default", sa.Boolean, nullable=False, default=False),
    sa.Column("port_security_enabled", sa.Boolean, nullable=False, default=True),
    sa.Column("dns_domain", sa.String(255), nullable=False, default=""),
    sa.Column("qos_policy_id", Id, nullable=True),
    sa.Column("ipv4_address_scope", Id, nullable=True),
    sa.Column("ipv6_address_scope", Id, nullable=True),
    json("availability_zone_hints"),
    json("extra_dhcp_opts"),
    json("subnets"),
    # The one segment of the network, or, where it truly has several, all of them as the API shows them.
    sa.Column("network_type", sa.String(32), nullable=True),
    sa.Column("physical_network", sa.String(64), nullable=True),
    sa.Column("segmentation_id", sa.Integer, nullable=True),
    json("segments", "null"),
)

# One row per segment of a network. A VLAN or tunnel id is taken when its row is there: no table lists the free ones.
network_segments = table(
    "network_segments",
    sa.Column("id", Id, primary_key=True),
    sa.Column("network_id", Id, sa.ForeignKey("networks.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("network_type", sa.String(32), nullable=False),
    sa.Column("physical_network", sa.String(64), nullable=True),
    sa.Column("segmentation_id", sa.Integer, nullable=True),
    sa.Column("position", sa.Integer, nullable=False, default=0),
    # What must not be twice: "vlan/physnet1/100", "vxlan/7", "flat/physnet1"; the segment's own id for local ones.
    sa.Column("identity", sa.String(255), nullable=False, unique=True),
)

subnets = table(
    "subnets",
    *standard_columns(),
    sa.Column("network_id", Id, sa.ForeignKey("networks.id"), nullable=False, index=True),
    sa.Column("ip_version", sa.Integer, nullable=False),
    sa.Column("cidr", sa.String(64), nullable=False),
    sa.Column("gateway_ip", sa.String(64), nullable=True),
    sa.Column("enable_dhcp", sa.Boolean, nullable=False, default=True),
    sa.Column("ipv6_ra_mode", sa.String(32), nullable=True),
    sa.Column("ipv6_address_mode", sa.String(32), nullable=True),
    sa.Column("subnetpool_id", Id, sa.ForeignKey("subnetpools.id"), nullable=True, index=True),
    # The prefix is one that somebody outside delegates to the router; the API shows it as a pool of its own.
    sa.Column("prefix_delegated", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("segment_id", Id, nullable=True),
    sa.Column("dns_publish_fixed_ip", sa.Boolean, nullable=False, default=False),
    json("allocation_pools"),
    json("dns_nameservers"),
    json("host_routes"),
    json("service_types"),
)

# Which agents serve a network's DHCP.
network_dhcp_agents = table(
    "network_dhcp_agents",
    sa.Column("network_id", Id, sa.ForeignKey("networks.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("agent_id", Id, sa.ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True),
)

address_scopes = table(
    "address_scopes",
    *standard_columns(),
    sa.Column("ip_version", sa.Integer, nullable=False),
)

subnetpools = table(
    "subnetpools",
    *standard_columns(),
    sa.Column("ip_version", sa.Integer, nullable=False),
    sa.Column("default_prefixlen", sa.Integer, nullable=False),
    sa.Column("min_prefixlen", sa.Integer, nullable=False),
    sa.Column("max_prefixlen", sa.Integer, nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False, default=False),
    sa.Column("default_quota", sa.Integer, nullable=True),
    sa.Column("address_scope_id", Id, sa.ForeignKey("address_scopes.id"), nullable=True, index=True),
    json("prefixes"),
    # Raised by every allocation: of two that looked at the same free space, one finds it changed.
    sa.Column("allocation_version", sa.Integer, nullable=False, default=0),
)

__all__ = [
    "address_scopes",
    "network_dhcp_agents",
    "network_segments",
    "networks",
    "subnetpools",
    "subnets",
]
