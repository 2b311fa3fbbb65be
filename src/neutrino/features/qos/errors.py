"""API errors of QoS policies and rules. Names and statuses are those of Neutron, because clients match on them."""

from neutrino.server.errors import ApiError, Conflict, Forbidden, HTTPServiceUnavailable, InUse, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class QosPolicyNotFound(NotFound): template = "There is no QoS policy {id}."
class QosRuleNotFound(NotFound): template = "There is no QoS rule {id}."
class QosPolicyInUse(InUse): template = "QoS policy {policy_id} is used by {object_type} {object_id}."
class QoSPolicyDefaultAlreadyExists(Conflict): template = "Project {project_id} has a default QoS policy already."
class QoSRulesConflict(Conflict):
    template = "QoS policy {policy_id} already has a rule of type {new_rule_type} for this direction: {rule_id}."
class QoSRuleParameterConflict(Conflict):
    template = (
        "{rule_value} contradicts the {existing_rule} rule of QoS policy {policy_id}, which has {existing_value}."
    )
class QosRuleNotSupported(Conflict): template = "QoS rules of type {rule_type} are not supported by port {port_id}."
class PolicyRemoveAuthorizationError(Forbidden):
    template = "QoS policy {policy_id} was set by an administrator: this project cannot remove it."
class QosPlacementAllocationUpdateConflict(Conflict):
    template = "Placement does not change what instance {consumer} has allocated for port {port_id}: {reason}"
class PlacementUnavailable(HTTPServiceUnavailable):
    template = "Placement, which has allocated the minimums of port {port_id}, cannot be reached: try again."
class TooManyAllocations(Conflict):
    template = (
        "{count} instances have allocated minimums in Placement by the QoS policy of this network; at most {maximum} are"
        " changed together: set the new policy on some of their ports first."
    )
class QosRuleTrackedInPlacement(ApiError):
    status = 501
    type = "NotImplementedError"  # as in Neutron
    template = "Placement has allocated the minimum of QoS policy {policy_id} for port {port_id}: it cannot be changed."
# fmt: on
