"""Who may do what by default: OpenStack's rule names and meanings, so that an operator's policy.yaml still serves.

Three things decide: the caller's roles (admin, manager, member, reader; service for other OpenStack services), whether
the object or its network is the caller's project's, and whether the object is shared. `policy.yaml` overrides any rule.
"""

from __future__ import annotations

ADMIN = "rule:admin_only"
SERVICE = "rule:service_api"
MEMBER = "role:member and project_id:%(project_id)s"
READER = "role:reader and project_id:%(project_id)s"
NETWORK_MEMBER = "role:member and rule:network_owner"
NETWORK_READER = "role:reader and rule:network_owner"
GROUP_MEMBER = "role:member and rule:sg_owner"
GROUP_READER = "role:reader and rule:sg_owner"


def any_of(*checks: str) -> str:
    return " or ".join(f"({check})" for check in checks)


ADMIN_OR_MEMBER = any_of(ADMIN, MEMBER)
ADMIN_OR_READER = any_of(ADMIN, READER)
ADMIN_OR_SERVICE = any_of(ADMIN, SERVICE)
PORT_OWNER = any_of(ADMIN, SERVICE, NETWORK_MEMBER)
PORT_OWNER_OR_SHARED = any_of(ADMIN, SERVICE, NETWORK_MEMBER, "rule:shared")
SUBNET_OWNER = any_of(ADMIN, MEMBER, NETWORK_MEMBER)

BASE = {
    "context_is_admin": "role:admin",
    "service_api": "role:service",
    "owner": "project_id:%(project_id)s",
    "admin_or_owner": "rule:context_is_admin or rule:owner",
    "context_is_advsvc": "role:advsvc",
    "network_owner": "project_id:%(network:project_id)s",
    "admin_or_network_owner": "rule:context_is_admin or rule:network_owner",
    "admin_owner_or_network_owner": "rule:owner or rule:admin_or_network_owner",
    "sg_owner": "project_id:%(security_group:project_id)s",
    "ext_parent_owner": "project_id:%(ext_parent:project_id)s",
    "admin_only": "rule:context_is_admin",
    "regular_user": "",
    "shared": "field:networks:shared=True",
    "external": "field:networks:router:external=True",
    "external_network": "field:subnets:router:external=True",
    "network_device": "field:port:device_owner=~^network:",
    "compute_device": "field:port:device_owner=~^compute:",
    "baremetal_device": "field:port:device_owner=~^baremetal:",
    "manila_device": "field:port:device_owner=~^manila:",
    "shared_subnetpools": "field:subnetpools:shared=True",
    "shared_address_scopes": "field:address_scopes:shared=True",
    "shared_address_groups": "field:address_groups:shared=True",
    "shared_security_group": "field:security_groups:shared=True",
    "restrict_wildcard": "rule:admin_only or not field:rbac_policy:target_tenant=*",
    "default": "rule:admin_or_owner",
}

NETWORK = {
    "create_network": ADMIN_OR_MEMBER,
    "create_network:shared": ADMIN,
    "create_network:router:external": ADMIN,
    "create_network:is_default": ADMIN,
    "create_network:ha": ADMIN,
    "create_network:port_security_enabled": ADMIN_OR_MEMBER,
    "create_network:segments": ADMIN,
    "create_network:provider:network_type": ADMIN,
    "create_network:provider:physical_network": ADMIN,
    "create_network:provider:segmentation_id": ADMIN,
    "create_network:tags": ADMIN_OR_MEMBER,
    "get_network": any_of(ADMIN, READER, SERVICE, "rule:shared", "rule:external", "rule:context_is_advsvc"),
    "get_network:segments": ADMIN,
    "get_network:provider:network_type": ADMIN,
    "get_network:provider:physical_network": ADMIN,
    "get_network:provider:segmentation_id": ADMIN,
    "get_network:tags": any_of(ADMIN, READER, "rule:shared", "rule:external", "rule:context_is_advsvc"),
    "update_network": ADMIN_OR_MEMBER,
    "update_network:segments": ADMIN,
    "update_network:shared": ADMIN,
    "update_network:provider:network_type": ADMIN,
    "update_network:provider:physical_network": ADMIN,
    "update_network:provider:segmentation_id": ADMIN,
    "update_network:router:external": ADMIN,
    "update_network:is_default": ADMIN,
    "update_network:port_security_enabled": ADMIN_OR_MEMBER,
    "update_network:tags": ADMIN_OR_MEMBER,
    "delete_network": ADMIN_OR_MEMBER,
    "delete_network:tags": ADMIN_OR_MEMBER,
}

SUBNET_SEEN = (READER, "rule:shared", "rule:external_network", ADMIN, NETWORK_READER)
SUBNET = {
    "create_subnet": any_of(ADMIN, NETWORK_MEMBER),
    "create_subnet:segment_id": ADMIN,
    "create_subnet:service_types": ADMIN,
    "create_subnet:tags": SUBNET_OWNER,
    "get_subnet": any_of(*SUBNET_SEEN, SERVICE),
    "get_subnet:segment_id": ADMIN,
    "get_subnet:tags": any_of(*SUBNET_SEEN),
    "update_subnet": SUBNET_OWNER,
    "update_subnet:segment_id": ADMIN,
    "update_subnet:service_types": ADMIN,
    "update_subnet:tags": SUBNET_OWNER,
    "delete_subnet": SUBNET_OWNER,
    "delete_subnet:tags": SUBNET_OWNER,
}

# A port that a machine still uses is its service's to delete, not its owner's.
_NOT_IN_A_MACHINE = "not rule:compute_device and not rule:baremetal_device and not rule:manila_device"
_PORT_OR_NETWORK_MEMBER = f"({NETWORK_MEMBER}) or ({MEMBER})"
PORT = {
    "create_port": PORT_OWNER_OR_SHARED,
    "create_port:device_id": any_of(ADMIN, MEMBER, SERVICE),
    "create_port:device_owner": any_of("not rule:network_device", ADMIN, SERVICE, NETWORK_MEMBER),
    "create_port:mac_address": PORT_OWNER,
    "create_port:fixed_ips": PORT_OWNER_OR_SHARED,
    "create_port:fixed_ips:ip_address": PORT_OWNER,
    "create_port:fixed_ips:subnet_id": PORT_OWNER_OR_SHARED,
    "create_port:port_security_enabled": PORT_OWNER,
    "create_port:binding:host_id": ADMIN_OR_SERVICE,
    "create_port:binding:profile": SERVICE,
    "create_port:binding:vnic_type": any_of(ADMIN, MEMBER, SERVICE),
    "create_port:allowed_address_pairs": PORT_OWNER,
    "create_port:allowed_address_pairs:mac_address": PORT_OWNER,
    "create_port:allowed_address_pairs:ip_address": PORT_OWNER,
    "create_port:tags": any_of(ADMIN, MEMBER, "rule:context_is_advsvc"),
    "get_port": any_of(ADMIN, SERVICE, NETWORK_READER, READER),
    "get_port:binding:vif_type": ADMIN_OR_SERVICE,
    "get_port:binding:vif_details": ADMIN_OR_SERVICE,
    "get_port:binding:host_id": ADMIN_OR_SERVICE,
    "get_port:binding:profile": ADMIN_OR_SERVICE,
    "get_port:resource_request": ADMIN,
    "get_port:hints": ADMIN,
    "get_port:trusted": ADMIN,
    "get_port:tags": any_of("rule:context_is_advsvc", ADMIN, NETWORK_READER, READER),
    "update_port": any_of(ADMIN, SERVICE, MEMBER),
    "update_port:device_id": any_of(ADMIN, MEMBER, SERVICE),
    "update_port:device_owner": any_of("not rule:network_device", ADMIN, SERVICE, NETWORK_MEMBER),
    "update_port:mac_address": any_of(ADMIN, SERVICE, "role:manager and rule:network_owner"),
    "update_port:fixed_ips": PORT_OWNER,
    "update_port:fixed_ips:ip_address": PORT_OWNER,
    "update_port:fixed_ips:subnet_id": PORT_OWNER_OR_SHARED,
    "update_port:port_security_enabled": PORT_OWNER,
    "update_port:binding:host_id": ADMIN_OR_SERVICE,
    "update_port:binding:profile": SERVICE,
    "update_port:binding:vnic_type": any_of(ADMIN, SERVICE, MEMBER),
    "update_port:allowed_address_pairs": PORT_OWNER,
    "update_port:allowed_address_pairs:mac_address": PORT_OWNER,
    "update_port:allowed_address_pairs:ip_address": PORT_OWNER,
    "update_port:data_plane_status": any_of(ADMIN, "role:data_plane_integrator"),
    "update_port:tags": any_of(ADMIN, MEMBER, "rule:context_is_advsvc"),
    "delete_port": any_of(
        ADMIN,
        SERVICE,
        f"service_roles:service and ({_PORT_OR_NETWORK_MEMBER})",
        f"{_NOT_IN_A_MACHINE} and ({_PORT_OR_NETWORK_MEMBER})",
    ),
    "delete_port:tags": any_of("rule:context_is_advsvc", ADMIN, NETWORK_MEMBER, MEMBER),
}

BINDING = {
    "get_port_binding": ADMIN_OR_SERVICE,
    "create_port_binding": SERVICE,
    "update_port_binding": SERVICE,
    "delete_port_binding": SERVICE,
    "activate": SERVICE,
}

SUBNETPOOL = {
    "create_subnetpool": ADMIN_OR_MEMBER,
    "create_subnetpool:shared": ADMIN,
    "create_subnetpool:is_default": ADMIN,
    "create_subnetpool:tags": ADMIN_OR_MEMBER,
    "get_subnetpool": any_of(ADMIN, READER, "rule:shared_subnetpools"),
    "get_subnetpool:tags": any_of(ADMIN, READER, "rule:shared_subnetpools"),
    "update_subnetpool": ADMIN_OR_MEMBER,
    "update_subnetpool:is_default": ADMIN,
    "update_subnetpool:tags": ADMIN_OR_MEMBER,
    "delete_subnetpool": ADMIN_OR_MEMBER,
    "delete_subnetpool:tags": ADMIN_OR_MEMBER,
    "add_prefixes": ADMIN_OR_MEMBER,
    "remove_prefixes": ADMIN_OR_MEMBER,
}

ADDRESS = {
    "create_address_scope": ADMIN_OR_MEMBER,
    "create_address_scope:shared": ADMIN,
    "get_address_scope": any_of(ADMIN, READER, "rule:shared_address_scopes"),
    "update_address_scope": ADMIN_OR_MEMBER,
    "update_address_scope:shared": ADMIN,
    "delete_address_scope": ADMIN_OR_MEMBER,
    "create_address_group": ADMIN_OR_MEMBER,
    "get_address_group": any_of(ADMIN, READER, "rule:shared_address_groups"),
    "update_address_group": ADMIN_OR_MEMBER,
    "delete_address_group": ADMIN_OR_MEMBER,
    "add_addresses": ADMIN_OR_MEMBER,
    "remove_addresses": ADMIN_OR_MEMBER,
}

SECURITY_GROUP = {
    "create_default_security_group": any_of(ADMIN, SERVICE, READER),
    "create_security_group": ADMIN_OR_MEMBER,
    "create_security_group:tags": ADMIN_OR_MEMBER,
    "get_security_group": any_of(ADMIN, READER, "rule:shared_security_group"),
    "get_security_group:tags": any_of(ADMIN, READER, "rule:shared_security_group"),
    "update_security_group": ADMIN_OR_MEMBER,
    "update_security_group:tags": ADMIN_OR_MEMBER,
    "delete_security_group": ADMIN_OR_MEMBER,
    "delete_security_group:tags": ADMIN_OR_MEMBER,
    "create_security_group_rule": any_of(ADMIN, GROUP_MEMBER),
    "get_security_group_rule": any_of(ADMIN, GROUP_READER),
    "update_security_group_rule": any_of(ADMIN, GROUP_MEMBER),
    "delete_security_group_rule": any_of(ADMIN, GROUP_MEMBER),
}

ACCESS = {
    "create_rbac_policy": ADMIN_OR_MEMBER,
    "create_rbac_policy:target_tenant": "rule:restrict_wildcard",
    "update_rbac_policy": ADMIN_OR_MEMBER,
    "update_rbac_policy:target_tenant": "rule:restrict_wildcard",
    "get_rbac_policy": ADMIN_OR_READER,
    "delete_rbac_policy": ADMIN_OR_MEMBER,
    "get_quota": any_of(ADMIN, READER),
    "update_quota": ADMIN,
    "delete_quota": ADMIN,
}

HOSTS = {
    "create_agent": ADMIN,
    "get_agent": ADMIN,
    "update_agent": ADMIN,
    "delete_agent": ADMIN,
    "create_dhcp-network": ADMIN,
    "get_dhcp-networks": ADMIN,
    "delete_dhcp-network": ADMIN,
    "get_dhcp-agents": ADMIN,
    "get_availability_zone": "role:reader",
    "get_network_ip_availability": ADMIN_OR_SERVICE,
}

PARENT_MEMBER = any_of(ADMIN, "role:member and rule:ext_parent_owner")
PARENT_READER = any_of(ADMIN, "role:reader and rule:ext_parent_owner")
GATEWAY_PARTS = {"network_id": ADMIN_OR_MEMBER, "enable_snat": ADMIN, "external_fixed_ips": ADMIN}
ROUTER = {
    "create_router": ADMIN_OR_MEMBER,
    "get_router": ADMIN_OR_READER,
    "get_router:distributed": ADMIN,
    "get_router:ha": ADMIN,
    "get_router:tags": ADMIN_OR_READER,
    "update_router": ADMIN_OR_MEMBER,
    "delete_router": ADMIN_OR_MEMBER,
    "delete_router:tags": ADMIN_OR_MEMBER,
    **{
        f"{verb}_router:{name}": rule
        for verb in ("create", "update")
        for name, rule in (
            ("distributed", ADMIN),
            ("ha", ADMIN),
            ("external_gateway_info", ADMIN_OR_MEMBER),
            *((f"external_gateway_info:{part}", rule) for part, rule in GATEWAY_PARTS.items()),
            ("tags", ADMIN_OR_MEMBER),
        )
    },
    "add_router_interface": ADMIN_OR_MEMBER,
    "remove_router_interface": ADMIN_OR_MEMBER,
    "add_extraroutes": ADMIN_OR_MEMBER,
    "remove_extraroutes": ADMIN_OR_MEMBER,
    "create_router_conntrack_helper": PARENT_MEMBER,
    "get_router_conntrack_helper": PARENT_READER,
    "update_router_conntrack_helper": PARENT_MEMBER,
    "delete_router_conntrack_helper": PARENT_MEMBER,
    "create_l3-router": ADMIN,
    "get_l3-routers": ADMIN,
    "update_l3-router": ADMIN,
    "delete_l3-router": ADMIN,
    "get_l3-agents": ADMIN,
    "create_flavor": ADMIN,
    "get_flavor": "role:reader",
    "update_flavor": ADMIN,
    "delete_flavor": ADMIN,
    "create_service_profile": ADMIN,
    "get_service_profile": ADMIN,
    "update_service_profile": ADMIN,
    "delete_service_profile": ADMIN,
    "create_flavor_service_profile": ADMIN,
    "delete_flavor_service_profile": ADMIN,
    "get_service_provider": "role:reader",
    "get_auto_allocated_topology": ADMIN_OR_READER,
    "delete_auto_allocated_topology": ADMIN_OR_MEMBER,
}

FLOATINGIP = {
    "create_floatingip": ADMIN_OR_MEMBER,
    "create_floatingip:floating_ip_address": any_of(ADMIN, "role:manager and project_id:%(project_id)s"),
    "create_floatingip:tags": ADMIN_OR_MEMBER,
    "get_floatingip": ADMIN_OR_READER,
    "get_floatingip:tags": ADMIN_OR_READER,
    "update_floatingip": ADMIN_OR_MEMBER,
    "update_floatingip:tags": ADMIN_OR_MEMBER,
    "delete_floatingip": ADMIN_OR_MEMBER,
    "delete_floatingip:tags": ADMIN_OR_MEMBER,
    "get_floatingip_pool": "role:reader",
    "create_floatingip_port_forwarding": PARENT_MEMBER,
    "get_floatingip_port_forwarding": PARENT_READER,
    "update_floatingip_port_forwarding": PARENT_MEMBER,
    "delete_floatingip_port_forwarding": PARENT_MEMBER,
}

DEFAULTS: dict[str, str] = (
    BASE
    | NETWORK
    | SUBNET
    | PORT
    | BINDING
    | SUBNETPOOL
    | ADDRESS
    | SECURITY_GROUP
    | ACCESS
    | HOSTS
    | ROUTER
    | FLOATINGIP
)
