"""Networks, their segments and subnets, subnet pools and address scopes."""

import sqlalchemy as sa

from neutrino.server.db.tables.columns import (
    History,
    flags,
    integers,
    json,
    object_table,
    optional_ids,
    owner,
    primary_id,
    reference,
    table,
    text,
)

networks = object_table(
    "networks",
    flags("admin_state_up", "port_security_enabled", default=True),
    text(16, "status", default="ACTIVE"),
    integers("mtu", default=0),
    flags("external", default=False, index=True),
    flags("is_default", default=False),
    flags("vlan_transparent", "qinq", default=False, server_default=sa.false()),
    flags("project_default", default=False, server_default=sa.false()),
    text(255, "dns_domain", default=""),
    reference("qos_policy_id", "qos_policies", nullable=True),
    optional_ids("ipv4_address_scope", "ipv6_address_scope"),
    json("availability_zone_hints", "extra_dhcp_opts", "subnets"),
    # The segment of a network that has one; `segments` as the API shows them if it has several.
    text(32, "network_type", nullable=True),
    text(64, "physical_network", nullable=True),
    integers("segmentation_id", nullable=True),
    json("segments", empty="null"),
    history=History("network", feed=True),
    quota="network",
)

# One row per segment of a network. A VLAN or tunnel id is taken if its row exists; no table lists the free ones.
network_segments = table(
    "network_segments",
    primary_id(),
    reference("network_id", "networks", cascade=True),
    text(32, "network_type"),
    text(64, "physical_network", nullable=True),
    integers("segmentation_id", nullable=True),
    integers("position", default=0),
    # Uniqueness key of a segment: "vlan/physnet1/100", "vxlan/7", "flat/physnet1"; the segment's own id for local ones.
    text(255, "identity", unique=True),
    text(255, "name", "description", nullable=True),
    text(20, "created_at", "updated_at", server_default=""),
    integers("revision_number", default=1, server_default="1"),
)

# Ranges of VLAN and tunnel ids that operators add at run time, and those of the configuration (`default`).
network_segment_ranges = table(
    "network_segment_ranges",
    primary_id(),
    text(255, "project_id", nullable=True, index=True),  # NULL: shared by all projects
    text(255, "name", default=""),
    text(255, "description", default="", nullable=True),
    text(20, "created_at", "updated_at"),
    integers("revision_number", default=0),
    json("tags"),
    flags("default", "shared"),
    text(32, "network_type"),
    text(64, "physical_network", nullable=True),
    integers("minimum", "maximum"),
)

# Ranges of the same ids must not overlap, which no key can express: every write of one updates the row of its ids on a
# condition on the revision.
segment_range_writes = table("segment_range_writes", text(96, "name", primary_key=True), integers("revision"))

subnets = object_table(
    "subnets",
    reference("network_id", "networks"),
    integers("ip_version"),
    text(64, "cidr"),
    text(64, "gateway_ip", nullable=True),
    flags("enable_dhcp", default=True),
    text(32, "ipv6_ra_mode", "ipv6_address_mode", nullable=True),
    reference("subnetpool_id", "subnetpools", nullable=True),
    # The router gets the prefix by prefix delegation; the API shows a subnet pool of a reserved name.
    flags("prefix_delegated", default=False, server_default=sa.false()),
    reference("segment_id", "network_segments", nullable=True),  # of a routed network
    flags("dns_publish_fixed_ip", default=False),
    json("allocation_pools", "dns_nameservers", "host_routes", "service_types"),
    history=History("subnet", feed=True),
    quota="subnet",
)

# The DHCP agents that serve a network.
network_dhcp_agents = table(
    "network_dhcp_agents",
    owner("network_id", "networks"),
    reference("agent_id", "agents", cascade=True, primary_key=True),
    flags("requested", default=False),  # by the operator, however many agents the network has
)

address_scopes = object_table(
    "address_scopes",
    integers("ip_version"),
    history=History("address_scope"),
)

subnetpools = object_table(
    "subnetpools",
    integers("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen"),
    flags("is_default", default=False),
    integers("default_quota", nullable=True),
    reference("address_scope_id", "address_scopes", nullable=True),
    json("prefixes"),
    # Incremented by every allocation: of two writers that read the same free space, the second one is stale.
    integers("allocation_version", default=0),
    history=History("subnetpool"),
    quota="subnetpool",
)
