"""QoS policies and rules, and what they add to networks, ports, floating IPs and gateways."""

from collections.abc import Sequence

from neutrino.features.qos import consumers, takeover
from neutrino.features.qos.allocations import Allocations
from neutrino.features.qos.attributes import NETWORK_ATTRIBUTES, PORT_ATTRIBUTES
from neutrino.features.qos.consumers import Consumers
from neutrino.features.qos.feed import FEED
from neutrino.features.qos.policies import Policies
from neutrino.features.qos.resources import QOS_POLICY, QOS_RULE_ALIASES, QOS_RULE_TYPE, QOS_RULES
from neutrino.features.qos.rules import RuleAliases, Rules, RuleTypes
from neutrino.features.qos.support import RuleSupport
from neutrino.features.qos.trace import read_part
from neutrino.features.qos.use import SHAREABLE, VIEW, check_routed
from neutrino.server import placement
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.deprecated import tag_rules
from neutrino.server.policy.rules import ADMIN, ADMIN_OR_MANAGER, PARENT_READER, READER, any_of, crud, setting, tags
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.uses import NetworkUse, RouterUse

_PARENT_MANAGER = any_of(ADMIN, "role:manager and rule:ext_parent_owner")
_POLICY_READER = any_of(ADMIN, READER, "rule:shared_qos_policy")
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
    ("qos-port-network-policy", "QoS port network policy ID", "A port shows the policy of its network."),
)
# Of routers and floating IPs, if these are served.
_OF_ROUTERS = (
    ("qos-fip", "Floating IP QoS", "QoS policies on floating IPs."),
    ("qos-fip-network-policy", "QoS floating IP network policy ID", "A floating IP shows its network's policy."),
    ("qos-gateway-ip", "Router gateway IP QoS", "QoS policies on the gateways of routers."),
)


def build(services: Services) -> ResourcePlugin:
    db, support = services.db, RuleSupport.of(services.core.operations.mechanisms.drivers)
    rules = {type_: Rules(db, type_, support) for type_ in QOS_RULES}
    of_routers = _OF_ROUTERS if "router" in services.conf.service_plugins else ()
    followed = _allocations(services)
    return ResourcePlugin(
        extensions=[Extension(*words) for words in of_routers],
        ports=[PortUse(changes=one.of_port) for one in followed],
        networks=[NetworkUse(changes=one.of_network) for one in followed],
        collections=(
            (QOS_POLICY, Policies(db, VIEW, services.quotas)),
            *((resource, rules[type_]) for type_, resource in QOS_RULES.items()),
            *((resource, RuleAliases(rules[type_])) for type_, resource in QOS_RULE_ALIASES.items()),
            (QOS_RULE_TYPE, RuleTypes(support)),
        ),
    )


def _allocations(services: Services) -> Sequence[Allocations]:
    """None without Placement."""
    conf = services.conf
    if not placement.guarantees(conf):
        return ()
    about = conf, placement.SECTION, "placement", consumers.VERSION, "change allocations of instances"
    calls = (placement.caller(*about, seconds) for seconds in (consumers.TIMEOUT, consumers.SECONDS))
    return (Allocations(Consumers(*calls)),)


FEATURES = (
    Feature(
        name="qos",
        neutron_plugin="neutron.services.qos.qos_plugin.QoSPlugin",
        extensions=[Extension(*words) for words in _EXTENSIONS],
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            "shared_qos_policy": "field:policies:shared=True",
            **crud("policy", ADMIN_OR_MANAGER, _POLICY_READER),
            **tags("policy", ADMIN_OR_MANAGER, _POLICY_READER),
            **setting("policy", {"shared": ADMIN}),  # as an RBAC policy for all projects
            "get_rule_type": "role:reader",
            "get_port:resource_request": ADMIN,
            **{
                rule: check
                for type_ in QOS_RULES
                for rule, check in crud(f"policy_{type_}_rule", _PARENT_MANAGER, PARENT_READER).items()
            },
            # The same rules, by the paths without a policy. As in Neutron, only one kind follows the rules above.
            **{
                f"{verb}_alias_{name}_rule": PARENT_READER if verb == "get" else _PARENT_MANAGER
                for name in ("bandwidth_limit", "dscp_marking", "minimum_bandwidth")
                for verb in ("get", "update", "delete")
            },
            **{
                f"{verb}_alias_minimum_packet_rate_rule": f"rule:{verb}_policy_minimum_packet_rate_rule"
                for verb in ("get", "update", "delete")
            },
        },
        deprecated_policy={
            "rule:regular_user": """
                get_policy get_rule_type get_policy_bandwidth_limit_rule get_policy_dscp_marking_rule
                get_policy_minimum_bandwidth_rule get_alias_bandwidth_limit_rule get_alias_dscp_marking_rule
                get_alias_minimum_bandwidth_rule
            """,
        },
        earlier_policy_names=tag_rules("policy", "policies"),
        quotas={"qos_policy": -1},
        network_attributes=(NETWORK_ATTRIBUTES,),
        port_attributes=(PORT_ATTRIBUTES,),
        shared=(SHAREABLE,),
        routers=(RouterUse(check_values=check_routed),),
        feed=FEED,
        trace=(read_part,),
    ),
)
