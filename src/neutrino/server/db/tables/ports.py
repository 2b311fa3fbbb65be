"""Ports, the addresses they hold, and where they are bound."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, json, standard_columns, table

ports = table(
    "ports",
    *standard_columns(),
    sa.Column("network_id", Id, sa.ForeignKey("networks.id"), nullable=False, index=True),
    sa.Column("mac_address", sa.String(32), nullable=False),
    sa.Column("admin_state_up", sa.Boolean, nullable=False, default=True),
    sa.Column("status", sa.String(16), nullable=False, default="DOWN"),
    sa.Column("device_id", sa.String(255), nullable=False, default="", index=True),
    sa.Column("device_owner", sa.String(255), nullable=False, default=""),
    sa.Column("port_security_enabled", sa.Boolean, nullable=False, default=True),
    sa.Column("ip_allocation", sa.String(16), nullable=False, default="immediate"),
    sa.Column("dns_name", sa.String(255), nullable=False, default=""),
    sa.Column("dns_domain", sa.String(255), nullable=False, default=""),
    sa.Column("qos_policy_id", Id, nullable=True),
    sa.Column("qos_network_policy_id", Id, nullable=True),
    sa.Column("propagate_uplink_status", sa.Boolean, nullable=False, default=True),
    sa.Column("data_plane_status", sa.String(16), nullable=True),
    sa.Column("numa_affinity_policy", sa.String(64), nullable=True),
    sa.Column("device_profile", sa.String(255), nullable=True),
    sa.Column("vnic_type", sa.String(64), nullable=False, default="normal"),
    # The active binding, as the API shows it on the port; port_bindings has it too, beside the inactive ones.
    sa.Column("host", sa.String(255), nullable=False, default="", index=True),
    sa.Column("vif_type", sa.String(64), nullable=False, default="unbound"),
    json("profile", "{}"),
    json("vif_details", "{}"),
    json("fixed_ips"),
    json("security_groups"),
    json("allowed_address_pairs"),
    json("extra_dhcp_opts"),
    json("dns_assignment"),
    json("hints", "null"),
    sa.Column("trusted", sa.Boolean, nullable=True),
    sa.UniqueConstraint("network_id", "mac_address"),
)

# An address is taken when its row is there.
ip_allocations = table(
    "ip_allocations",
    sa.Column("subnet_id", Id, sa.ForeignKey("subnets.id"), primary_key=True),
    sa.Column("ip_address", sa.String(64), primary_key=True),
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("network_id", Id, nullable=False, index=True),
)

port_security_groups = table(
    "port_security_groups",
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("security_group_id", Id, sa.ForeignKey("security_groups.id"), primary_key=True, index=True),
)

# One row per host a port is bound to: one ACTIVE, others INACTIVE while a live migration is under way.
port_bindings = table(
    "port_bindings",
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True, index=True),
    sa.Column("status", sa.String(16), nullable=False, default="ACTIVE"),
    sa.Column("vnic_type", sa.String(64), nullable=False, default="normal"),
    sa.Column("vif_type", sa.String(64), nullable=False, default="unbound"),
    json("profile", "{}"),
    json("vif_details", "{}"),
    json("levels"),  # [{"level", "driver", "segment_id"}]: which driver bound which segment
)

# What must still be done before a bound port may be ACTIVE ("L2", "DHCP"); the last one taken away makes it so.
provisioning_blocks = table(
    "provisioning_blocks",
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("component", sa.String(32), primary_key=True),
)
