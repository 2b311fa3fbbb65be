"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "address_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "addresses",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_address_groups")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_address_groups_project_id"), "address_groups", ["project_id"], unique=False)
    op.create_table(
        "address_scopes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_address_scopes")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_address_scopes_project_id"), "address_scopes", ["project_id"], unique=False)
    op.create_table(
        "agents",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("agent_type", sa.String(length=255), nullable=False),
        sa.Column("binary", sa.String(length=255), nullable=False),
        sa.Column("topic", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("started_at", sa.String(length=20), nullable=False),
        sa.Column("heartbeat_timestamp", sa.String(length=20), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("load", sa.Integer(), nullable=False),
        sa.Column("resources_synced", sa.Boolean(), nullable=True),
        sa.Column(
            "configurations",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "resource_versions",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("host", "agent_type", name=op.f("uq_agents_host_agent_type")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("at", sa.String(length=20), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "journal",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("operation", sa.String(length=64), nullable=False),
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.Column(
            "before",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "after",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=True,
        ),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_journal")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "networks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("mtu", sa.Integer(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("port_security_enabled", sa.Boolean(), nullable=False),
        sa.Column("dns_domain", sa.String(length=255), nullable=False),
        sa.Column("qos_policy_id", sa.String(length=36), nullable=True),
        sa.Column("ipv4_address_scope", sa.String(length=36), nullable=True),
        sa.Column("ipv6_address_scope", sa.String(length=36), nullable=True),
        sa.Column(
            "availability_zone_hints",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "extra_dhcp_opts",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "subnets",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("network_type", sa.String(length=32), nullable=True),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("segmentation_id", sa.Integer(), nullable=True),
        sa.Column(
            "segments",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_networks")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_networks_external"), "networks", ["external"], unique=False)
    op.create_index(op.f("ix_networks_project_id"), "networks", ["project_id"], unique=False)
    op.create_table(
        "quota_usages",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource", name=op.f("pk_quota_usages")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource", name=op.f("pk_quotas")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "rbac_policies",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("object_type", sa.String(length=32), nullable=False),
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("target_project", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rbac_policies")),
        sa.UniqueConstraint(
            "object_id",
            "action",
            "target_project",
            "object_type",
            name=op.f("uq_rbac_policies_object_id_action_target_project_object_type"),
        ),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_rbac_policies_object_id"), "rbac_policies", ["object_id"], unique=False)
    op.create_index(op.f("ix_rbac_policies_project_id"), "rbac_policies", ["project_id"], unique=False)
    op.create_index(op.f("ix_rbac_policies_target_project"), "rbac_policies", ["target_project"], unique=False)
    op.create_table(
        "security_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("stateful", sa.Boolean(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_groups")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_security_groups_project_id"), "security_groups", ["project_id"], unique=False)
    op.create_table(
        "tags",
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("object_id", "tag", name=op.f("pk_tags")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_tags_tag"), "tags", ["tag"], unique=False)
    op.create_table(
        "default_security_groups",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("security_group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["security_group_id"],
            ["security_groups.id"],
            name=op.f("fk_default_security_groups_security_group_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_default_security_groups")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(
        op.f("ix_default_security_groups_security_group_id"),
        "default_security_groups",
        ["security_group_id"],
        unique=False,
    )
    op.create_table(
        "network_dhcp_agents",
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_network_dhcp_agents_agent_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_dhcp_agents_network_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("network_id", "agent_id", name=op.f("pk_network_dhcp_agents")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_network_dhcp_agents_agent_id"), "network_dhcp_agents", ["agent_id"], unique=False)
    op.create_table(
        "network_segments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("network_type", sa.String(length=32), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("segmentation_id", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("identity", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_segments_network_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_segments")),
        sa.UniqueConstraint("identity", name=op.f("uq_network_segments_identity")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_network_segments_network_id"), "network_segments", ["network_id"], unique=False)
    op.create_table(
        "ports",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("mac_address", sa.String(length=32), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("device_id", sa.String(length=255), nullable=False),
        sa.Column("device_owner", sa.String(length=255), nullable=False),
        sa.Column("port_security_enabled", sa.Boolean(), nullable=False),
        sa.Column("ip_allocation", sa.String(length=16), nullable=False),
        sa.Column("dns_name", sa.String(length=255), nullable=False),
        sa.Column("dns_domain", sa.String(length=255), nullable=False),
        sa.Column("qos_policy_id", sa.String(length=36), nullable=True),
        sa.Column("qos_network_policy_id", sa.String(length=36), nullable=True),
        sa.Column("propagate_uplink_status", sa.Boolean(), nullable=False),
        sa.Column("data_plane_status", sa.String(length=16), nullable=True),
        sa.Column("numa_affinity_policy", sa.String(length=64), nullable=True),
        sa.Column("device_profile", sa.String(length=255), nullable=True),
        sa.Column("vnic_type", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("vif_type", sa.String(length=64), nullable=False),
        sa.Column(
            "profile",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "vif_details",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "fixed_ips",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "security_groups",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "allowed_address_pairs",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "extra_dhcp_opts",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "dns_assignment",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "hints",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("trusted", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"], name=op.f("fk_ports_network_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ports")),
        sa.UniqueConstraint("network_id", "mac_address", name=op.f("uq_ports_network_id_mac_address")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_ports_device_id"), "ports", ["device_id"], unique=False)
    op.create_index(op.f("ix_ports_host"), "ports", ["host"], unique=False)
    op.create_index(op.f("ix_ports_network_id"), "ports", ["network_id"], unique=False)
    op.create_index(op.f("ix_ports_project_id"), "ports", ["project_id"], unique=False)
    op.create_table(
        "security_group_rules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("security_group_id", sa.String(length=36), nullable=False),
        sa.Column("direction", sa.String(length=16), nullable=False),
        sa.Column("ethertype", sa.String(length=16), nullable=False),
        sa.Column("protocol", sa.String(length=64), nullable=True),
        sa.Column("port_range_min", sa.Integer(), nullable=True),
        sa.Column("port_range_max", sa.Integer(), nullable=True),
        sa.Column("remote_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("normalized_cidr", sa.String(length=64), nullable=True),
        sa.Column("remote_group_id", sa.String(length=36), nullable=True),
        sa.Column("remote_address_group_id", sa.String(length=36), nullable=True),
        sa.Column("identity", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["remote_address_group_id"],
            ["address_groups.id"],
            name=op.f("fk_security_group_rules_remote_address_group_id"),
        ),
        sa.ForeignKeyConstraint(
            ["remote_group_id"], ["security_groups.id"], name=op.f("fk_security_group_rules_remote_group_id")
        ),
        sa.ForeignKeyConstraint(
            ["security_group_id"],
            ["security_groups.id"],
            name=op.f("fk_security_group_rules_security_group_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_group_rules")),
        sa.UniqueConstraint(
            "security_group_id", "identity", name=op.f("uq_security_group_rules_security_group_id_identity")
        ),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_security_group_rules_project_id"), "security_group_rules", ["project_id"], unique=False)
    op.create_index(
        op.f("ix_security_group_rules_remote_address_group_id"),
        "security_group_rules",
        ["remote_address_group_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_security_group_rules_remote_group_id"), "security_group_rules", ["remote_group_id"], unique=False
    )
    op.create_index(
        op.f("ix_security_group_rules_security_group_id"), "security_group_rules", ["security_group_id"], unique=False
    )
    op.create_table(
        "subnetpools",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("default_prefixlen", sa.Integer(), nullable=False),
        sa.Column("min_prefixlen", sa.Integer(), nullable=False),
        sa.Column("max_prefixlen", sa.Integer(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("default_quota", sa.Integer(), nullable=True),
        sa.Column("address_scope_id", sa.String(length=36), nullable=True),
        sa.Column(
            "prefixes",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("allocation_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["address_scope_id"], ["address_scopes.id"], name=op.f("fk_subnetpools_address_scope_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subnetpools")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_subnetpools_address_scope_id"), "subnetpools", ["address_scope_id"], unique=False)
    op.create_index(op.f("ix_subnetpools_project_id"), "subnetpools", ["project_id"], unique=False)
    op.create_table(
        "port_bindings",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("vnic_type", sa.String(length=64), nullable=False),
        sa.Column("vif_type", sa.String(length=64), nullable=False),
        sa.Column(
            "profile",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "vif_details",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "levels",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_port_bindings_port_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("port_id", "host", name=op.f("pk_port_bindings")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_port_bindings_host"), "port_bindings", ["host"], unique=False)
    op.create_table(
        "port_security_groups",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("security_group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=op.f("fk_port_security_groups_port_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["security_group_id"], ["security_groups.id"], name=op.f("fk_port_security_groups_security_group_id")
        ),
        sa.PrimaryKeyConstraint("port_id", "security_group_id", name=op.f("pk_port_security_groups")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(
        op.f("ix_port_security_groups_security_group_id"), "port_security_groups", ["security_group_id"], unique=False
    )
    op.create_table(
        "provisioning_blocks",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("component", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=op.f("fk_provisioning_blocks_port_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("port_id", "component", name=op.f("pk_provisioning_blocks")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "subnets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.String(length=20), nullable=False),
        sa.Column("updated_at", sa.String(length=20), nullable=False),
        sa.Column("revision_number", sa.Integer(), nullable=False),
        sa.Column(
            "tags",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("cidr", sa.String(length=64), nullable=False),
        sa.Column("gateway_ip", sa.String(length=64), nullable=True),
        sa.Column("enable_dhcp", sa.Boolean(), nullable=False),
        sa.Column("ipv6_ra_mode", sa.String(length=32), nullable=True),
        sa.Column("ipv6_address_mode", sa.String(length=32), nullable=True),
        sa.Column("subnetpool_id", sa.String(length=36), nullable=True),
        sa.Column("segment_id", sa.String(length=36), nullable=True),
        sa.Column("dns_publish_fixed_ip", sa.Boolean(), nullable=False),
        sa.Column(
            "allocation_pools",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "dns_nameservers",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "host_routes",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "service_types",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"], name=op.f("fk_subnets_network_id")),
        sa.ForeignKeyConstraint(["subnetpool_id"], ["subnetpools.id"], name=op.f("fk_subnets_subnetpool_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subnets")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_subnets_network_id"), "subnets", ["network_id"], unique=False)
    op.create_index(op.f("ix_subnets_project_id"), "subnets", ["project_id"], unique=False)
    op.create_index(op.f("ix_subnets_subnetpool_id"), "subnets", ["subnetpool_id"], unique=False)
    op.create_table(
        "ip_allocations",
        sa.Column("subnet_id", sa.String(length=36), nullable=False),
        sa.Column("ip_address", sa.String(length=64), nullable=False),
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_ip_allocations_port_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["subnet_id"], ["subnets.id"], name=op.f("fk_ip_allocations_subnet_id")),
        sa.PrimaryKeyConstraint("subnet_id", "ip_address", name=op.f("pk_ip_allocations")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_ip_allocations_network_id"), "ip_allocations", ["network_id"], unique=False)
    op.create_index(op.f("ix_ip_allocations_port_id"), "ip_allocations", ["port_id"], unique=False)


def downgrade() -> None:
    # A table's indexes go with it; alone, MariaDB does not let go of one that a foreign key needs.
    op.drop_table("ip_allocations")
    op.drop_table("subnets")
    op.drop_table("provisioning_blocks")
    op.drop_table("port_security_groups")
    op.drop_table("port_bindings")
    op.drop_table("subnetpools")
    op.drop_table("security_group_rules")
    op.drop_table("ports")
    op.drop_table("network_segments")
    op.drop_table("network_dhcp_agents")
    op.drop_table("default_security_groups")
    op.drop_table("tags")
    op.drop_table("security_groups")
    op.drop_table("rbac_policies")
    op.drop_table("quotas")
    op.drop_table("quota_usages")
    op.drop_table("networks")
    op.drop_table("journal")
    op.drop_table("changes")
    op.drop_table("agents")
    op.drop_table("address_scopes")
    op.drop_table("address_groups")
