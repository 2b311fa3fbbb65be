"""Routers, floating IPs, and what belongs to them."""

from __future__ import annotations

import sqlalchemy as sa

from neutrino.server.db.tables.base import Id, Project, json, standard_columns, table

# Every change of what a router is connected to passes its row and its revision, so of two that cannot both be one wins.
routers = table(
    "routers",
    *standard_columns(),
    sa.Column("admin_state_up", sa.Boolean, nullable=False, default=True),
    sa.Column("status", sa.String(16), nullable=False, default="ACTIVE"),
    sa.Column("distributed", sa.Boolean, nullable=False, default=False),
    sa.Column("ha", sa.Boolean, nullable=False, default=False),
    sa.Column("enable_snat", sa.Boolean, nullable=False, default=True),
    sa.Column("gw_port_id", Id, nullable=True),
    sa.Column("gw_network_id", Id, nullable=True, index=True),
    sa.Column("flavor_id", Id, sa.ForeignKey("flavors.id"), nullable=True, index=True),
    # The VRRP id of an HA router, which is its own on the network that its hosts meet on.
    sa.Column("ha_network_id", Id, nullable=True),
    sa.Column("ha_vr_id", sa.Integer, nullable=True),
    json("availability_zone_hints"),
    json("routes"),
    json("conntrack_helpers"),
    sa.UniqueConstraint("ha_network_id", "ha_vr_id"),
)

# The ports of a router, by what each was made for. A port belongs to a router by its row here: its device_owner alone
# says nothing, since clients set it.
router_ports = table(
    "router_ports",
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("router_id", Id, sa.ForeignKey("routers.id"), nullable=False, index=True),
    sa.Column("port_type", sa.String(255), nullable=False),
)

# Which agents serve a router: one, or several of which one is active. Such a one has a port on the HA network.
router_l3_agents = table(
    "router_l3_agents",
    sa.Column("router_id", Id, sa.ForeignKey("routers.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("agent_id", Id, sa.ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True),
    sa.Column("ha_port_id", Id, nullable=True),
    sa.Column("ha_state", sa.String(16), nullable=True),
)

# At most one network a project on which the hosts of its HA routers meet.
ha_networks = table(
    "ha_networks",
    sa.Column("project_id", Project, primary_key=True),
    sa.Column("network_id", Id, sa.ForeignKey("networks.id", ondelete="CASCADE"), nullable=False, index=True),
)

floatingips = table(
    "floatingips",
    *standard_columns(),
    sa.Column("floating_network_id", Id, nullable=False, index=True),
    sa.Column("floating_ip_address", sa.String(64), nullable=False, index=True),
    sa.Column("floating_port_id", Id, sa.ForeignKey("ports.id"), nullable=False, unique=True),
    sa.Column("router_id", Id, sa.ForeignKey("routers.id"), nullable=True, index=True),
    sa.Column("port_id", Id, sa.ForeignKey("ports.id"), nullable=True, index=True),
    sa.Column("fixed_ip_address", sa.String(64), nullable=True),
    sa.Column("status", sa.String(16), nullable=False, default="DOWN"),
    sa.Column("dns_name", sa.String(255), nullable=False, default=""),
    sa.Column("dns_domain", sa.String(255), nullable=False, default=""),
    json("port_forwardings"),
    # An address of a port is behind one floating IP of a network.
    sa.UniqueConstraint("port_id", "fixed_ip_address", "floating_network_id"),
)

port_forwardings = table(
    "port_forwardings",
    sa.Column("id", Id, primary_key=True),
    sa.Column("floatingip_id", Id, sa.ForeignKey("floatingips.id"), nullable=False, index=True),
    sa.Column("internal_port_id", Id, sa.ForeignKey("ports.id"), nullable=False, index=True),
    sa.Column("internal_ip_address", sa.String(64), nullable=False),
    sa.Column("protocol", sa.String(40), nullable=False),
    sa.Column("external_port_range", sa.String(16), nullable=False),
    sa.Column("internal_port_range", sa.String(16), nullable=False),
    sa.Column("external_port", sa.Integer, nullable=True),
    sa.Column("internal_port", sa.Integer, nullable=True),
    sa.Column("description", sa.String(255), nullable=False, default=""),
    sa.UniqueConstraint(
        "internal_port_id",
        "internal_ip_address",
        "protocol",
        "internal_port_range",
        name="uq_port_forwardings_inside",  # the name by rule is too long for the databases
    ),
)

conntrack_helpers = table(
    "conntrack_helpers",
    sa.Column("id", Id, primary_key=True),
    sa.Column("router_id", Id, sa.ForeignKey("routers.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("protocol", sa.String(40), nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("helper", sa.String(64), nullable=False),
    sa.UniqueConstraint("router_id", "protocol", "port", "helper"),
)

# The address with which a host's distributed routers send: never that of the router's port, which is on every host.
dvr_host_macs = table(
    "dvr_host_macs",
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("mac_address", sa.String(32), nullable=False, unique=True),
)

# The hosts that have said that a distributed router's port is wired there: it is bound to none of them.
distributed_port_hosts = table(
    "distributed_port_hosts",
    sa.Column("port_id", Id, sa.ForeignKey("ports.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("host", sa.String(255), primary_key=True),
)

flavors = table(
    "flavors",
    sa.Column("id", Id, primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, default=""),
    sa.Column("description", sa.String(1024), nullable=True),
    sa.Column("service_type", sa.String(36), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False, default=True),
    json("service_profiles"),
)

service_profiles = table(
    "service_profiles",
    sa.Column("id", Id, primary_key=True),
    sa.Column("description", sa.String(1024), nullable=True),
    sa.Column("driver", sa.String(1024), nullable=False, default=""),
    sa.Column("metainfo", sa.String(4096), nullable=False, default=""),
    sa.Column("enabled", sa.Boolean, nullable=False, default=True),
)

flavor_service_profiles = table(
    "flavor_service_profiles",
    sa.Column("flavor_id", Id, sa.ForeignKey("flavors.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("service_profile_id", Id, sa.ForeignKey("service_profiles.id"), primary_key=True, index=True),
)

# What a project got when it asked for a network without saying which: made once, found again.
auto_allocated_topologies = table(
    "auto_allocated_topologies",
    sa.Column("project_id", Project, primary_key=True),
    sa.Column("network_id", Id, sa.ForeignKey("networks.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("router_id", Id, nullable=True),
)
