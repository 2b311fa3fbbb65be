"""The tables of the database.

One row is one API object: attributes that are lists or dictionaries are JSON text in it, so that showing or listing objects
reads one table. Narrow tables next to it hold what must be unique or is searched by (addresses, segments, tags, group
memberships); they are written in the same transaction, and constraints are on them.
"""

import uuid
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

Columns = list[sa.Column[Any]]
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Id = sa.String(36)
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")  # TEXT ends at 64 KiB there
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows only in an INTEGER

# --- how tables are declared: each of these makes a column per name ---------------------------------------------------


def table(name: str, *parts: Columns | sa.Column[Any] | sa.schema.SchemaItem) -> sa.Table:
    items = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    # MariaDB compares without case and trailing spaces by default; names and tags are equal byte for byte on all databases.
    return sa.Table(name, metadata, *items, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")


def _columns(type_: Any, names: Iterable[str], options: dict[str, Any]) -> Columns:
    return [sa.Column(name, type_, **({"nullable": False} | options)) for name in names]


def text(size: int, *names: str, **options: Any) -> Columns:
    return _columns(sa.String(size), names, options)


def integers(*names: str, **options: Any) -> Columns:
    return _columns(sa.Integer, names, options)


def flags(*names: str, **options: Any) -> Columns:
    return _columns(sa.Boolean, names, options)


def json(*names: str, empty: str = "[]") -> Columns:
    return _columns(Json, names, {"default": empty})


def primary_id() -> sa.Column[str]:
    return sa.Column("id", Id, primary_key=True)


def optional_ids(*names: str, **options: Any) -> Columns:
    """Ids without a foreign key, because what they name may be deleted on its own."""
    return _columns(Id, names, {"nullable": True} | options)


def reference(name: str, table_name: str, *, cascade: bool = False, **options: Any) -> sa.Column[str]:
    """A foreign key to a table's `id`. It has an index, unless it is the first column of the primary key."""
    key = sa.ForeignKey(f"{table_name}.id", ondelete="CASCADE" if cascade else None)
    return sa.Column(name, Id, key, **({"nullable": False, "index": True} | options))


def owner(name: str, table_name: str) -> sa.Column[str]:
    """The first column of the primary key: rows are deleted with the row that they belong to."""
    return reference(name, table_name, cascade=True, primary_key=True, index=False)


def object_table(name: str, *parts: Columns | sa.Column[Any] | sa.schema.SchemaItem) -> sa.Table:
    """A table of top-level objects, with the columns that all of these have."""
    standard = [
        primary_id(),
        *text(255, "project_id", index=True),
        *text(255, "name", default=""),
        *text(255, "description", default="", nullable=True),
        *text(20, "created_at", "updated_at"),
        *integers("revision_number", default=0),
        *json("tags"),
    ]
    return table(name, standard, *parts)


# --- networks, their segments and subnets -----------------------------------------------------------------------------

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
)

# The DHCP agents that serve a network.
network_dhcp_agents = table(
    "network_dhcp_agents",
    owner("network_id", "networks"),
    reference("agent_id", "agents", cascade=True, primary_key=True),
)

address_scopes = object_table("address_scopes", integers("ip_version"))

subnetpools = object_table(
    "subnetpools",
    integers("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen"),
    flags("is_default", default=False),
    integers("default_quota", nullable=True),
    reference("address_scope_id", "address_scopes", nullable=True),
    json("prefixes"),
    # Incremented by every allocation: of two writers that read the same free space, the second one is stale.
    integers("allocation_version", default=0),
)

# --- ports, their addresses and bindings ------------------------------------------------------------------------------

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
)

# Components ("L2", "DHCP") that a bound port still waits for; when the last one is removed, it becomes ACTIVE.
provisioning_blocks = table("provisioning_blocks", owner("port_id", "ports"), text(32, "component", primary_key=True))

# --- security groups --------------------------------------------------------------------------------------------------

security_groups = object_table("security_groups", flags("stateful", default=True), flags("is_default", default=False))

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

address_groups = object_table("address_groups", json("addresses"))

# --- QoS --------------------------------------------------------------------------------------------------------------

# With the rules as the API shows them. Every change of a rule updates this row, on a condition on its revision.
qos_policies = object_table("qos_policies", flags("is_default", default=False), json("rules"))

# The policy that new networks of a project get: at most one per project, by the primary key.
default_qos_policies = table(
    "default_qos_policies",
    text(255, "project_id", primary_key=True),
    reference("qos_policy_id", "qos_policies", cascade=True),
)

# A rule's parameters, to filter and sort lists by; those of other types of rules are NULL.
qos_rules = table(
    "qos_rules",
    primary_id(),
    reference("qos_policy_id", "qos_policies", cascade=True),
    text(32, "type"),
    text(16, "direction", default=""),  # empty: DSCP marks have none
    integers("max_kbps", "max_burst_kbps", "min_kbps", nullable=True),
    integers("max_kpps", "max_burst_kpps", "min_kpps", "dscp_mark", nullable=True),
    sa.UniqueConstraint("qos_policy_id", "type", "direction"),
)

# --- routers and floating IPs -----------------------------------------------------------------------------------------

# Every change of a router's connections updates its row on a condition on its revision: of two that conflict, one wins.
routers = object_table(
    "routers",
    flags("admin_state_up", "enable_snat", default=True),
    text(16, "status", default="ACTIVE"),
    flags("distributed", "ha", default=False),
    flags("enable_ndp_proxy", default=False, server_default=sa.false()),
    flags("enable_default_route_ecmp", default=False),
    optional_ids("gw_port_id"),
    # The ports of further gateways, in order; `gw_port_id` is the first one.
    json("extra_gw_port_ids"),
    optional_ids("gw_network_id", index=True),
    reference("gw_qos_policy_id", "qos_policies", nullable=True),
    reference("flavor_id", "flavors", nullable=True),
    optional_ids("service_type_id"),
    # The VRRP id of an HA router, unique on its HA network.
    optional_ids("ha_network_id"),
    integers("ha_vr_id", nullable=True),
    json("availability_zone_hints", "routes", "conntrack_helpers"),
    sa.UniqueConstraint("ha_network_id", "ha_vr_id"),
)

# The ports of a router. A port belongs to a router by its row here, not by its device_owner, which clients set.
router_ports = table(
    "router_ports", owner("port_id", "ports"), reference("router_id", "routers"), text(255, "port_type")
)

# The L3 agents that serve a router: one, or for an HA router several, each with a port on the HA network.
router_l3_agents = table(
    "router_l3_agents",
    owner("router_id", "routers"),
    reference("agent_id", "agents", cascade=True, primary_key=True),
    optional_ids("ha_port_id"),
    text(16, "ha_state", nullable=True),
)

# The network on which the hosts of a project's HA routers exchange VRRP.
ha_networks = table(
    "ha_networks", text(255, "project_id", primary_key=True), reference("network_id", "networks", cascade=True)
)

floatingips = object_table(
    "floatingips",
    optional_ids("floating_network_id", nullable=False, index=True),
    text(64, "floating_ip_address", index=True),
    reference("floating_port_id", "ports", unique=True, index=False),
    reference("router_id", "routers", nullable=True),
    reference("port_id", "ports", nullable=True),
    text(64, "fixed_ip_address", nullable=True),
    text(16, "status", default="DOWN"),
    text(255, "dns_name", "dns_domain", default=""),
    reference("qos_policy_id", "qos_policies", nullable=True),
    json("port_forwardings"),
    # A port's address has at most one floating IP per external network.
    sa.UniqueConstraint("port_id", "fixed_ip_address", "floating_network_id"),
)

port_forwardings = table(
    "port_forwardings",
    primary_id(),
    reference("floatingip_id", "floatingips"),
    reference("internal_port_id", "ports"),
    text(64, "internal_ip_address"),
    text(40, "protocol"),
    text(16, "external_port_range", "internal_port_range"),
    integers("external_port", "internal_port", nullable=True),
    text(255, "description", default=""),
    sa.UniqueConstraint(
        *("internal_port_id", "internal_ip_address", "protocol", "internal_port_range"),
        name="uq_port_forwardings_inside",  # the conventional name is too long for the databases
    ),
)

conntrack_helpers = table(
    "conntrack_helpers",
    primary_id(),
    reference("router_id", "routers", cascade=True),
    text(40, "protocol"),
    integers("port"),
    text(64, "helper"),
    sa.UniqueConstraint("router_id", "protocol", "port", "helper"),
)

# Addresses of instances for which a router answers neighbour solicitations on its external network.
ndp_proxies = object_table(
    "ndp_proxies",
    reference("router_id", "routers", cascade=True),
    reference("port_id", "ports", cascade=True),
    text(64, "ip_address"),
    sa.UniqueConstraint("router_id", "ip_address"),
)

# The source MAC of a host's distributed routers. The MAC of a router's port exists on every host, so it is never sent.
dvr_host_macs = table("dvr_host_macs", text(255, "host", primary_key=True), text(32, "mac_address", unique=True))

# The hosts that reported a distributed router's port as wired; such a port has no binding to one host.
distributed_port_hosts = table("distributed_port_hosts", owner("port_id", "ports"), text(255, "host", primary_key=True))

flavors = table(
    "flavors",
    primary_id(),
    text(255, "name", default=""),
    text(1024, "description", nullable=True),
    text(36, "service_type"),
    flags("enabled", default=True),
    json("service_profiles"),
)

service_profiles = table(
    "service_profiles",
    primary_id(),
    text(1024, "description", nullable=True),
    text(1024, "driver", default=""),
    text(4096, "metainfo", default=""),
    flags("enabled", default=True),
)

flavor_service_profiles = table(
    "flavor_service_profiles",
    owner("flavor_id", "flavors"),
    reference("service_profile_id", "service_profiles", primary_key=True),
)

# Auto-allocated topology: the default network and router of a project, created on first use.
auto_allocated_topologies = table(
    "auto_allocated_topologies",
    text(255, "project_id", primary_key=True),
    reference("network_id", "networks", cascade=True),
    optional_ids("router_id"),
)

# --- firewalls (FWaaS v2) ---------------------------------------------------------------------------------------------

firewall_rules = object_table(
    "firewall_rules",
    flags("shared", default=False, index=True),
    flags("enabled", default=True),
    text(40, "protocol", nullable=True),
    integers("ip_version", default=4),
    text(64, "source_ip_address", "destination_ip_address", nullable=True),
    text(16, "source_port", "destination_port", nullable=True),  # a port, or a range as 80:90
    text(16, "action", default="deny"),
)

firewall_policies = object_table(
    "firewall_policies",
    flags("shared", default=False, index=True),
    flags("audited", default=False),
    json("firewall_rules"),
)

# The same rules as rows: a rule that a policy has cannot be deleted, and the policies of a rule are found.
firewall_policy_rules = table(
    "firewall_policy_rules",
    owner("firewall_policy_id", "firewall_policies"),
    reference("firewall_rule_id", "firewall_rules", primary_key=True),
    integers("position"),
)

# `status` is what hosts have applied of the current revision; the API derives INACTIVE and DOWN from the other columns.
firewall_groups = object_table(
    "firewall_groups",
    flags("admin_state_up", default=True),
    flags("shared", default=False, index=True),
    flags("is_default", default=False),
    text(16, "status"),
    reference("ingress_firewall_policy_id", "firewall_policies", nullable=True),
    reference("egress_firewall_policy_id", "firewall_policies", nullable=True),
)

# A port is in at most one group. The row is deleted with the port, so the deletion of ports costs nothing more.
firewall_group_ports = table(
    "firewall_group_ports",
    owner("port_id", "ports"),
    reference("firewall_group_id", "firewall_groups", cascade=True),
)

# What each role of each host reported last on a group: the status of the group follows from these.
firewall_group_hosts = table(
    "firewall_group_hosts",
    owner("firewall_group_id", "firewall_groups"),
    text(255, "host", primary_key=True),
    text(16, "role", primary_key=True),
    integers("revision"),
    text(16, "status"),
)

# At most one default group per project, as with security groups.
default_firewall_groups = table(
    "default_firewall_groups",
    text(255, "project_id", primary_key=True),
    reference("firewall_group_id", "firewall_groups", cascade=True),
)

# --- trunks -----------------------------------------------------------------------------------------------------------

# `generation` counts the changes of subports and of the parent's host, which exclude each other by it; the API shows
# neither it nor a stored status: the status follows from the ports.
trunks = object_table(
    "trunks",
    flags("admin_state_up", default=True),
    reference("port_id", "ports", index=False, unique=True),
    integers("generation", default=0),
    text(255, "failed_host", default=""),  # the host that could not wire all its ports, as reported last
)

# A port is a subport of one trunk at most. Without CASCADE on it: a port that is in use cannot be deleted.
trunk_subports = table(
    "trunk_subports",
    reference("port_id", "ports", primary_key=True, index=False),
    reference("trunk_id", "trunks", cascade=True, index=False),
    text(16, "segmentation_type"),
    integers("segmentation_id"),
    sa.UniqueConstraint("trunk_id", "segmentation_type", "segmentation_id"),
)

# --- metering ---------------------------------------------------------------------------------------------------------

metering_labels = table(
    "metering_labels",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    text(1024, "description", default=""),
    flags("shared", default=False, index=True),
    # Grows with every change of the label's rules: of two requests that each add a rule, one is repeated.
    integers("revision_number", default=0),
)

metering_label_rules = table(
    "metering_label_rules",
    primary_id(),
    reference("metering_label_id", "metering_labels", cascade=True),
    text(16, "direction"),
    text(64, "remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix", nullable=True),
    flags("excluded", default=False),
)

# The totals that a host last reported, by its counters: notifications have the difference to the next report. Without
# foreign keys: the last traffic of a deleted label or router is reported after it.
metering_totals = table(
    "metering_totals",
    text(255, "host", primary_key=True),
    optional_ids("counter_id", nullable=False, primary_key=True),
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("packets", "bytes", "last_update")),
)

# --- access: RBAC policies, quotas, tags ------------------------------------------------------------------------------

rbac_policies = table(
    "rbac_policies",
    primary_id(),
    text(255, "project_id", index=True),
    text(32, "object_type"),
    optional_ids("object_id", nullable=False, index=True),
    text(32, "action"),
    text(255, "target_project", index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
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

# --- logs and local IPs -----------------------------------------------------------------------------------------------

# Deleted with their group or port. That is also done explicitly, since hosts learn of it by the change log.
logs = object_table(
    "logs",
    text(255, "resource_type"),
    reference("resource_id", "security_groups", cascade=True, nullable=True),
    reference("target_id", "ports", cascade=True, nullable=True),
    text(8, "event"),
    flags("enabled"),
)

local_ips = object_table(
    "local_ips",
    reference("local_port_id", "ports"),
    reference("network_id", "networks"),
    text(64, "local_ip_address"),
    text(16, "ip_mode"),
    flags("owns_port"),  # the port was created with the local IP, and is deleted with it
)

local_ip_associations = table(
    "local_ip_associations",
    # Without a cascade: a local IP in use cannot be deleted.
    reference("local_ip_id", "local_ips", primary_key=True, index=False),
    reference("fixed_port_id", "ports", cascade=True, primary_key=True),
    text(64, "fixed_ip"),
)

# --- BGP speakers -----------------------------------------------------------------------------------------------------

# `revision_number` is not shown: it grows with every change of a speaker's peers, networks and agents, which exclude each
# other by it.
bgp_speakers = table(
    "bgp_speakers",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    sa.Column("local_as", sa.BigInteger, nullable=False),
    integers("ip_version"),
    flags("advertise_floating_ip_host_routes", "advertise_tenant_networks", default=True),
    integers("revision_number", default=0),
)

bgp_peers = table(
    "bgp_peers",
    primary_id(),
    text(255, "project_id", index=True),
    text(255, "name", default=""),
    text(64, "peer_ip"),
    sa.Column("remote_as", sa.BigInteger, nullable=False),
    text(16, "auth_type"),
    text(255, "password", nullable=True),
)

# The address is that of the peer, which never changes: a speaker has one session with an address.
bgp_speaker_peers = table(
    "bgp_speaker_peers",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("bgp_peer_id", "bgp_peers", cascade=True, primary_key=True),
    text(64, "peer_ip"),
    sa.UniqueConstraint("bgp_speaker_id", "peer_ip"),
)

bgp_speaker_networks = table(
    "bgp_speaker_networks",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("network_id", "networks", cascade=True, primary_key=True),
)

# An agent has one speaker at most, as in Neutron; a speaker may have several agents.
bgp_speaker_agents = table(
    "bgp_speaker_agents",
    owner("agent_id", "agents"),
    reference("bgp_speaker_id", "bgp_speakers", cascade=True),
)

# --- tap services, tap flows and tap mirrors --------------------------------------------------------------------------


def _tap_table(name: str, *parts: Columns | sa.Column[Any] | sa.schema.SchemaItem) -> sa.Table:
    """Without timestamps and tags, which Neutron's do not have either."""
    own = [primary_id(), *text(255, "project_id", index=True), *text(255, "name"), *text(1024, "description")]
    return table(name, own, integers("revision_number", default=0), *parts)


def _reported() -> Columns:
    """What the host of the port reported last, and which host that was: it counts while the port is there."""
    return [*text(255, "reported_host", default=""), *text(16, "reported_status", default="")]


# Deleted with their port, explicitly and not by a cascade: quotas count them, and the host at the other end learns of it.
tap_services = _tap_table("tap_services", reference("port_id", "ports"), _reported())

tap_flows = _tap_table(
    "tap_flows",
    reference("tap_service_id", "tap_services"),
    reference("source_port", "ports"),
    text(4, "direction"),
    text(1024, "vlan_filter", nullable=True),
    integers("tunnel_id", unique=True),  # of the copies between two hosts
    _reported(),
)

tap_mirrors = _tap_table(
    "tap_mirrors",
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

# --- the change log and the journal -----------------------------------------------------------------------------------

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
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.Index("uq_changes_position", "position", unique=True),
    sa.Index("ix_changes_object_id", "object_id"),
)

# One row: the highest position assigned and the highest one removed. The identity tells databases apart.
change_head = table(
    "change_head",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    optional_ids("identity", nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("removed", sa.BigInteger, nullable=False),
)

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

# A DNS record that a port or floating IP wants, or wanted: written with the object, published by the API workers, and
# deleted when the record is removed from the DNS. No foreign key: it outlives its object.
dns_records = table(
    "dns_records",
    primary_id(),
    text(16, "object_type"),
    optional_ids("object_id", nullable=False, index=True),
    text(255, "project_id"),
    text(255, "zone"),
    text(255, "name", index=True),
    text(8, "type"),
    text(64, "address"),
    flags("wanted"),
    flags("pending", index=True),  # the publisher has work
    flags("published"),  # it may be in the DNS: set before an update is sent
    text(1000, "error", default=""),  # of the last attempt
    integers("attempts", default=0),  # since the last success
    sa.Column("retry_at", sa.Double, nullable=False),
    # The last claim of a publisher, and until when it works on the row at most; 0: it has finished.
    text(36, "claimed_by", default=""),
    sa.Column("claimed_until", sa.Double, nullable=False),
    sa.UniqueConstraint("object_id", "zone", "name", "type", "address"),
)

# Who has named a port in a domain with keywords: records are made again when the caller is not known any more.
dns_callers = table("dns_callers", owner("port_id", "ports"), text(255, "project_name", "user_id", "user_name"))

# The tables whose objects hosts get, with their kind in the change log: writes of their rows are logged.
LOGGED: dict[sa.Table, str] = {
    networks: "network",
    subnets: "subnet",
    ports: "port",
    security_groups: "security_group",
    address_groups: "address_group",
    routers: "router",
    qos_policies: "qos_policy",
    firewall_groups: "firewall_group",
    firewall_policies: "firewall_policy",
    firewall_rules: "firewall_rule",
    metering_labels: "metering_label",
    logs: "log",
    bgp_speakers: "bgp_speaker",
}
# Further tables whose changes are logged, for the history of their objects. The feed has no reader for these kinds.
HISTORY: dict[sa.Table, str] = LOGGED | {
    floatingips: "floatingip",
    port_forwardings: "port_forwarding",
    security_group_rules: "security_group_rule",
    subnetpools: "subnetpool",
    address_scopes: "address_scope",
    rbac_policies: "rbac_policy",
    trunks: "trunk",
    local_ips: "local_ip",
    bgp_peers: "bgp_peer",
    tap_services: "tap_service",
    tap_flows: "tap_flow",
    tap_mirrors: "tap_mirror",
}
HISTORY_ONLY = frozenset(HISTORY.values()) - frozenset(LOGGED.values())

# The tables whose rows count against a project's quota, by the quota's name. Plugins add theirs.
COUNTED: dict[str, sa.FromClause] = {
    "network": networks,
    "subnet": subnets,
    "subnetpool": subnetpools,
    "port": ports,
    "rbac_policy": rbac_policies,
    "security_group": security_groups,
    "security_group_rule": security_group_rules,
    "router": routers,
    "floatingip": floatingips,
    "address_group": address_groups,
    "qos_policy": qos_policies,
    # A port forwarding counts against the project of its floating IP.
    "port_forwarding": sa.select(port_forwardings.c.id, floatingips.c.project_id)
    .join(floatingips, floatingips.c.id == port_forwardings.c.floatingip_id)
    .subquery("counted_port_forwardings"),
    "firewall_group": firewall_groups,
    "firewall_policy": firewall_policies,
    "firewall_rule": firewall_rules,
    "trunk": trunks,
    "tap_service": tap_services,
    "tap_flow": tap_flows,
    "tap_mirror": tap_mirrors,
}
# The same by table: rows are counted as they are inserted and deleted.
QUOTAS = {table: name for name, table in COUNTED.items()}


# --- initial rows -----------------------------------------------------------------------------------------------------


def initial_default_rules() -> list[dict[str, Any]]:
    """Neutron's templates: every new group sends everything, and a default group receives from its own members."""
    return [
        {
            "id": str(uuid.uuid4()),
            "direction": direction,
            "ethertype": ethertype,
            "remote_group_id": parent,
            "description": f"Legacy default SG rule for {direction} traffic",
            "used_in_default_sg": True,
            "used_in_non_default_sg": parent is None,
            "in_default": f"{direction} {ethertype} any - {remote}",
            "in_others": f"{direction} {ethertype} any - {remote}" if parent is None else None,
        }
        for direction, parent, remote in (("egress", None, "anywhere"), ("ingress", "PARENT", "group:PARENT"))
        for ethertype in ("IPv4", "IPv6")
    ]


def insert_initial_rows(_target: object, connection: sa.Connection, **_: object) -> None:
    """Called with every creation of the table, and again until a new schema is complete: MariaDB commits in between."""
    if connection.execute(sa.select(default_security_group_rules.c.id).limit(1)).first() is None:
        connection.execute(sa.insert(default_security_group_rules), initial_default_rules())


sa.event.listen(default_security_group_rules, "after_create", insert_initial_rows)
