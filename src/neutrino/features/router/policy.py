"""Policy rules of routers, floating IPs, and of the agents that serve routers; Neutron's deprecated ones."""

from neutrino.server.policy.deprecated import tag_rules
from neutrino.server.policy.rules import (
    ADMIN,
    ADMIN_OR_MANAGER,
    ADMIN_OR_MEMBER,
    ADMIN_OR_READER,
    MANAGER,
    PARENT_MEMBER,
    PARENT_READER,
    crud,
    setting,
    tags,
)

# The rules of actions may name attributes in the body, as those of a create or update do.
_GATEWAY_ACTIONS = {
    **{f"{verb}_external_gateways": ADMIN_OR_MEMBER for verb in ("add", "update", "remove")},
    **{f"{verb}_external_gateways:external_gateways": ADMIN_OR_MEMBER for verb in ("add", "update", "remove")},
    **{f"{verb}_external_gateways:external_gateways:network_id": ADMIN_OR_MEMBER for verb in ("add", "update")},
    **{
        f"{verb}_external_gateways:external_gateways:{name}": ADMIN
        for verb in ("add", "update")
        for name in ("enable_snat", "external_fixed_ips")
    },
}
ROUTER = {
    **crud("router", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    **tags("router", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    **setting("router", {"distributed": ADMIN, "ha": ADMIN}, ("create", "get", "update")),
    **setting(
        "router",
        {
            "external_gateway_info": ADMIN_OR_MEMBER,
            "external_gateway_info:network_id": ADMIN_OR_MEMBER,
            "external_gateway_info:enable_snat": ADMIN,
            "external_gateway_info:external_fixed_ips": ADMIN,
            "enable_default_route_bfd": ADMIN,
            "enable_default_route_ecmp": ADMIN,
        },
    ),
    **_GATEWAY_ACTIONS,
    **dict.fromkeys(("add_router_interface", "remove_router_interface"), ADMIN_OR_MEMBER),
    **dict.fromkeys(("add_extraroutes", "remove_extraroutes"), ADMIN_OR_MEMBER),
    **crud("router_conntrack_helper", PARENT_MEMBER, PARENT_READER),
    **crud("ndp_proxy", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    "get_router_placement": ADMIN_OR_READER,
    **setting("router_placement", dict.fromkeys(("ha", "distributed", "hosts", "instances"), ADMIN), ("get",)),
    "get_auto_allocated_topology": ADMIN_OR_READER,
    "delete_auto_allocated_topology": ADMIN_OR_MEMBER,
}

FLOATINGIP = {
    **crud("floatingip", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    **tags("floatingip", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    "create_floatingip:floating_ip_address": ADMIN_OR_MANAGER,
    **setting("floatingip", {"router_id": ADMIN_OR_MEMBER}),
    "get_floatingip_pool": ADMIN_OR_READER,
    **crud("floatingip_port_forwarding", PARENT_MEMBER, PARENT_READER),
}

AGENTS = {
    **dict.fromkeys(("create_l3-router", "get_l3-routers", "update_l3-router", "delete_l3-router"), ADMIN),
    "get_l3-agents": ADMIN,
}

DEFAULTS = ROUTER | FLOATINGIP | AGENTS

DEPRECATED = {
    "rule:admin_or_owner": """
        get_router update_router delete_router add_router_interface remove_router_interface add_extraroutes
        remove_extraroutes create_router:external_gateway_info create_router:external_gateway_info:network_id
        update_router:external_gateway_info update_router:external_gateway_info:network_id
        get_auto_allocated_topology delete_auto_allocated_topology get_floatingip update_floatingip delete_floatingip
        get_ndp_proxy update_ndp_proxy delete_ndp_proxy
    """,
    "rule:regular_user": "create_router create_floatingip get_floatingip_pool create_ndp_proxy",
    "rule:admin_or_ext_parent_owner": """
        create_floatingip_port_forwarding get_floatingip_port_forwarding update_floatingip_port_forwarding
        delete_floatingip_port_forwarding create_router_conntrack_helper get_router_conntrack_helper
        update_router_conntrack_helper delete_router_conntrack_helper
    """,
    MANAGER: "create_router:tags update_router:tags delete_router:tags",
}
EARLIER_NAMES = tag_rules("router", "routers") | tag_rules("floatingip", "floatingips")
