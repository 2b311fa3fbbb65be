"""Which QoS rules the mechanism drivers enforce, on which ports. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from neutrino.features.qos.errors import QosRuleNotSupported
from neutrino.features.qos.resources import QOS_RULES
from neutrino.model.objects import Object, Values
from neutrino.server.ml2.attributes import Drivers
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND, EnforcesQos, QosSupport

Rule = Values
_NOT_BOUND = ("", VIF_UNBOUND, VIF_FAILED, "distributed")


@dataclass(frozen=True)
class RuleSupport:
    drivers: Mapping[str, QosSupport]  # by name; only the drivers that declare support

    @classmethod
    def of(cls, drivers: Drivers) -> "RuleSupport":
        return cls({name: driver.qos for name, driver in drivers.items() if isinstance(driver, EnforcesQos)})

    # --- rule types -----------------------------------------------------------------------------------------------

    def types(self, *, all_supported: bool = False, all_rules: bool = False) -> list[str]:
        """The types that every driver enforces, or that some driver does, or all there are."""
        if all_rules:
            return list(QOS_RULES)
        if not self.drivers:
            return []
        combine = any if all_supported else all
        return [type_ for type_ in QOS_RULES if combine(type_ in driver.rules for driver in self.drivers.values())]

    def details(self, type_: str) -> list[Object]:
        """The drivers that enforce a type, with the values of its parameters."""
        return [
            {"name": name, "supported_parameters": [_described(*item) for item in support.rules[type_].items()]}
            for name, support in self.drivers.items()
            if type_ in support.rules
        ]

    # --- ports ----------------------------------------------------------------------------------------------------

    def check_port(self, port_id: str, vnic_type: str, vif_type: str, rules: Iterable[Rule]) -> None:
        """Refuse rules that no driver enforces on a port: of its VIF type if it is bound, else of its VNIC type."""
        if vif_type in _NOT_BOUND:
            candidates = [driver for driver in self.drivers.values() if vnic_type in driver.vnic_types]
        else:
            candidates = [driver for driver in self.drivers.values() if vif_type in driver.vif_types]
        for rule in rules:
            if not any(_enforces(support, rule) for support in candidates):
                raise QosRuleNotSupported(rule_type=rule["type"], port_id=port_id)


def _enforces(support: QosSupport, rule: Rule) -> bool:
    parameters = support.rules.get(rule["type"])
    return parameters is not None and all(rule[name] in values for name, values in parameters.items())


def _described(name: str, values: range | Sequence[object]) -> Object:
    if isinstance(values, range):
        shown: object = {"start": values.start, "end": values.stop - 1}
        return {"parameter_name": name, "parameter_type": "range", "parameter_values": shown}
    return {"parameter_name": name, "parameter_type": "choices", "parameter_values": list(values)}
