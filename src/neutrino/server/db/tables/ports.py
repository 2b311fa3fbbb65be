"""Ports, their addresses and bindings."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import (
    History,
    flags,
    json,
    object_table,
    optional_ids,
    owner,
    reference,
    table,
    text,
)

ports = object_table(
    "ports",
    reference("network_id", "networks"),
    text(32, "mac_address"),
    flags("admin_state_up", "port_security_enabled", "propagate_uplink_status", default=True),
    text(16, "status", default="DOWN"),
    text(255, "device_id", default="", index=True),
    text(255, "device_owner", "dns_name", "dns_domain", default=""),
    text(16, "ip_allocation", default="immediate"),
    reference("qos_policy_id", "qos_policies", nullable=True),
    text(16, "data_plane_status", nullable=True),
    text(64, "numa_affinity_policy", nullable=True),
    text(255, "device_profile", nullable=True),
    text(32, "hardware_offload_type", nullable=True),
    text(64, "vnic_type", default="normal"),
    # The active binding, as the API shows it on the port; port_bindings has it too, with the inactive ones.
    text(255, "host", default="", index=True),
    text(64, "vif_type", default="unbound"),
    json("profile", "vif_details", empty="{}"),
    json("fixed_ips", "security_groups", "allowed_address_pairs", "extra_dhcp_opts", "dns_assignment"),
    json("hints", empty="null"),
    flags("trusted", nullable=True),
    sa.UniqueConstraint("network_id", "mac_address"),
    # Operators look ports up by name and by MAC; with the id, also a page sorted by name is read in order.
    sa.Index("ix_ports_name", "name", "id"),
    sa.Index("ix_ports_mac_address", "mac_address"),
    history=History("port", feed=True),
    quota="port",
)

# An address is taken if its row exists.
ip_allocations = table(
    "ip_allocations",
    reference("subnet_id", "subnets", primary_key=True, index=False),
    text(64, "ip_address", primary_key=True, index=True),
    reference("port_id", "ports", cascade=True),
    optional_ids("network_id", nullable=False, index=True),
)

port_security_groups = table(
    "port_security_groups",
    owner("port_id", "ports"),
    reference("security_group_id", "security_groups", primary_key=True),
)

# One row per host that a port is bound to: one ACTIVE, others INACTIVE during a live migration.
port_bindings = table(
    "port_bindings",
    owner("port_id", "ports"),
    text(255, "host", primary_key=True, index=True),
    text(16, "status", default="ACTIVE"),
    text(64, "vnic_type", default="normal"),
    text(64, "vif_type", default="unbound"),
    json("profile", "vif_details", empty="{}"),
    json("levels"),  # [{"level", "driver", "segment_id"}]: which driver bound which segment
    # Since when it is INACTIVE; empty: for longer than a live migration takes. Without a value: ACTIVE.
    text(20, "inactive_since", nullable=True, index=True),
)

# Components ("L2", "DHCP") that a bound port still waits for; when the last one is removed, it becomes ACTIVE.
provisioning_blocks = table("provisioning_blocks", owner("port_id", "ports"), text(32, "component", primary_key=True))
