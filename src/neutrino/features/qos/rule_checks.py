"""Which rules a QoS policy may have together. Pure."""

from collections.abc import Sequence

from neutrino.features.qos.errors import QoSRuleParameterConflict, QoSRulesConflict
from neutrino.model.objects import Values
from neutrino.model.qos import ANY

Rule = Values
MINIMUM_BANDWIDTH, MINIMUM_PACKET_RATE = "minimum_bandwidth", "minimum_packet_rate"
# Placement allocates these minimums on the hosts of instances.
PLACED = (MINIMUM_BANDWIDTH, MINIMUM_PACKET_RATE)


def check_rule(policy_id: str, rules: Sequence[Rule], new: Rule) -> None:
    """Refuse a new or changed rule that contradicts another rule of its policy."""
    others = [rule for rule in rules if rule["id"] != new["id"]]
    for rule in others:
        _check_bandwidth(policy_id, rule, new)
        _check_packet_rate(policy_id, rule, new)
    for rule in others:
        if rule["type"] == new["type"] and rule.get("direction") == new.get("direction"):
            raise QoSRulesConflict(policy_id=policy_id, new_rule_type=new["type"], rule_id=rule["id"])


def _check_bandwidth(policy_id: str, rule: Rule, new: Rule) -> None:
    """A minimum above the limit of the same direction cannot be met."""
    by_type = {each["type"]: each for each in (rule, new)}
    if by_type.keys() != {MINIMUM_BANDWIDTH, "bandwidth_limit"} or rule["direction"] != new["direction"]:
        return
    if by_type[MINIMUM_BANDWIDTH]["min_kbps"] > by_type["bandwidth_limit"]["max_kbps"]:
        value = "min_kbps" if new["type"] == MINIMUM_BANDWIDTH else "max_kbps"
        existing = "max_kbps" if new["type"] == MINIMUM_BANDWIDTH else "min_kbps"
        raise _conflict(policy_id, rule, rule[existing], new[value])


def _check_packet_rate(policy_id: str, rule: Rule, new: Rule) -> None:
    """A minimum for both directions together excludes one for a single direction: they are different resources."""
    if not rule["type"] == new["type"] == MINIMUM_PACKET_RATE:
        return
    if (rule["direction"] == ANY) != (new["direction"] == ANY):
        raise _conflict(policy_id, rule, rule["direction"], new["direction"])


def _conflict(policy_id: str, rule: Rule, existing: object, value: object) -> QoSRuleParameterConflict:
    return QoSRuleParameterConflict(
        policy_id=policy_id, rule_value=value, existing_rule=rule["type"], existing_value=existing
    )
