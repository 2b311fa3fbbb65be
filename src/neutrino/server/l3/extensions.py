"""The aliases of what the router plugin can do."""

from __future__ import annotations

from neutrino.server.api.definition import Extension

EXTENSIONS = (
    Extension("router", "Neutron L3 Router", "Routers between networks, and floating IPs."),
    Extension("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "Gateways with or without SNAT."),
    Extension("router-enable-snat", "Router SNAT flag", "Routers are found by whether they do SNAT."),
    Extension("extraroute", "Neutron Extra Route", "Routes beyond those of a router's own networks."),
    Extension("extraroute-atomic", "Atomically add/remove extra routes", "Single routes added and removed."),
    Extension("dvr", "Distributed Virtual Router", "Routers on every host that needs them."),
    Extension("l3-ha", "HA Router extension", "Routers on several hosts, one of them active."),
    Extension("network_ha", "Network HA creation flag", "The network on which hosts of HA routers meet."),
    Extension(
        "router-admin-state-down-before-update",
        "Enforce Router's Admin State Down Before Update Extension",
        "A router's kind changes only while it is administratively down.",
    ),
    Extension("router_availability_zone", "Router Availability Zone", "Where a router's agents are."),
    Extension("l3_agent_scheduler", "L3 Agent Scheduler", "Which L3 agents serve which routers."),
    Extension("l3-conntrack-helper", "L3 Conntrack helper", "Protocols that a router's conntrack looks into."),
    Extension("expose-l3-conntrack-helper", "Expose CT target rules for conntrack helper", "and routers show them."),
    Extension("fip-port-details", "Floating IP Port Details Extension", "Floating IPs show the port behind them."),
    Extension("floatingip-pools", "Floating IP Pools Extension", "The subnets that floating IPs come from."),
    Extension(
        "floatingip-autodelete-internal",
        "Autodelete floating IPs of internal networks",
        "Floating IPs that nobody uses go when their network becomes internal.",
    ),
    Extension("floating-ip-port-forwarding", "Floating IP Port Forwarding", "Single ports of a floating IP."),
    Extension("expose-port-forwarding-in-fip", "Expose Floating IP port forwardings", "Floating IPs show them."),
    Extension("floating-ip-port-forwarding-description", "Port forwarding description", "They have a description."),
    Extension("floating-ip-port-forwarding-detail", "Port forwarding detail", "They are shown with their ids."),
    Extension("floating-ip-port-forwarding-port-ranges", "Port forwarding port ranges", "Ranges of ports."),
)
