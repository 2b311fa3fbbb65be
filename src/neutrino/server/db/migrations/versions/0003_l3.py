"""Routers, floating IPs, and what belongs to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "dvr_host_macs",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("mac_address", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_dvr_host_macs")),
        sa.UniqueConstraint("mac_address", name=op.f("uq_dvr_host_macs_mac_address")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "flavors",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=1024), nullable=True),
        sa.Column("service_type", sa.String(length=36), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column(
            "service_profiles",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "service_profiles",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("description", sa.String(length=1024), nullable=True),
        sa.Column("driver", sa.String(length=1024), nullable=False),
        sa.Column("metainfo", sa.String(length=4096), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_profiles")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_table(
        "auto_allocated_topologies",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.Column("router_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_auto_allocated_topologies_network_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_auto_allocated_topologies")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(
        op.f("ix_auto_allocated_topologies_network_id"), "auto_allocated_topologies", ["network_id"], unique=False
    )
    op.create_table(
        "flavor_service_profiles",
        sa.Column("flavor_id", sa.String(length=36), nullable=False),
        sa.Column("service_profile_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_service_profiles_flavor_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["service_profile_id"], ["service_profiles.id"], name=op.f("fk_flavor_service_profiles_service_profile_id")
        ),
        sa.PrimaryKeyConstraint("flavor_id", "service_profile_id", name=op.f("pk_flavor_service_profiles")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(
        op.f("ix_flavor_service_profiles_service_profile_id"),
        "flavor_service_profiles",
        ["service_profile_id"],
        unique=False,
    )
    op.create_table(
        "ha_networks",
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("network_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_ha_networks_network_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_ha_networks")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_ha_networks_network_id"), "ha_networks", ["network_id"], unique=False)
    op.create_table(
        "routers",
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
        sa.Column("distributed", sa.Boolean(), nullable=False),
        sa.Column("ha", sa.Boolean(), nullable=False),
        sa.Column("enable_snat", sa.Boolean(), nullable=False),
        sa.Column("gw_port_id", sa.String(length=36), nullable=True),
        sa.Column("gw_network_id", sa.String(length=36), nullable=True),
        sa.Column("flavor_id", sa.String(length=36), nullable=True),
        sa.Column("ha_network_id", sa.String(length=36), nullable=True),
        sa.Column("ha_vr_id", sa.Integer(), nullable=True),
        sa.Column(
            "availability_zone_hints",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "routes",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "conntrack_helpers",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["flavor_id"], ["flavors.id"], name=op.f("fk_routers_flavor_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_routers")),
        sa.UniqueConstraint("ha_network_id", "ha_vr_id", name=op.f("uq_routers_ha_network_id_ha_vr_id")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_routers_flavor_id"), "routers", ["flavor_id"], unique=False)
    op.create_index(op.f("ix_routers_gw_network_id"), "routers", ["gw_network_id"], unique=False)
    op.create_index(op.f("ix_routers_project_id"), "routers", ["project_id"], unique=False)
    op.create_table(
        "conntrack_helpers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("router_id", sa.String(length=36), nullable=False),
        sa.Column("protocol", sa.String(length=40), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("helper", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["router_id"], ["routers.id"], name=op.f("fk_conntrack_helpers_router_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conntrack_helpers")),
        sa.UniqueConstraint(
            "router_id", "protocol", "port", "helper", name=op.f("uq_conntrack_helpers_router_id_protocol_port_helper")
        ),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_conntrack_helpers_router_id"), "conntrack_helpers", ["router_id"], unique=False)
    op.create_table(
        "floatingips",
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
        sa.Column("floating_network_id", sa.String(length=36), nullable=False),
        sa.Column("floating_ip_address", sa.String(length=64), nullable=False),
        sa.Column("floating_port_id", sa.String(length=36), nullable=False),
        sa.Column("router_id", sa.String(length=36), nullable=True),
        sa.Column("port_id", sa.String(length=36), nullable=True),
        sa.Column("fixed_ip_address", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("dns_name", sa.String(length=255), nullable=False),
        sa.Column("dns_domain", sa.String(length=255), nullable=False),
        sa.Column(
            "port_forwardings",
            sa.Text().with_variant(sa.Text(length=16777215), "mariadb").with_variant(sa.Text(length=16777215), "mysql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["floating_port_id"], ["ports.id"], name=op.f("fk_floatingips_floating_port_id")),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_floatingips_port_id")),
        sa.ForeignKeyConstraint(["router_id"], ["routers.id"], name=op.f("fk_floatingips_router_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_floatingips")),
        sa.UniqueConstraint("floating_port_id", name=op.f("uq_floatingips_floating_port_id")),
        sa.UniqueConstraint(
            "port_id",
            "fixed_ip_address",
            "floating_network_id",
            name=op.f("uq_floatingips_port_id_fixed_ip_address_floating_network_id"),
        ),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_floatingips_floating_ip_address"), "floatingips", ["floating_ip_address"], unique=False)
    op.create_index(op.f("ix_floatingips_floating_network_id"), "floatingips", ["floating_network_id"], unique=False)
    op.create_index(op.f("ix_floatingips_port_id"), "floatingips", ["port_id"], unique=False)
    op.create_index(op.f("ix_floatingips_project_id"), "floatingips", ["project_id"], unique=False)
    op.create_index(op.f("ix_floatingips_router_id"), "floatingips", ["router_id"], unique=False)
    op.create_table(
        "router_l3_agents",
        sa.Column("router_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", sa.String(length=36), nullable=False),
        sa.Column("ha_port_id", sa.String(length=36), nullable=True),
        sa.Column("ha_state", sa.String(length=16), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("fk_router_l3_agents_agent_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["router_id"], ["routers.id"], name=op.f("fk_router_l3_agents_router_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("router_id", "agent_id", name=op.f("pk_router_l3_agents")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_router_l3_agents_agent_id"), "router_l3_agents", ["agent_id"], unique=False)
    op.create_table(
        "router_ports",
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("router_id", sa.String(length=36), nullable=False),
        sa.Column("port_type", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_router_ports_port_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["router_id"], ["routers.id"], name=op.f("fk_router_ports_router_id")),
        sa.PrimaryKeyConstraint("port_id", name=op.f("pk_router_ports")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_router_ports_router_id"), "router_ports", ["router_id"], unique=False)
    op.create_table(
        "port_forwardings",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("floatingip_id", sa.String(length=36), nullable=False),
        sa.Column("internal_port_id", sa.String(length=36), nullable=False),
        sa.Column("internal_ip_address", sa.String(length=64), nullable=False),
        sa.Column("protocol", sa.String(length=40), nullable=False),
        sa.Column("external_port_range", sa.String(length=16), nullable=False),
        sa.Column("internal_port_range", sa.String(length=16), nullable=False),
        sa.Column("external_port", sa.Integer(), nullable=True),
        sa.Column("internal_port", sa.Integer(), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["floatingip_id"], ["floatingips.id"], name=op.f("fk_port_forwardings_floatingip_id")),
        sa.ForeignKeyConstraint(["internal_port_id"], ["ports.id"], name=op.f("fk_port_forwardings_internal_port_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_port_forwardings")),
        sa.UniqueConstraint(
            "internal_port_id",
            "internal_ip_address",
            "protocol",
            "internal_port_range",
            name="uq_port_forwardings_inside",
        ),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
    )
    op.create_index(op.f("ix_port_forwardings_floatingip_id"), "port_forwardings", ["floatingip_id"], unique=False)
    op.create_index(
        op.f("ix_port_forwardings_internal_port_id"), "port_forwardings", ["internal_port_id"], unique=False
    )


def downgrade() -> None:
    op.drop_table("port_forwardings")
    op.drop_table("router_ports")
    op.drop_table("router_l3_agents")
    op.drop_table("floatingips")
    op.drop_table("conntrack_helpers")
    op.drop_table("routers")
    op.drop_table("ha_networks")
    op.drop_table("flavor_service_profiles")
    op.drop_table("auto_allocated_topologies")
    op.drop_table("service_profiles")
    op.drop_table("flavors")
    op.drop_table("dvr_host_macs")
