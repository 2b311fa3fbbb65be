"""Errors of firewall groups, policies and rules."""

from neutrino.server.errors import Conflict, InUse, InvalidInput, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class FirewallGroupNotFound(NotFound): template = "Firewall group {id} could not be found."
class FirewallGroupInUse(InUse): template = "Firewall group {id} is still active: it has ports."
class FirewallGroupPortInvalid(Conflict):
    template = (
        "Port {port_id} of firewall group is invalid: it is neither a router interface nor a port of an instance."
    )
class FirewallGroupPortInvalidProject(Conflict):
    template = "Operation cannot be performed as port {port_id} is in an invalid project {project_id}."
class FirewallGroupPortInUse(InUse):
    template = "Port(s) {port_ids} provided already associated with other firewall group(s)."
class FirewallGroupPortNotSupported(Conflict):
    template = "Port {port_id} is not supported by firewall driver 'neutrino': its {what} is {value}."
class FirewallGroupCannotRemoveDefault(InUse):
    template = "Deleting default firewall group not allowed: only an administrator can delete it."
class FirewallDefaultParameterExists(InUse):
    template = "Operation cannot be performed since '{name}' is a reserved name for {resource_type}."
class FirewallDefaultObjectUpdateRestricted(InUse):
    template = "Operation cannot be performed on default object '{resource_id}' of type {resource_type}."
class FirewallPolicyNotFound(NotFound): template = "Firewall policy {id} could not be found."
class FirewallPolicyInUse(InUse): template = "Firewall policy {id} is being used."
class FirewallPolicyConflict(NotFound):
    template = "Firewall policy {id} belongs to another project than the firewall group and is not shared."
class FirewallPolicySharingConflict(Conflict):
    template = "Before sharing firewall policy {policy_id}, share its firewall rule {rule_id}."
class FirewallRuleNotFound(NotFound): template = "Firewall rule {id} could not be found."
class FirewallRuleInUse(InUse): template = "Firewall rule {id} is being used: policies have it."
class FirewallRuleConflict(Conflict):
    template = "Firewall rule {rule_id} is not shared and belongs to another project {project_id}."
class FirewallRuleSharingConflict(NotFound):
    template = "Firewall policy {policy_id} is shared, and its firewall rule {rule_id} is not: share the rule first."
class FirewallRuleAlreadyAssociated(Conflict):
    template = "Firewall rule {rule_id} is already associated with firewall policy {policy_id}."
class FirewallRuleNotAssociatedWithPolicy(InvalidInput):
    template = "Firewall rule {rule_id} is not associated with firewall policy {policy_id}."
class FirewallRuleInfoMissing(InvalidInput):
    template = "Missing rule info argument for insert/remove rule operation: firewall_rule_id."
class FirewallRuleInvalidICMPParameter(InvalidInput):
    template = "Source, destination port are not allowed for protocol {protocol}: only for tcp and udp."
class FirewallRuleWithPortWithoutProtocolInvalid(InvalidInput):
    template = "Source/destination port requires a protocol."
class FirewallIpAddressConflict(InvalidInput):
    template = "Invalid input - IP addresses do not agree with IP Version: {address} is no address of IPv{ip_version}."
# fmt: on
