"""The service plugin `qos`: policies, rules, rule types, and the extensions that QoS brings to other resources."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.qos import QOS_POLICY, QOS_RULE_ALIASES, QOS_RULE_TYPE, QOS_RULES
from neutrino.server.qos.policies import Policies
from neutrino.server.qos.rules import RuleAliases, Rules, RuleTypes
from neutrino.server.services import ResourcePlugin, Services

_EXTENSIONS = (
    ("qos", "Quality of Service", "QoS policies with rules, on networks and ports."),
    ("qos-default", "QoS default policy", "The policy that new networks of a project get."),
    ("qos-bw-limit-direction", "Direction for QoS bandwidth limit rule", "Bandwidth limits in both directions."),
    ("qos-bw-minimum-ingress", "Ingress direction for QoS minimum bandwidth rule", "Minimums in both directions."),
    ("qos-pps", "QoS Rule Type Packet per Second Extension", "Limits of packets per second."),
    ("qos-pps-minimum", "QoS minimum packet rate rule", "Minimums of packets per second."),
    ("qos-rules-alias", "Quality of Service rules alias API", "Rules by their own id, without the policy."),
    ("qos-pps-minimum-rule-alias", "QoS minimum packet rate rule alias", "The same for minimum packet rates."),
    ("qos-rule-type-details", "Details of QoS rule types", "The drivers that enforce a type of rule."),
    ("qos-rule-type-filter", "Allow to filter the list of QoS rule types", "Types of some drivers, or all."),
    ("port-resource-request", "Port Resource Request", "What a port's minimum rates need of Placement."),
    ("port-resource-request-groups", "Port Resource Request Groups", "One group for bandwidth and one for packets."),
    ("agent-resources-synced", "Agent's Resource View Synced to Placement", "Whether Placement has an agent's rates."),
    ("qos-port-network-policy", "QoS port network policy ID", "A port shows the policy of its network."),
)
# Of routers and floating IPs, if these are served.
_L3_EXTENSIONS = (
    ("qos-fip", "Floating IP QoS", "QoS policies on floating IPs."),
    ("qos-fip-network-policy", "QoS floating IP network policy ID", "A floating IP shows its network's policy."),
    ("qos-gateway-ip", "Router gateway IP QoS", "QoS policies on the gateways of routers."),
)


def build(services: Services) -> ResourcePlugin:
    db, use = services.db, services.core.qos
    rules = {type_: Rules(db, type_, use) for type_ in QOS_RULES}
    collections = (
        (QOS_POLICY, Policies(db, services.quotas)),
        *((resource, rules[type_]) for type_, resource in QOS_RULES.items()),
        *((resource, RuleAliases(rules[type_])) for type_, resource in QOS_RULE_ALIASES.items()),
        (QOS_RULE_TYPE, RuleTypes(use.support)),
    )
    advertised = _EXTENSIONS + (_L3_EXTENSIONS if "router" in services.conf.service_plugins else ())
    return ResourcePlugin([Extension(*words) for words in advertised], collections)
