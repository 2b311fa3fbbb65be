"""Validation of firewall rules, and the status of firewall groups. Pure."""

import ipaddress
from typing import Final

from neutrino.features.firewall import errors
from neutrino.model.objects import Values
from neutrino.server.api.resources.common import PROTOCOLS

ACTIVE: Final = "ACTIVE"
DOWN: Final = "DOWN"
ERROR: Final = "ERROR"
INACTIVE: Final = "INACTIVE"
PENDING_CREATE: Final = "PENDING_CREATE"
PENDING_UPDATE: Final = "PENDING_UPDATE"
# As in neutron-fwaas: rules of other protocols with ports (SCTP, DCCP) are refused.
WITH_PORTS: Final = frozenset({"tcp", "udp", str(PROTOCOLS["tcp"]), str(PROTOCOLS["udp"])})
# The attributes of a rule and of a group that hosts apply: a change of another one does not make a group PENDING.
RULE_MATCH: Final = (
    *("protocol", "ip_version", "source_ip_address", "destination_ip_address", "source_port", "destination_port"),
    *("action", "enabled"),
)
POLICIES: Final = ("ingress_firewall_policy_id", "egress_firewall_policy_id")


def check_rule(rule: Values) -> None:
    """Refuse a rule whose attributes, each valid by itself, contradict each other."""
    if rule["source_port"] is not None or rule["destination_port"] is not None:
        if rule["protocol"] is None:
            raise errors.FirewallRuleWithPortWithoutProtocolInvalid()
        if rule["protocol"] not in WITH_PORTS:
            raise errors.FirewallRuleInvalidICMPParameter(protocol=rule["protocol"])
    for name in ("source_ip_address", "destination_ip_address"):
        address = rule[name]
        if address is not None and ipaddress.ip_interface(address).version != rule["ip_version"]:
            raise errors.FirewallIpAddressConflict(address=address, ip_version=rule["ip_version"])


def is_enforced(group: Values) -> bool:
    """Whether hosts filter the group's ports. As in neutron-fwaas, a group without any policy filters nothing."""
    return any(group[name] is not None for name in POLICIES)


def shown_status(group: Values, has_ports: bool) -> str:
    """The status in the API of a group with its stored one: `views.py` has the same as an SQL expression."""
    if not has_ports or not is_enforced(group):
        return INACTIVE
    return str(group["status"]) if group["admin_state_up"] else DOWN
