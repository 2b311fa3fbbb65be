"""Neutron's deprecated default rules: applied beside the current ones with `[oslo_policy] enforce_new_defaults = false`.

They know no roles but `admin`: every user of a project reads and writes its objects. Left out are rules that allow
administrators only, to whom everything is allowed then.
"""

from collections.abc import Mapping
from typing import Final

_OWNER = "rule:admin_or_owner"
_ADVSVC = "rule:context_is_advsvc"
_NETWORK_OWNER = "rule:admin_or_network_owner"

_RULES = {
    _OWNER: """
        update_network delete_network update_network:port_security_enabled update_subnetpool delete_subnetpool
        add_prefixes remove_prefixes onboard_network_subnets update_address_scope delete_address_scope
        create_security_group update_security_group delete_security_group
        create_security_group_rule delete_security_group_rule get_rbac_policy update_rbac_policy delete_rbac_policy
    """,
    "rule:regular_user": """
        create_network create_network:port_security_enabled create_port create_port:device_id update_port:device_id
        create_port:binding:vnic_type create_subnetpool create_address_scope get_security_group
        get_default_security_group_rule create_rbac_policy
    """,
    _NETWORK_OWNER: """
        create_subnet update_subnet delete_subnet create_port:allowed_address_pairs
        create_port:allowed_address_pairs:mac_address create_port:allowed_address_pairs:ip_address
        update_port:allowed_address_pairs update_port:allowed_address_pairs:mac_address
        update_port:allowed_address_pairs:ip_address
    """,
    f"{_ADVSVC} or {_NETWORK_OWNER}": """
        create_port:mac_address create_port:fixed_ips:ip_address create_port:port_security_enabled
        update_port:fixed_ips update_port:fixed_ips:ip_address update_port:port_security_enabled
    """,
    f"{_ADVSVC} or {_NETWORK_OWNER} or rule:shared": """
        create_port:fixed_ips create_port:fixed_ips:subnet_id update_port:fixed_ips:subnet_id
    """,
    f"not rule:network_device or {_ADVSVC} or {_NETWORK_OWNER}": "create_port:device_owner update_port:device_owner",
    f"{_ADVSVC} or rule:admin_owner_or_network_owner": "get_port delete_port",
    f"{_OWNER} or {_ADVSVC}": "update_port update_port:binding:vnic_type",
    f"rule:admin_only or {_ADVSVC}": "update_port:mac_address",
    f"{_OWNER} or rule:shared or rule:external or {_ADVSVC}": "get_network",
    f"rule:shared or rule:external_network or {_OWNER}": "get_subnet",
    "rule:admin_owner_or_sg_owner": "get_security_group_rule",
    f"{_OWNER} or rule:shared_subnetpools": "get_subnetpool",
    f"{_OWNER} or rule:shared_address_scopes": "get_address_scope",
}


def by_rule(checks: Mapping[str, str]) -> dict[str, str]:
    """The check of each rule, from texts that list the rules of each check."""
    return {name: check for check, names in checks.items() for name in names.split()}


CHECKS: Final = by_rule(_RULES)


def tag_rules(name: str, collection: str) -> dict[str, str]:
    """Neutron's earlier names of the rules of an object's tags."""
    verbs = ("create", "get", "update", "delete")
    return {f"{verb}_{name}:tags": f"{verb}_{collection}_tags" for verb in verbs}


_TAGGED = ("network", "port", "security_group", "subnet", "subnetpool")
NAMES: Final = {rule: earlier for name in _TAGGED for rule, earlier in tag_rules(name, f"{name}s").items()}
