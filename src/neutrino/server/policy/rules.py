"""Default policy rules, with the names and meanings of Neutron's, so that an operator's policy.yaml keeps working.

A rule looks at the caller's roles (admin, manager, member, reader; service for other OpenStack services), at whether the
object or its network belongs to the caller's project, and at whether it is shared. `policy.yaml` overrides any rule.
"""

ADMIN = "rule:admin_only"
SERVICE = "rule:service_api"
MEMBER = "role:member and project_id:%(project_id)s"
MANAGER = "role:manager and project_id:%(project_id)s"
READER = "role:reader and project_id:%(project_id)s"
NETWORK_MEMBER = "role:member and rule:network_owner"
NETWORK_READER = "role:reader and rule:network_owner"
GROUP_MEMBER = "role:member and rule:sg_owner"
GROUP_READER = "role:reader and rule:sg_owner"


def any_of(*checks: str) -> str:
    return " or ".join(f"({check})" for check in checks)


def crud(name: str, write: str, read: str) -> dict[str, str]:
    """The four rules of a resource."""
    return {f"create_{name}": write, f"get_{name}": read, f"update_{name}": write, f"delete_{name}": write}


def tags(name: str, write: str, read: str) -> dict[str, str]:
    return {f"{rule}:tags": check for rule, check in crud(name, write, read).items()}


def setting(name: str, attributes: dict[str, str], verbs: tuple[str, ...] = ("create", "update")) -> dict[str, str]:
    """The rules of attributes: who may set them or, with the verb `get`, see them."""
    return {f"{verb}_{name}:{attribute}": check for verb in verbs for attribute, check in attributes.items()}


ADMIN_OR_MEMBER = any_of(ADMIN, MEMBER)
ADMIN_OR_READER = any_of(ADMIN, READER)
ADMIN_OR_MANAGER = any_of(ADMIN, MANAGER)
ADMIN_OR_SERVICE = any_of(ADMIN, SERVICE)
PORT_OWNER = any_of(ADMIN, SERVICE, NETWORK_MEMBER)
PORT_OWNER_OR_SHARED = any_of(ADMIN, SERVICE, NETWORK_MEMBER, "rule:shared")
SUBNET_OWNER = any_of(ADMIN, MEMBER, NETWORK_MEMBER)

# An RBAC policy has one of the two attributes.
_NOT_FOR_ALL_PROJECTS = "not field:rbac_policy:target_tenant=* and not field:rbac_policy:target_project=*"

BASE = {
    "context_is_admin": "role:admin",
    # For roles that list the objects of all projects, of which the rules of reading then decide.
    "context_with_global_access": "!",
    # For roles other than administrators that create objects for other projects.
    "context_can_set_project_id": "!",
    "service_api": "role:service",
    "owner": "project_id:%(project_id)s",
    "admin_or_owner": "rule:context_is_admin or rule:owner",
    "context_is_advsvc": "role:advsvc",
    "network_owner": "project_id:%(network:project_id)s",
    "admin_or_network_owner": "rule:context_is_admin or project_id:%(network:project_id)s",
    "admin_owner_or_network_owner": "rule:owner or rule:admin_or_network_owner",
    "sg_owner": "project_id:%(security_group:project_id)s",
    "admin_or_sg_owner": "rule:context_is_admin or project_id:%(security_group:project_id)s",
    "admin_owner_or_sg_owner": "rule:owner or rule:admin_or_sg_owner",
    "ext_parent_owner": "project_id:%(ext_parent:project_id)s",
    "admin_or_ext_parent_owner": "rule:context_is_admin or project_id:%(ext_parent:project_id)s",
    "admin_or_data_plane_int": "rule:context_is_admin or role:data_plane_integrator",
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
    "shared_security_group": "field:security_groups:shared=True",
    "rule_default_sg": "field:security_group_rules:belongs_to_default_sg=True",
    "restrict_wildcard": any_of(ADMIN, _NOT_FOR_ALL_PROJECTS),
    "default": "rule:admin_or_owner",
}

_PROVIDER = dict.fromkeys(
    ("segments", "provider:network_type", "provider:physical_network", "provider:segmentation_id"), ADMIN
)
_NETWORK_READER = (ADMIN, READER, "rule:shared", "rule:external", "rule:context_is_advsvc")
NETWORK = {
    **crud("network", ADMIN_OR_MEMBER, any_of(ADMIN, READER, SERVICE, *_NETWORK_READER[2:])),
    **tags("network", ADMIN_OR_MEMBER, any_of(*_NETWORK_READER)),
    **setting("network", {**dict.fromkeys(("shared", "router:external", "is_default"), ADMIN), **_PROVIDER}),
    **setting("network", {"port_security_enabled": ADMIN_OR_MEMBER}),
    **setting("network", _PROVIDER, ("get",)),
    "create_network:ha": ADMIN,
}

_SUBNET_READER = (READER, "rule:shared", "rule:external_network", ADMIN, NETWORK_READER)
SUBNET = {
    **crud("subnet", SUBNET_OWNER, any_of(*_SUBNET_READER, SERVICE)),
    "create_subnet": any_of(ADMIN, NETWORK_MEMBER),
    **tags("subnet", SUBNET_OWNER, any_of(*_SUBNET_READER)),
    **setting("subnet", {"segment_id": ADMIN}, ("create", "get", "update")),
    # Neutron has rules for administrators here and does not enforce them: members set service types, in its tests too.
    "create_subnet:service_types": any_of(ADMIN, NETWORK_MEMBER),
    "update_subnet:service_types": SUBNET_OWNER,
}

# A port that a machine uses is deleted by the service of the machine, not by the port's owner.
_NOT_IN_A_MACHINE = "not rule:compute_device and not rule:baremetal_device and not rule:manila_device"
_PORT_OR_NETWORK_MEMBER = f"({NETWORK_MEMBER}) or ({MEMBER})"
_BINDING = dict.fromkeys(
    ("binding:vif_type", "binding:vif_details", "binding:host_id", "binding:profile"), ADMIN_OR_SERVICE
)
PORT = {
    "create_port": PORT_OWNER_OR_SHARED,
    "get_port": any_of(ADMIN, SERVICE, NETWORK_READER, READER),
    "update_port": any_of(ADMIN, SERVICE, MEMBER),
    "delete_port": any_of(
        ADMIN,
        SERVICE,
        f"service_roles:service and ({_PORT_OR_NETWORK_MEMBER})",
        f"{_NOT_IN_A_MACHINE} and ({_PORT_OR_NETWORK_MEMBER})",
    ),
    **setting(
        "port",
        {
            "device_id": any_of(ADMIN, MEMBER, SERVICE),
            # Ports with an owner of network:… have no port security: only the network's owner may have it off.
            "device_owner": any_of("not rule:network_device", ADMIN, SERVICE, NETWORK_MEMBER),
            **dict.fromkeys(("mac_address", "fixed_ips", "fixed_ips:ip_address", "port_security_enabled"), PORT_OWNER),
            "fixed_ips:subnet_id": PORT_OWNER_OR_SHARED,
            "binding:host_id": ADMIN_OR_SERVICE,
            "binding:profile": SERVICE,
            "binding:vnic_type": any_of(ADMIN, MEMBER, SERVICE),
            **{f"allowed_address_pairs{key}": PORT_OWNER for key in ("", ":mac_address", ":ip_address")},
            "tags": any_of(ADMIN, MEMBER, "rule:context_is_advsvc"),
            **dict.fromkeys(("hints", "trusted"), ADMIN),
        },
    ),
    "create_port:hardware_offload_type": ADMIN,
    "create_port:fixed_ips": PORT_OWNER_OR_SHARED,
    "update_port:mac_address": any_of(ADMIN, SERVICE, "role:manager and rule:network_owner"),
    "update_port:binding:vnic_type": any_of(ADMIN, SERVICE, MEMBER),
    "update_port:data_plane_status": any_of(ADMIN, "role:data_plane_integrator"),
    **setting("port", _BINDING, ("get",)),
    **setting("port", dict.fromkeys(("hints", "trusted"), ADMIN), ("get",)),
    "get_port:tags": any_of("rule:context_is_advsvc", ADMIN, NETWORK_READER, READER),
    "delete_port:tags": any_of("rule:context_is_advsvc", ADMIN, NETWORK_MEMBER, MEMBER),
    **crud("port_binding", SERVICE, ADMIN_OR_SERVICE),
    "activate": SERVICE,
}

_POOL_READER = any_of(ADMIN, READER, "rule:shared_subnetpools")
ADDRESSES = {
    **crud("subnetpool", ADMIN_OR_MEMBER, _POOL_READER),
    **tags("subnetpool", ADMIN_OR_MEMBER, _POOL_READER),
    **setting("subnetpool", {"is_default": ADMIN}),
    "create_subnetpool:shared": ADMIN,
    **dict.fromkeys(("add_prefixes", "remove_prefixes", "onboard_network_subnets"), ADMIN_OR_MEMBER),
    **crud("address_scope", ADMIN_OR_MEMBER, any_of(ADMIN, READER, "rule:shared_address_scopes")),
    **setting("address_scope", {"shared": ADMIN}),
}

_GROUP_READER = any_of(ADMIN, READER, "rule:shared_security_group")
SECURITY_GROUP = {
    "create_default_security_group": any_of(ADMIN, SERVICE, READER),
    **crud("security_group", ADMIN_OR_MEMBER, _GROUP_READER),
    **tags("security_group", ADMIN_OR_MEMBER, _GROUP_READER),
    **crud("security_group_rule", any_of(ADMIN, GROUP_MEMBER), any_of(ADMIN, GROUP_READER)),
    "create_default_security_group_rule": ADMIN,
    "get_default_security_group_rule": "role:reader",
    "delete_default_security_group_rule": ADMIN,
    **crud("security_groups_default_statefulness", ADMIN_OR_MANAGER, ADMIN_OR_READER),
}

ACCESS = {
    **crud("rbac_policy", ADMIN_OR_MEMBER, ADMIN_OR_READER),
    **setting("rbac_policy", {"target_tenant": any_of(ADMIN, _NOT_FOR_ALL_PROJECTS)}),
    **setting("rbac_policy", {"target_project": any_of(ADMIN, "not field:rbac_policy:target_project=*")}),
    "get_quota": ADMIN_OR_MANAGER,  # of other projects: everyone reads the quota of the own one
    "update_quota": ADMIN,
    "delete_quota": ADMIN,
}

HOSTS = {
    **crud("agent", ADMIN, ADMIN),
    **dict.fromkeys(("create_dhcp-network", "get_dhcp-networks", "delete_dhcp-network", "get_dhcp-agents"), ADMIN),
    "get_network_ip_availability": ADMIN_OR_SERVICE,
    "get_status": ADMIN,
}

# The project of a trace is that of its sender or, from outside, of its receiver.
TRACE = {"create_trace": ADMIN_OR_MEMBER, "get_trace": "rule:regular_user"}

PARENT_MEMBER = any_of(ADMIN, "role:member and rule:ext_parent_owner")
PARENT_READER = any_of(ADMIN, "role:reader and rule:ext_parent_owner")

# Rules that other rules refer to. All others are for tokens of a project, as in Neutron: a user with the role `admin` on a
# domain is no administrator of the cloud.
OF_ANY_TOKEN = frozenset(BASE)
SHARED = "shared_"  # how the names of further such rules begin

HISTORY = {"get_change": ADMIN_OR_READER}

DEFAULTS = BASE | NETWORK | SUBNET | PORT | ADDRESSES | SECURITY_GROUP | ACCESS | HOSTS | TRACE | HISTORY
