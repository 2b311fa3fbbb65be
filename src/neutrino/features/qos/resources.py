"""QoS policies, their rules, and the types of rules.

A rule is a child of its policy. Most types can also be reached by the rule's id alone (`/qos/alias_…_rules/{id}`), for
clients that do not know the policy.
"""

from dataclasses import replace
from typing import Final

from neutrino.features.qos.errors import QosPolicyNotFound, QosRuleNotFound
from neutrino.model.qos import ANY, DSCP_MARKS, EGRESS, INGRESS
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, writable
from neutrino.server.api.resources.common import ID, IDENTITY, standard

QOS_POLICY = Resource(
    name="policy",
    collection="policies",
    path="qos/policies",
    quota="qos_policy",
    tagged=True,
    not_found=QosPolicyNotFound,
    any_marker=True,
    attributes=(
        *IDENTITY,
        writable("shared", t.Bool(), default=False, filter=True, guarded=True),
        writable("is_default", t.Bool(), default=False, filter=True),
        Attribute("rules", t.ListOf(t.AnyObject())),
        *standard(),
    ),
)

# --- rules ------------------------------------------------------------------------------------------------------------

_AMOUNT = t.Integer(0, t.DB_INTEGER_MAX)


def _amount(name: str, default: object = REQUIRED) -> Attribute:
    return writable(name, _AMOUNT, default=default, searchable=True)


def _direction(*further: str) -> Attribute:
    return writable("direction", t.OneOf((INGRESS, EGRESS, *further)), default=EGRESS, searchable=True)


def _rule(name: str, *parameters: Attribute) -> Resource:
    return Resource(
        name=name,
        path=f"{name}s",
        parent=QOS_POLICY,
        not_found=QosRuleNotFound,
        attributes=(ID, *parameters),
    )


def _alias(rule: Resource) -> Resource:
    return Resource(
        name=f"alias_{rule.name}",
        path=f"qos/alias_{rule.name}s",
        verbs=frozenset({"show", "update", "delete"}),
        not_found=QosRuleNotFound,
        attributes=tuple(replace(attribute, post=False) for attribute in rule.attributes),
    )


BANDWIDTH_LIMIT_RULE = _rule("bandwidth_limit_rule", _amount("max_kbps"), _amount("max_burst_kbps", 0), _direction())
DSCP_MARKING_RULE = _rule(
    "dscp_marking_rule", writable("dscp_mark", t.OneOf(DSCP_MARKS), default=REQUIRED, searchable=True)
)
MINIMUM_BANDWIDTH_RULE = _rule("minimum_bandwidth_rule", _amount("min_kbps"), _direction())
PACKET_RATE_LIMIT_RULE = _rule(
    "packet_rate_limit_rule", _amount("max_kpps"), _amount("max_burst_kpps", 0), _direction()
)
MINIMUM_PACKET_RATE_RULE = _rule("minimum_packet_rate_rule", _amount("min_kpps"), _direction(ANY))
ALIAS_BANDWIDTH_LIMIT_RULE = _alias(BANDWIDTH_LIMIT_RULE)
ALIAS_DSCP_MARKING_RULE = _alias(DSCP_MARKING_RULE)
ALIAS_MINIMUM_BANDWIDTH_RULE = _alias(MINIMUM_BANDWIDTH_RULE)
ALIAS_MINIMUM_PACKET_RATE_RULE = _alias(MINIMUM_PACKET_RATE_RULE)

# By type.
QOS_RULES: Final = {
    resource.name.removesuffix("_rule"): resource
    for resource in (
        BANDWIDTH_LIMIT_RULE,
        DSCP_MARKING_RULE,
        MINIMUM_BANDWIDTH_RULE,
        PACKET_RATE_LIMIT_RULE,
        MINIMUM_PACKET_RATE_RULE,
    )
}
QOS_RULE_ALIASES: Final = {
    resource.name.removeprefix("alias_").removesuffix("_rule"): resource
    for resource in (
        ALIAS_BANDWIDTH_LIMIT_RULE,
        ALIAS_DSCP_MARKING_RULE,
        ALIAS_MINIMUM_BANDWIDTH_RULE,
        ALIAS_MINIMUM_PACKET_RATE_RULE,
    )
}
# The parameters of each type of rule.
RULE_PARAMETERS: Final = {
    type_: tuple(attribute.name for attribute in resource.attributes if attribute is not ID)
    for type_, resource in QOS_RULES.items()
}

QOS_RULE_TYPE = Resource(
    name="rule_type",
    path="qos/rule-types",
    key="type",
    verbs=frozenset({"index", "show"}),
    not_found=errors.HTTPNotFound,
    any_marker=True,  # members see the list, but not a type alone
    attributes=(
        Attribute("type", t.OneOf(tuple(QOS_RULES))),
        Attribute("drivers", t.ListOf(t.AnyObject())),
        # Filters: the types that some driver enforces instead of those that all do, and all types there are.
        Attribute("all_supported", t.Nullable(t.Bool()), visible=False, filter=True),
        Attribute("all_rules", t.Nullable(t.Bool()), visible=False, filter=True),
    ),
)
