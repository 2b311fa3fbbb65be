"""The aliases of the feature in GET /v2.0/extensions."""

from neutrino.server.api.definition import Extension

EXTENSIONS = (
    Extension("router", "Neutron L3 Router", "Routers between networks, and floating IPs."),
    Extension("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "Gateways with or without SNAT."),
    Extension("router-enable-snat", "Router SNAT flag", "Filter routers by whether they do SNAT."),
    Extension(
        "external-gateway-multihoming",
        "Neutron L3 External Gateway Multihoming",
        "Several external gateways of a router.",
    ),
    Extension(
        "enable-default-route-ecmp", "Enable Default Route ECMP", "Default routes over all gateways of a router."
    ),
    Extension("enable-default-route-bfd", "Enable Default Route BFD", "Next hops of default routes supervised by BFD."),
    Extension("extraroute", "Neutron Extra Route", "Routes beyond those of a router's own networks."),
    Extension("extraroute-atomic", "Atomically add/remove extra routes", "Single routes added and removed."),
    Extension("dvr", "Distributed Virtual Router", "Routers on every host that needs them."),
    Extension("l3-ha", "HA Router extension", "Routers on several hosts, one of them active."),
    Extension("network_ha", "Network HA creation flag", "The network for VRRP between the hosts of HA routers."),
    Extension(
        "router-admin-state-down-before-update",
        "Enforce Router's Admin State Down Before Update Extension",
        "A router's kind changes only while it is administratively down.",
    ),
    Extension(
        "l3-port-ip-change-not-allowed",
        "Prevent L3 router ports IP address change extension",
        "The addresses of a router's interfaces cannot be changed.",
    ),
    Extension("router_availability_zone", "Router Availability Zone", "Availability zones of a router's agents."),
    Extension("l3-flavors", "Router Flavor Extension", "Routers have a flavor."),
    Extension("router-service-type", "Router Service Type", "Routers have the id of a service type."),
    Extension("l3_agent_scheduler", "L3 Agent Scheduler", "Which L3 agents serve which routers."),
    Extension("l3-conntrack-helper", "L3 Conntrack helper", "Conntrack helpers of routers."),
    Extension("expose-l3-conntrack-helper", "Expose CT target rules for conntrack helper", "Shown in routers."),
    Extension("l3-ndp-proxy", "L3 NDP Proxy", "Addresses of instances that are reachable from outside."),
    Extension("l3-ext-ndp-proxy", "Router support to enable NDP proxy", "Routers answer for addresses behind them."),
    Extension("fip-port-details", "Floating IP Port Details Extension", "Floating IPs show details of their port."),
    Extension(
        "floating-ip-router-writable",
        "Floating IP Router (writable)",
        "The router of a floating IP can be chosen, also one that its port is reached from by way of other routers.",
    ),
    Extension("floatingip-pools", "Floating IP Pools Extension", "The subnets that floating IPs are allocated from."),
    Extension(
        "floatingip-autodelete-internal",
        "Autodelete floating IPs of internal networks",
        "Unused floating IPs are deleted when their network becomes internal.",
    ),
    Extension("floating-ip-port-forwarding", "Floating IP Port Forwarding", "Single ports of a floating IP."),
    Extension("expose-port-forwarding-in-fip", "Expose Floating IP port forwardings", "Shown in floating IPs."),
    Extension("floating-ip-port-forwarding-description", "Port forwarding description", "They have a description."),
    Extension("floating-ip-port-forwarding-detail", "Port forwarding detail", "They are shown with their ids."),
    Extension("floating-ip-port-forwarding-port-ranges", "Port forwarding port ranges", "Ranges of ports."),
    Extension(
        "auto-allocated-topology",
        "Auto Allocated Topology Services",
        "A network with a router for a project that has none.",
    ),
)
