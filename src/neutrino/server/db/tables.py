"""The tables of the database.

One row is one API object: attributes that are lists or dictionaries are JSON text in it, so that showing or listing objects
reads one table. Narrow tables next to it hold what must be unique or is searched by (addresses, segments, tags, group
memberships); they are written in the same transaction, and constraints are on them.
"""

import sqlalchemy as sa

from neutrino.server.db.columns import (
    History,
    Json,
    Serial,
    counted_rows,
    flags,
    histories,
    history_of,
    integers,
    json,
    metadata,
    object_table,
    optional_ids,
    owner,
    primary_id,
    quota_of,
    reference,
    table,
    text,
)

# --- networks, subnets, pools and scopes ------------------------------------------------------------------------------

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

# --- ports ------------------------------------------------------------------------------------------------------------

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

# --- security groups --------------------------------------------------------------------------------------------------

security_groups = object_table(
    "security_groups",
    flags("stateful", default=True),
    flags("is_default", default=False),
    history=History("security_group", feed=True),
    quota="security_group",
)

# At most one default group per project: of two requests that both find none, one fails on the primary key.
default_security_groups = table(
    "default_security_groups",
    text(255, "project_id", primary_key=True),
    reference("security_group_id", "security_groups", cascade=True),
)

security_group_rules = object_table(
    "security_group_rules",
    reference("security_group_id", "security_groups", cascade=True),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", "normalized_cidr", nullable=True),
    reference("remote_group_id", "security_groups", nullable=True),
    reference("remote_address_group_id", "address_groups", nullable=True),
    # Uniqueness key of a rule: what it matches, as text. The constraint refuses an equal rule in the same group.
    text(255, "identity"),
    sa.UniqueConstraint("security_group_id", "identity"),
    history=History("security_group_rule"),
    quota="security_group_rule",
)

# Templates of the rules of new groups. They belong to no project, and have the attributes of Neutron's, no others.
default_security_group_rules = table(
    "default_security_group_rules",
    primary_id(),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", nullable=True),
    optional_ids("remote_group_id"),  # or "PARENT", which is the new group itself
    reference("remote_address_group_id", "address_groups", nullable=True),
    text(255, "description", default=""),
    flags("used_in_default_sg", "used_in_non_default_sg"),
    # The identity of the rule if the template is used in default groups, in other groups: no group gets a rule twice.
    text(255, "in_default", "in_others", nullable=True, unique=True),
)

# The default of `stateful`, for a project or, without one, for all; `scope` makes both unique.
security_groups_default_statefulness = table(
    "security_groups_default_statefulness",
    primary_id(),
    text(255, "project_id", nullable=True),
    text(300, "scope", unique=True),
    flags("stateful", default=True),
)

# --- access and quotas ------------------------------------------------------------------------------------------------

rbac_policies = table(
    "rbac_policies",
    primary_id(),
    text(255, "project_id", index=True),
    text(32, "object_type"),
    optional_ids("object_id", nullable=False, index=True),
    text(32, "action"),
    text(255, "target_project", index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
    history=History("rbac_policy"),
    quota="rbac_policy",
)

quotas = table(
    "quotas", text(255, "project_id", primary_key=True), text(64, "resource", primary_key=True), integers("limit")
)

# How many objects of a resource a project has. Incremented on a condition on the limit, so two writers cannot exceed it.
quota_usages = table(
    "quota_usages",
    text(255, "project_id", primary_key=True),
    text(64, "resource", primary_key=True),
    integers("used", default=0),
)

tags = table(
    "tags", optional_ids("object_id", nullable=False, primary_key=True), text(255, "tag", primary_key=True, index=True)
)

# --- hosts ------------------------------------------------------------------------------------------------------------

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

# --- drivers ----------------------------------------------------------------------------------------------------------

# Values of attributes that extension drivers add, by resource.
network_attributes, subnet_attributes, port_attributes = (
    table(f"{kind}_attributes", owner("object_id", f"{kind}s"), text(64, "name", primary_key=True), json("value"))
    for kind in ("network", "subnet", "port")
)

# A postcommit that has not run yet: inserted with the change, deleted after the postcommit, replayed after a crash.
journal = table(
    "journal",
    primary_id(),
    text(64, "operation"),
    optional_ids("object_id", nullable=False),
    sa.Column("before", Json, nullable=True),
    sa.Column("after", Json, nullable=True),
    sa.Column("at", sa.Float, nullable=False),
    text(64, "owner"),
)

# --- the change log ---------------------------------------------------------------------------------------------------

# Appended to in the transaction of the change; read by the feed. Transactions may commit in another order than their ids
# were given, so the order of rows is `position`, which the feed assigns to rows that it sees committed.
changes = table(
    "changes",
    sa.Column("id", Serial, primary_key=True, autoincrement=True),
    text(32, "kind"),
    optional_ids("object_id", nullable=False),
    flags("deleted", default=False),
    flags("created", default=False, server_default=sa.false()),
    text(20, "at"),
    text(255, "project_id", nullable=True),  # of the object; unknown: only administrators see the row
    text(64, "request_id", nullable=True),  # of the API request that made the change; none: a host's report, a sweep
    text(255, "user_id", nullable=True),  # who made that request
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.Column("changed", Json, nullable=True),  # old and new values of attributes (changed_values.py)
    sa.Index("uq_changes_position", "position", unique=True),
    sa.Index("ix_changes_object_id", "object_id"),
    sa.Index("ix_changes_project_id_position", "project_id", "position"),
)

# One row: the highest position assigned and the highest one removed. The identity tells databases apart.
change_head = table(
    "change_head",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    optional_ids("identity", nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("removed", sa.BigInteger, nullable=False),
)

# --- imports from a database of Neutron -------------------------------------------------------------------------------

# One row per run: a database with such a row is a copy of Neutron's, so that what Neutron has deleted is deleted here.
takeovers = table(
    "takeovers",
    primary_id(),
    text(255, "source"),  # Neutron's database, without credentials
    text(16, "release"),
    text(20, "started_at"),
    text(20, "finished_at", nullable=True),
    text(20, "opened_at", nullable=True),  # since then requests may write
    text(20, "closed_at", nullable=True),  # since then requests may not write again: for an export to Neutron
    text(20, "exported_at", nullable=True),  # when that export was complete
    text(20, "concluded_at", nullable=True),  # since then there is no way back to Neutron
    flags("final", default=False, server_default=sa.false()),
    json("counts", empty="{}"),
)
