"""Routers, floating IPs and what belongs to them."""

import sqlalchemy as sa

from neutrino.server.db.columns import (
    History,
    count_through,
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

# Every change of a router's connections updates its row on a condition on its revision: of two that conflict, one wins.
routers = object_table(
    "routers",
    flags("admin_state_up", "enable_snat", default=True),
    text(16, "status", default="ACTIVE"),
    flags("distributed", "ha", default=False),
    flags("enable_ndp_proxy", default=False, server_default=sa.false()),
    flags("enable_default_route_ecmp", default=False),
    flags("enable_default_route_bfd", default=False),
    optional_ids("gw_port_id"),
    # The ports of further gateways, in order; `gw_port_id` is the first one.
    json("extra_gw_port_ids"),
    optional_ids("gw_network_id", index=True),
    reference("gw_qos_policy_id", "qos_policies", nullable=True),
    reference("flavor_id", "flavors", nullable=True),
    optional_ids("service_type_id"),
    # The VRRP id of an HA router, unique on its HA network, which `ha_router_networks` references.
    optional_ids("ha_network_id"),
    integers("ha_vr_id", nullable=True),
    json("availability_zone_hints", "routes", "conntrack_helpers"),
    sa.UniqueConstraint("ha_network_id", "ha_vr_id"),
    history=History("router", feed=True),
    quota="router",
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

# The HA network of each HA router: while it has a row, the network cannot be deleted.
ha_router_networks = table("ha_router_networks", owner("router_id", "routers"), reference("network_id", "networks"))

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
    history=History("floatingip"),
    quota="floatingip",
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
    history=History("port_forwarding"),
    quota="port_forwarding",
)
count_through(port_forwardings, port_forwardings.c.floatingip_id, floatingips)

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

# The hosts that reported a distributed router's port as wired; such a port has no binding to one host.
distributed_port_hosts = table("distributed_port_hosts", owner("port_id", "ports"), text(255, "host", primary_key=True))

# Auto-allocated topology: the default network and router of a project, created on first use.
auto_allocated_topologies = table(
    "auto_allocated_topologies",
    text(255, "project_id", primary_key=True),
    reference("network_id", "networks", cascade=True),
    optional_ids("router_id"),
)
