"""The initial schema, with the templates of security group rules that Neutron has.

Frozen: it describes the tables as they were when it was written, and does not import `db/tables/`, which later migrations
change too.
"""

import uuid
from collections.abc import Iterable
from typing import Unpack

import sqlalchemy as sa
from alembic import op

from neutrino.model.objects import Object
from neutrino.server.db.sql import ColumnOptions, Columns, ColumnType

revision = "0100"
down_revision = None

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows only in an INTEGER
Json = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")  # TEXT ends at 64 KiB there
# MariaDB compares without case and trailing spaces by default; names are equal byte for byte on all databases.
BYTEWISE: Object = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    connection = op.get_bind()
    existing = metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
    metadata.create_all(connection)
    # MariaDB commits every statement: tables of an attempt that was interrupted may lack indexes and rows.
    for name in existing:
        for index in metadata.tables[name].indexes:
            index.create(connection, checkfirst=True)
    rules = metadata.tables["default_security_group_rules"]
    if connection.execute(sa.select(rules.c.id).limit(1)).first() is None:
        connection.execute(sa.insert(rules), list(default_rules()))


def default_rules() -> Iterable[Object]:
    """Neutron's templates: every new group sends everything, and a default group receives from its own members."""
    for direction, parent, remote in (("egress", None, "anywhere"), ("ingress", "PARENT", "group:PARENT")):
        for ethertype in ("IPv4", "IPv6"):
            identity = f"{direction} {ethertype} any - {remote}"
            yield {
                "id": str(uuid.uuid4()),
                "direction": direction,
                "ethertype": ethertype,
                "remote_group_id": parent,
                "description": f"Legacy default SG rule for {direction} traffic",
                "used_in_default_sg": True,
                "used_in_non_default_sg": parent is None,
                "in_default": identity,
                "in_others": identity if parent is None else None,
            }


# --- columns ----------------------------------------------------------------------------------------------------------


def columns(type_: ColumnType, *names: str, **options: Unpack[ColumnOptions]) -> Columns:
    with_defaults: ColumnOptions = {"nullable": False, **options}
    return [sa.Column(name, type_, **with_defaults) for name in names]


def ids(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return columns(sa.String(36), *names, **options)


def text(size: int, *names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return columns(sa.String(size), *names, **options)


def integers(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return columns(sa.Integer, *names, **options)


def flags(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return columns(sa.Boolean, *names, **options)


def json(*names: str, **options: Unpack[ColumnOptions]) -> Columns:
    return columns(Json, *names, **options)


def reference(name: str, to: str, *, cascade: bool = False, **options: Unpack[ColumnOptions]) -> Columns:
    """A foreign key to the `id` of another table, with an index."""
    key = sa.ForeignKey(f"{to}.id", ondelete="CASCADE" if cascade else None)
    with_defaults: ColumnOptions = {"nullable": False, "index": True, **options}
    return [sa.Column(name, sa.String(36), key, **with_defaults)]


def owner(name: str, to: str) -> Columns:
    """The first column of the primary key: rows are deleted with the row that they belong to."""
    return reference(name, to, cascade=True, primary_key=True, index=False)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(name: str, *parts: Columns | sa.schema.SchemaItem) -> None:
    items = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    sa.Table(name, metadata, *items, **BYTEWISE)


def objects(name: str, *parts: Columns | sa.schema.SchemaItem) -> None:
    """A table of API objects that have the standard attributes."""
    table(
        name,
        ids("id", primary_key=True),
        text(255, "project_id", index=True),
        text(255, "name"),
        text(255, "description", nullable=True),
        text(20, "created_at", "updated_at"),
        integers("revision_number"),
        json("tags"),
        *parts,
    )


# Networks, their segments and subnets, subnet pools and address scopes.
objects(
    "networks",
    flags("admin_state_up", "port_security_enabled"),
    text(16, "status"),
    integers("mtu"),
    flags("external", index=True),
    flags("is_default"),
    flags("vlan_transparent", "qinq", "project_default", server_default=sa.false()),
    text(255, "dns_domain"),
    reference("qos_policy_id", "qos_policies", nullable=True),
    ids("ipv4_address_scope", "ipv6_address_scope", nullable=True),
    json("availability_zone_hints", "extra_dhcp_opts", "subnets"),
    text(32, "network_type", nullable=True),
    text(64, "physical_network", nullable=True),
    integers("segmentation_id", nullable=True),
    json("segments"),
)
table(
    "network_segments",
    ids("id", primary_key=True),
    reference("network_id", "networks", cascade=True),
    text(32, "network_type"),
    text(64, "physical_network", nullable=True),
    integers("segmentation_id", nullable=True),
    integers("position"),
    text(255, "identity", unique=True),
    text(255, "name", "description", nullable=True),
    text(20, "created_at", "updated_at", server_default=""),
    integers("revision_number", server_default="1"),
)
table(
    "network_segment_ranges",
    ids("id", primary_key=True),
    text(255, "project_id", nullable=True, index=True),
    text(255, "name"),
    text(255, "description", nullable=True),
    text(20, "created_at", "updated_at"),
    integers("revision_number"),
    json("tags"),
    flags("default", "shared"),
    text(32, "network_type"),
    text(64, "physical_network", nullable=True),
    integers("minimum", "maximum"),
)
table("segment_range_writes", text(96, "name", primary_key=True), integers("revision"))
objects(
    "subnets",
    reference("network_id", "networks"),
    integers("ip_version"),
    text(64, "cidr"),
    text(64, "gateway_ip", nullable=True),
    flags("enable_dhcp"),
    text(32, "ipv6_ra_mode", "ipv6_address_mode", nullable=True),
    reference("subnetpool_id", "subnetpools", nullable=True),
    flags("prefix_delegated", server_default=sa.false()),
    reference("segment_id", "network_segments", nullable=True),
    flags("dns_publish_fixed_ip"),
    json("allocation_pools", "dns_nameservers", "host_routes", "service_types"),
)
table(
    "network_dhcp_agents",
    owner("network_id", "networks"),
    reference("agent_id", "agents", cascade=True, primary_key=True),
    flags("requested"),
)
objects("address_scopes", integers("ip_version"))
objects(
    "subnetpools",
    integers("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen"),
    flags("is_default"),
    integers("default_quota", nullable=True),
    reference("address_scope_id", "address_scopes", nullable=True),
    json("prefixes"),
    integers("allocation_version"),
)

# Ports, their addresses and bindings.
objects(
    "ports",
    reference("network_id", "networks"),
    text(32, "mac_address"),
    flags("admin_state_up", "port_security_enabled", "propagate_uplink_status"),
    text(16, "status"),
    text(255, "device_id", index=True),
    text(255, "device_owner", "dns_name", "dns_domain"),
    text(16, "ip_allocation"),
    reference("qos_policy_id", "qos_policies", nullable=True),
    text(16, "data_plane_status", nullable=True),
    text(64, "numa_affinity_policy", nullable=True),
    text(255, "device_profile", nullable=True),
    text(32, "hardware_offload_type", nullable=True),
    text(64, "vnic_type"),
    text(255, "host", index=True),
    text(64, "vif_type"),
    json(
        "profile",
        "vif_details",
        "fixed_ips",
        "security_groups",
        "allowed_address_pairs",
        "extra_dhcp_opts",
        "dns_assignment",
        "hints",
    ),
    flags("trusted", nullable=True),
    sa.UniqueConstraint("network_id", "mac_address"),
    sa.Index("ix_ports_mac_address", "mac_address"),
    sa.Index("ix_ports_name", "name", "id"),
)
table(
    "ip_allocations",
    reference("subnet_id", "subnets", primary_key=True, index=False),
    text(64, "ip_address", primary_key=True, index=True),
    reference("port_id", "ports", cascade=True),
    ids("network_id", index=True),
)
table(
    "port_security_groups",
    owner("port_id", "ports"),
    reference("security_group_id", "security_groups", primary_key=True),
)
table(
    "port_bindings",
    owner("port_id", "ports"),
    text(255, "host", primary_key=True, index=True),
    text(16, "status"),
    text(64, "vnic_type", "vif_type"),
    json("profile", "vif_details", "levels"),
    text(20, "inactive_since", nullable=True, index=True),
)
table("provisioning_blocks", owner("port_id", "ports"), text(32, "component", primary_key=True))

# Security groups, their rules, the templates of rules, and address groups.
objects("security_groups", flags("stateful", "is_default"))
table(
    "default_security_groups",
    text(255, "project_id", primary_key=True),
    reference("security_group_id", "security_groups", cascade=True),
)
objects(
    "security_group_rules",
    reference("security_group_id", "security_groups", cascade=True),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", "normalized_cidr", nullable=True),
    reference("remote_group_id", "security_groups", nullable=True),
    reference("remote_address_group_id", "address_groups", nullable=True),
    text(255, "identity"),
    sa.UniqueConstraint("security_group_id", "identity"),
)
table(
    "default_security_group_rules",
    ids("id", primary_key=True),
    text(16, "direction", "ethertype"),
    text(64, "protocol", nullable=True),
    integers("port_range_min", "port_range_max", nullable=True),
    text(64, "remote_ip_prefix", nullable=True),
    ids("remote_group_id", nullable=True),
    reference("remote_address_group_id", "address_groups", nullable=True),
    text(255, "description"),
    flags("used_in_default_sg", "used_in_non_default_sg"),
    text(255, "in_default", "in_others", nullable=True, unique=True),
)
table(
    "security_groups_default_statefulness",
    ids("id", primary_key=True),
    text(255, "project_id", nullable=True),
    text(300, "scope", unique=True),
    flags("stateful"),
)
objects("address_groups", json("addresses"))

# RBAC policies, quotas and tags.
table(
    "rbac_policies",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(32, "object_type"),
    ids("object_id", index=True),
    text(32, "action"),
    text(255, "target_project", index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
)
table("quotas", text(255, "project_id", primary_key=True), text(64, "resource", primary_key=True), integers("limit"))
table(
    "quota_usages", text(255, "project_id", primary_key=True), text(64, "resource", primary_key=True), integers("used")
)
table("tags", ids("object_id", primary_key=True), text(255, "tag", primary_key=True, index=True))

# The change log.
table(
    "changes",
    columns(Serial, "id", primary_key=True, autoincrement=True),
    text(32, "kind"),
    ids("object_id"),
    flags("deleted"),
    flags("created", server_default=sa.false()),
    text(20, "at"),
    text(255, "project_id", nullable=True),
    text(64, "request_id", nullable=True),
    columns(sa.BigInteger, "position", nullable=True),
    sa.Index("ix_changes_object_id", "object_id"),
    sa.Index("ix_changes_project_id_position", "project_id", "position"),
    sa.Index("uq_changes_position", "position", unique=True),
)
table(
    "change_head",
    integers("id", primary_key=True, autoincrement=False),
    ids("identity"),
    columns(sa.BigInteger, "position", "removed"),
)

# Agents, credentials of hosts, queries to hosts, and the processes of the servers.
table(
    "agents",
    ids("id", primary_key=True),
    text(255, "agent_type", "binary", "topic", "host"),
    text(255, "availability_zone", "description", nullable=True),
    flags("admin_state_up"),
    text(20, "created_at", "started_at", "heartbeat_timestamp"),
    integers("load"),
    flags("resources_synced", nullable=True),
    json("configurations", "resource_versions"),
    sa.UniqueConstraint("host", "agent_type"),
)
table(
    "host_credentials",
    text(255, "host", primary_key=True),
    text(64, "digest"),
    text(20, "created_at"),
    text(255, "roles", server_default="l2,dhcp,l3,metadata"),
)
table(
    "host_queries",
    ids("id", primary_key=True),
    text(255, "host", index=True),
    text(32, "kind"),
    json("question"),
    columns(sa.Double, "expires_at"),
    json("answer", nullable=True),
    text(2000, "error", nullable=True),
)
table(
    "server_processes",
    ids("id", primary_key=True),
    text(255, "host"),
    text(16, "kind"),
    integers("pid"),
    text(64, "release"),
    text(20, "started_at", "seen_at"),
    json("details"),
)

# What drivers of ML2 keep: values of their attributes, and postcommits that have not run yet.
table("network_attributes", owner("object_id", "networks"), text(64, "name", primary_key=True), json("value"))
table("subnet_attributes", owner("object_id", "subnets"), text(64, "name", primary_key=True), json("value"))
table("port_attributes", owner("object_id", "ports"), text(64, "name", primary_key=True), json("value"))
table(
    "journal",
    ids("id", primary_key=True),
    text(64, "operation"),
    ids("object_id"),
    json("before", "after", nullable=True),
    columns(sa.Float, "at"),
    text(64, "owner"),
)

# Routers, floating IPs and what belongs to them.
objects(
    "routers",
    flags("admin_state_up", "enable_snat"),
    text(16, "status"),
    flags("distributed", "ha"),
    flags("enable_ndp_proxy", server_default=sa.false()),
    flags("enable_default_route_ecmp", "enable_default_route_bfd"),
    ids("gw_port_id", nullable=True),
    json("extra_gw_port_ids"),
    ids("gw_network_id", nullable=True, index=True),
    reference("gw_qos_policy_id", "qos_policies", nullable=True),
    reference("flavor_id", "flavors", nullable=True),
    ids("service_type_id", "ha_network_id", nullable=True),
    integers("ha_vr_id", nullable=True),
    json("availability_zone_hints", "routes", "conntrack_helpers"),
    sa.UniqueConstraint("ha_network_id", "ha_vr_id"),
)
table("router_ports", owner("port_id", "ports"), reference("router_id", "routers"), text(255, "port_type"))
table(
    "router_l3_agents",
    owner("router_id", "routers"),
    reference("agent_id", "agents", cascade=True, primary_key=True),
    ids("ha_port_id", nullable=True),
    text(16, "ha_state", nullable=True),
)
table("ha_networks", text(255, "project_id", primary_key=True), reference("network_id", "networks", cascade=True))
table("ha_router_networks", owner("router_id", "routers"), reference("network_id", "networks"))
objects(
    "floatingips",
    ids("floating_network_id", index=True),
    text(64, "floating_ip_address", index=True),
    reference("floating_port_id", "ports", unique=True, index=False),
    reference("router_id", "routers", nullable=True),
    reference("port_id", "ports", nullable=True),
    text(64, "fixed_ip_address", nullable=True),
    text(16, "status"),
    text(255, "dns_name", "dns_domain"),
    reference("qos_policy_id", "qos_policies", nullable=True),
    json("port_forwardings"),
    sa.UniqueConstraint("port_id", "fixed_ip_address", "floating_network_id"),
)
table(
    "port_forwardings",
    ids("id", primary_key=True),
    reference("floatingip_id", "floatingips"),
    reference("internal_port_id", "ports"),
    text(64, "internal_ip_address"),
    text(40, "protocol"),
    text(16, "external_port_range", "internal_port_range"),
    integers("external_port", "internal_port", nullable=True),
    text(255, "description"),
    sa.UniqueConstraint(
        "internal_port_id", "internal_ip_address", "protocol", "internal_port_range", name="uq_port_forwardings_inside"
    ),
)
table(
    "conntrack_helpers",
    ids("id", primary_key=True),
    reference("router_id", "routers", cascade=True),
    text(40, "protocol"),
    integers("port"),
    text(64, "helper"),
    sa.UniqueConstraint("router_id", "protocol", "port", "helper"),
)
objects(
    "ndp_proxies",
    reference("router_id", "routers", cascade=True),
    reference("port_id", "ports", cascade=True),
    text(64, "ip_address"),
    sa.UniqueConstraint("router_id", "ip_address"),
)
table("dvr_host_macs", text(255, "host", primary_key=True), text(32, "mac_address", unique=True))
table("distributed_port_hosts", owner("port_id", "ports"), text(255, "host", primary_key=True))
table(
    "flavors",
    ids("id", primary_key=True),
    text(255, "name"),
    text(1024, "description", nullable=True),
    ids("service_type"),
    flags("enabled"),
    json("service_profiles"),
)
table(
    "service_profiles",
    ids("id", primary_key=True),
    text(1024, "description", nullable=True),
    text(1024, "driver"),
    text(4096, "metainfo"),
    flags("enabled"),
)
table(
    "flavor_service_profiles",
    owner("flavor_id", "flavors"),
    reference("service_profile_id", "service_profiles", primary_key=True),
)
table(
    "auto_allocated_topologies",
    text(255, "project_id", primary_key=True),
    reference("network_id", "networks", cascade=True),
    ids("router_id", nullable=True),
)

# QoS policies and rules.
objects("qos_policies", flags("is_default"), json("rules"))
table(
    "default_qos_policies",
    text(255, "project_id", primary_key=True),
    reference("qos_policy_id", "qos_policies", cascade=True),
)
table(
    "qos_rules",
    ids("id", primary_key=True),
    reference("qos_policy_id", "qos_policies", cascade=True),
    text(32, "type"),
    text(16, "direction"),
    integers(
        "max_kbps", "max_burst_kbps", "min_kbps", "max_kpps", "max_burst_kpps", "min_kpps", "dscp_mark", nullable=True
    ),
    sa.UniqueConstraint("qos_policy_id", "type", "direction"),
)

# Firewall groups, policies and rules (FWaaS v2).
objects(
    "firewall_rules",
    flags("shared", index=True),
    flags("enabled"),
    text(40, "protocol", nullable=True),
    integers("ip_version"),
    text(64, "source_ip_address", "destination_ip_address", nullable=True),
    text(16, "source_port", "destination_port", nullable=True),
    text(16, "action"),
)
objects("firewall_policies", flags("shared", index=True), flags("audited"), json("firewall_rules"))
table(
    "firewall_policy_rules",
    owner("firewall_policy_id", "firewall_policies"),
    reference("firewall_rule_id", "firewall_rules", primary_key=True),
    integers("position"),
)
objects(
    "firewall_groups",
    flags("admin_state_up"),
    flags("shared", index=True),
    flags("is_default"),
    text(16, "status"),
    reference("ingress_firewall_policy_id", "firewall_policies", nullable=True),
    reference("egress_firewall_policy_id", "firewall_policies", nullable=True),
)
table(
    "firewall_group_ports", owner("port_id", "ports"), reference("firewall_group_id", "firewall_groups", cascade=True)
)
table(
    "firewall_group_hosts",
    owner("firewall_group_id", "firewall_groups"),
    text(255, "host", primary_key=True),
    text(16, "role", primary_key=True),
    integers("revision"),
    text(16, "status"),
)
table(
    "default_firewall_groups",
    text(255, "project_id", primary_key=True),
    reference("firewall_group_id", "firewall_groups", cascade=True),
)

# VPN services, their policies, endpoint groups and IPsec site connections.
table(
    "ikepolicies",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name", "description"),
    integers("revision_number"),
    text(32, "auth_algorithm", "encryption_algorithm", "phase1_negotiation_mode", "ike_version", "pfs"),
    json("lifetime"),
)
table(
    "ipsecpolicies",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name", "description"),
    integers("revision_number"),
    text(32, "transform_protocol", "auth_algorithm", "encryption_algorithm", "encapsulation_mode", "pfs"),
    json("lifetime"),
)
table(
    "vpn_endpoint_groups",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name", "description"),
    integers("revision_number"),
    text(16, "type"),
    json("endpoints"),
)
table(
    "vpn_endpoint_subnets",
    owner("endpoint_group_id", "vpn_endpoint_groups"),
    reference("subnet_id", "subnets", primary_key=True),
)
table(
    "vpnservices",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name", "description"),
    integers("revision_number"),
    reference("router_id", "routers"),
    reference("subnet_id", "subnets", nullable=True),
    ids("flavor_id", nullable=True),
    flags("admin_state_up"),
    text(16, "status"),
)
table(
    "ipsec_site_connections",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name", "description"),
    integers("revision_number"),
    reference("vpnservice_id", "vpnservices"),
    reference("ikepolicy_id", "ikepolicies"),
    reference("ipsecpolicy_id", "ipsecpolicies"),
    reference("local_ep_group_id", "vpn_endpoint_groups", nullable=True),
    reference("peer_ep_group_id", "vpn_endpoint_groups", nullable=True),
    text(255, "peer_address", "peer_id", "local_id", "psk"),
    json("peer_cidrs", "dpd"),
    integers("mtu"),
    text(16, "initiator", "auth_mode", "route_mode", "status"),
    flags("admin_state_up"),
)

# BGP speakers and peers.
table(
    "bgp_speakers",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    columns(sa.BigInteger, "local_as"),
    integers("ip_version"),
    flags("advertise_floating_ip_host_routes", "advertise_tenant_networks"),
    integers("revision_number"),
)
table(
    "bgp_peers",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    text(64, "peer_ip"),
    columns(sa.BigInteger, "remote_as"),
    text(16, "auth_type"),
    text(255, "password", nullable=True),
)
table(
    "bgp_speaker_peers",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("bgp_peer_id", "bgp_peers", cascade=True, primary_key=True),
    text(64, "peer_ip"),
    sa.UniqueConstraint("bgp_speaker_id", "peer_ip"),
)
table(
    "bgp_speaker_networks",
    owner("bgp_speaker_id", "bgp_speakers"),
    reference("network_id", "networks", cascade=True, primary_key=True),
)
table("bgp_speaker_agents", owner("agent_id", "agents"), reference("bgp_speaker_id", "bgp_speakers", cascade=True))

# Trunks and their subports.
objects(
    "trunks",
    flags("admin_state_up"),
    reference("port_id", "ports", unique=True, index=False),
    integers("generation"),
    text(255, "failed_host"),
)
table(
    "trunk_subports",
    reference("port_id", "ports", primary_key=True, index=False),
    reference("trunk_id", "trunks", cascade=True, index=False),
    text(16, "segmentation_type"),
    integers("segmentation_id"),
    sa.UniqueConstraint("trunk_id", "segmentation_type", "segmentation_id"),
)

# Tap services, tap flows and tap mirrors.
table(
    "tap_services",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    text(1024, "description"),
    integers("revision_number"),
    reference("port_id", "ports"),
    text(255, "reported_host"),
    text(16, "reported_status"),
)
table(
    "tap_flows",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    text(1024, "description"),
    integers("revision_number"),
    reference("tap_service_id", "tap_services"),
    reference("source_port", "ports"),
    text(4, "direction"),
    text(1024, "vlan_filter", nullable=True),
    integers("tunnel_id", unique=True),
    text(255, "reported_host"),
    text(16, "reported_status"),
)
table(
    "tap_mirrors",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    text(1024, "description"),
    integers("revision_number"),
    reference("port_id", "ports"),
    json("directions"),
    text(64, "remote_ip"),
    text(16, "mirror_type"),
)
table(
    "tap_mirror_tunnels",
    text(255, "project_id", primary_key=True),
    columns(sa.BigInteger, "tunnel_id", primary_key=True, autoincrement=False),
    reference("tap_mirror_id", "tap_mirrors", cascade=True),
)

# Metering labels, their rules and counters.
table(
    "metering_labels",
    ids("id", primary_key=True),
    text(255, "project_id", index=True),
    text(255, "name"),
    text(1024, "description"),
    flags("shared", index=True),
    integers("revision_number"),
)
table(
    "metering_label_rules",
    ids("id", primary_key=True),
    reference("metering_label_id", "metering_labels", cascade=True),
    text(16, "direction"),
    text(64, "remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix", nullable=True),
    flags("excluded"),
)
table(
    "metering_totals",
    text(255, "host", primary_key=True),
    ids("counter_id", primary_key=True),
    columns(sa.BigInteger, "packets", "bytes", "last_update"),
)

# Local IPs and their associations.
objects(
    "local_ips",
    reference("local_port_id", "ports"),
    reference("network_id", "networks"),
    text(64, "local_ip_address"),
    text(16, "ip_mode"),
    flags("owns_port"),
)
table(
    "local_ip_associations",
    reference("local_ip_id", "local_ips", primary_key=True, index=False),
    reference("fixed_port_id", "ports", cascade=True, primary_key=True),
    text(64, "fixed_ip"),
)

# Packet logs.
objects(
    "logs",
    text(255, "resource_type"),
    reference("resource_id", "security_groups", cascade=True, nullable=True),
    reference("target_id", "ports", cascade=True, nullable=True),
    text(8, "event"),
    flags("enabled"),
)

# Records for the external DNS.
table(
    "dns_records",
    ids("id", primary_key=True),
    text(16, "object_type"),
    ids("object_id", index=True),
    text(255, "project_id", "zone"),
    text(255, "name", index=True),
    text(8, "type"),
    text(64, "address"),
    flags("wanted"),
    flags("pending", index=True),
    flags("published"),
    text(1000, "error"),
    integers("attempts"),
    columns(sa.Double, "retry_at"),
    ids("claimed_by"),
    columns(sa.Double, "claimed_until"),
    sa.UniqueConstraint("object_id", "zone", "name", "type", "address"),
)
table("dns_callers", owner("port_id", "ports"), text(255, "project_name", "user_id", "user_name"))
