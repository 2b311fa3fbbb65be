"""The schema of revision 0001, which `tests/api/test_migrations.py` upgrades and compares with the tables of the code.

It is frozen: it does not import `db/tables/`, which changes with later migrations.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

REVISION = "0001"
Columns = list[sa.Column[Any]]
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
JSON = sa.Text().with_variant(sa.Text(length=2**24 - 1), "mysql", "mariadb")
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


def table(name: str, *parts: Columns | sa.schema.SchemaItem) -> None:
    items = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    sa.Table(name, metadata, *items, mysql_charset="utf8mb4", mysql_collate="utf8mb4_nopad_bin")


def columns(type_: Any, *names: str, **options: Any) -> Columns:
    return [sa.Column(name, type_, **({"nullable": False} | options)) for name in names]


def text(size: int, *names: str, **options: Any) -> Columns:
    return columns(sa.String(size), *names, **options)


def optional(size: int, *names: str, **options: Any) -> Columns:
    return columns(sa.String(size), *names, nullable=True, **options)


def key(size: int, *names: str, **options: Any) -> Columns:
    return columns(sa.String(size), *names, primary_key=True, **options)


def reference(name: str, table_name: str, ondelete: str | None = None, **options: Any) -> Columns:
    return [sa.Column(name, sa.String(36), sa.ForeignKey(f"{table_name}.id", ondelete=ondelete), **options)]


def standard() -> Columns:
    return [
        *key(36, "id"),
        *text(255, "project_id", index=True),
        *text(255, "name"),
        *optional(255, "description"),
        *text(20, "created_at", "updated_at"),
        *columns(sa.Integer, "revision_number"),
        *columns(JSON, "tags"),
    ]


table("address_groups", standard(), columns(JSON, "addresses"))
table("address_scopes", standard(), columns(sa.Integer, "ip_version"))
table(
    "agents",
    key(36, "id"),
    text(255, "agent_type", "binary", "topic", "host"),
    optional(255, "availability_zone", "description"),
    columns(sa.Boolean, "admin_state_up"),
    text(20, "created_at", "started_at", "heartbeat_timestamp"),
    columns(sa.Integer, "load"),
    columns(sa.Boolean, "resources_synced", nullable=True),
    columns(JSON, "configurations", "resource_versions"),
    sa.UniqueConstraint("host", "agent_type"),
)
table(
    "change_head",
    columns(sa.Integer, "id", primary_key=True, autoincrement=False),
    text(36, "identity"),
    columns(sa.BigInteger, "position", "removed"),
)
table(
    "changes",
    columns(SERIAL, "id", primary_key=True, autoincrement=True),
    text(32, "kind"),
    text(36, "object_id"),
    columns(sa.Integer, "revision"),
    columns(sa.Boolean, "deleted"),
    text(20, "at"),
    columns(sa.BigInteger, "position", nullable=True),
    sa.Index("uq_changes_position", "position", unique=True),
)
table("dvr_host_macs", key(255, "host"), text(32, "mac_address", unique=True))
table(
    "flavors",
    key(36, "id"),
    text(255, "name"),
    optional(1024, "description"),
    text(36, "service_type"),
    columns(sa.Boolean, "enabled"),
    columns(JSON, "service_profiles"),
)
table(
    "host_credentials",
    key(255, "host"),
    text(64, "digest"),
    text(20, "created_at"),
    text(255, "roles", server_default="l2,dhcp,l3,metadata"),
)
table(
    "journal",
    key(36, "id"),
    text(64, "operation", "owner"),
    text(36, "object_id"),
    columns(JSON, "before", "after", nullable=True),
    columns(sa.Float, "at"),
)
table(
    "networks",
    standard(),
    columns(sa.Boolean, "admin_state_up", "port_security_enabled", "is_default"),
    text(16, "status"),
    columns(sa.Integer, "mtu"),
    columns(sa.Boolean, "external", index=True),
    text(255, "dns_domain"),
    optional(36, "qos_policy_id", "ipv4_address_scope", "ipv6_address_scope"),
    columns(JSON, "availability_zone_hints", "extra_dhcp_opts", "subnets", "segments"),
    optional(32, "network_type"),
    optional(64, "physical_network"),
    columns(sa.Integer, "segmentation_id", nullable=True),
)
table("quota_usages", key(255, "project_id"), key(64, "resource"), columns(sa.Integer, "used"))
table("quotas", key(255, "project_id"), key(64, "resource"), columns(sa.Integer, "limit"))
table(
    "rbac_policies",
    key(36, "id"),
    text(255, "project_id", "target_project", index=True),
    text(32, "object_type", "action"),
    text(36, "object_id", index=True),
    sa.UniqueConstraint("object_id", "action", "target_project", "object_type"),
)
table("security_groups", standard(), columns(sa.Boolean, "stateful", "is_default"))
table(
    "service_profiles",
    key(36, "id"),
    optional(1024, "description"),
    text(1024, "driver"),
    text(4096, "metainfo"),
    columns(sa.Boolean, "enabled"),
)
table("tags", key(36, "object_id"), key(255, "tag", index=True))
table(
    "auto_allocated_topologies",
    key(255, "project_id"),
    reference("network_id", "networks", "CASCADE", nullable=False, index=True),
    optional(36, "router_id"),
)
table(
    "default_security_groups",
    key(255, "project_id"),
    reference("security_group_id", "security_groups", "CASCADE", nullable=False, index=True),
)
table(
    "flavor_service_profiles",
    reference("flavor_id", "flavors", "CASCADE", primary_key=True),
    reference("service_profile_id", "service_profiles", primary_key=True, index=True),
)
table("ha_networks", key(255, "project_id"), reference("network_id", "networks", "CASCADE", nullable=False, index=True))
table(
    "network_dhcp_agents",
    reference("network_id", "networks", "CASCADE", primary_key=True),
    reference("agent_id", "agents", "CASCADE", primary_key=True, index=True),
)
table(
    "network_segments",
    key(36, "id"),
    reference("network_id", "networks", "CASCADE", nullable=False, index=True),
    text(32, "network_type"),
    optional(64, "physical_network"),
    columns(sa.Integer, "segmentation_id", nullable=True),
    columns(sa.Integer, "position"),
    text(255, "identity", unique=True),
)
table(
    "ports",
    standard(),
    reference("network_id", "networks", nullable=False, index=True),
    text(32, "mac_address"),
    columns(sa.Boolean, "admin_state_up", "port_security_enabled", "propagate_uplink_status"),
    text(16, "status", "ip_allocation"),
    text(255, "device_id", "host", index=True),
    text(255, "device_owner", "dns_name", "dns_domain"),
    optional(36, "qos_policy_id", "qos_network_policy_id"),
    optional(16, "data_plane_status"),
    optional(64, "numa_affinity_policy"),
    optional(255, "device_profile"),
    text(64, "vnic_type", "vif_type"),
    columns(
        JSON,
        "profile",
        "vif_details",
        "fixed_ips",
        "security_groups",
        "allowed_address_pairs",
        "extra_dhcp_opts",
        "dns_assignment",
        "hints",
    ),
    columns(sa.Boolean, "trusted", nullable=True),
    sa.UniqueConstraint("network_id", "mac_address"),
)
table(
    "routers",
    standard(),
    columns(sa.Boolean, "admin_state_up", "enable_snat", "distributed", "ha"),
    text(16, "status"),
    optional(36, "gw_port_id", "ha_network_id"),
    optional(36, "gw_network_id", index=True),
    reference("flavor_id", "flavors", nullable=True, index=True),
    columns(sa.Integer, "ha_vr_id", nullable=True),
    columns(JSON, "availability_zone_hints", "routes", "conntrack_helpers"),
    sa.UniqueConstraint("ha_network_id", "ha_vr_id"),
)
table(
    "security_group_rules",
    standard(),
    reference("security_group_id", "security_groups", "CASCADE", nullable=False, index=True),
    text(16, "direction", "ethertype"),
    optional(64, "protocol", "remote_ip_prefix", "normalized_cidr"),
    columns(sa.Integer, "port_range_min", "port_range_max", nullable=True),
    reference("remote_group_id", "security_groups", nullable=True, index=True),
    reference("remote_address_group_id", "address_groups", nullable=True, index=True),
    text(255, "identity"),
    sa.UniqueConstraint("security_group_id", "identity"),
)
table(
    "subnetpools",
    standard(),
    columns(sa.Integer, "ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen", "allocation_version"),
    columns(sa.Boolean, "is_default"),
    columns(sa.Integer, "default_quota", nullable=True),
    reference("address_scope_id", "address_scopes", nullable=True, index=True),
    columns(JSON, "prefixes"),
)
table(
    "conntrack_helpers",
    key(36, "id"),
    reference("router_id", "routers", "CASCADE", nullable=False, index=True),
    text(40, "protocol"),
    columns(sa.Integer, "port"),
    text(64, "helper"),
    sa.UniqueConstraint("router_id", "protocol", "port", "helper"),
)
table("distributed_port_hosts", reference("port_id", "ports", "CASCADE", primary_key=True), key(255, "host"))
table(
    "floatingips",
    standard(),
    text(36, "floating_network_id", index=True),
    text(64, "floating_ip_address", index=True),
    reference("floating_port_id", "ports", nullable=False, unique=True),
    reference("router_id", "routers", nullable=True, index=True),
    reference("port_id", "ports", nullable=True, index=True),
    optional(64, "fixed_ip_address"),
    text(16, "status"),
    text(255, "dns_name", "dns_domain"),
    columns(JSON, "port_forwardings"),
    sa.UniqueConstraint("port_id", "fixed_ip_address", "floating_network_id"),
)
table(
    "port_bindings",
    reference("port_id", "ports", "CASCADE", primary_key=True),
    key(255, "host", index=True),
    text(16, "status"),
    text(64, "vnic_type", "vif_type"),
    columns(JSON, "profile", "vif_details", "levels"),
)
table(
    "port_security_groups",
    reference("port_id", "ports", "CASCADE", primary_key=True),
    reference("security_group_id", "security_groups", primary_key=True, index=True),
)
for kind in ("network", "subnet", "port"):
    table(
        f"{kind}_attributes",
        reference("object_id", f"{kind}s", "CASCADE", primary_key=True),
        key(64, "name"),
        columns(JSON, "value"),
    )
table("provisioning_blocks", reference("port_id", "ports", "CASCADE", primary_key=True), key(32, "component"))
table(
    "router_l3_agents",
    reference("router_id", "routers", "CASCADE", primary_key=True),
    reference("agent_id", "agents", "CASCADE", primary_key=True, index=True),
    optional(36, "ha_port_id"),
    optional(16, "ha_state"),
)
table(
    "router_ports",
    reference("port_id", "ports", "CASCADE", primary_key=True),
    reference("router_id", "routers", nullable=False, index=True),
    text(255, "port_type"),
)
table(
    "subnets",
    standard(),
    reference("network_id", "networks", nullable=False, index=True),
    columns(sa.Integer, "ip_version"),
    text(64, "cidr"),
    optional(64, "gateway_ip"),
    columns(sa.Boolean, "enable_dhcp", "dns_publish_fixed_ip"),
    optional(32, "ipv6_ra_mode", "ipv6_address_mode"),
    reference("subnetpool_id", "subnetpools", nullable=True, index=True),
    columns(sa.Boolean, "prefix_delegated", server_default=sa.false()),
    optional(36, "segment_id"),
    columns(JSON, "allocation_pools", "dns_nameservers", "host_routes", "service_types"),
)
table(
    "ip_allocations",
    reference("subnet_id", "subnets", primary_key=True),
    key(64, "ip_address"),
    reference("port_id", "ports", "CASCADE", nullable=False, index=True),
    text(36, "network_id", index=True),
)
table(
    "port_forwardings",
    key(36, "id"),
    reference("floatingip_id", "floatingips", nullable=False, index=True),
    reference("internal_port_id", "ports", nullable=False, index=True),
    text(64, "internal_ip_address"),
    text(40, "protocol"),
    text(16, "external_port_range", "internal_port_range"),
    columns(sa.Integer, "external_port", "internal_port", nullable=True),
    text(255, "description"),
    sa.UniqueConstraint(
        "internal_port_id", "internal_ip_address", "protocol", "internal_port_range", name="uq_port_forwardings_inside"
    ),
)
