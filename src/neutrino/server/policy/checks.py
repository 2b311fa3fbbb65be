"""Policy checks: `field:`, which compares an attribute, and the classes of oslo.policy's own."""

import re
from typing import Any

from oslo_policy import policy

from neutrino.model.objects import Object, Values


class FieldCheck(policy.Check):
    """`field:<collection>:<attribute>=<value>` or `=~<regular expression>`."""

    def __init__(self, kind: str, match: str) -> None:
        super().__init__(kind, match)
        self.resource, _, condition = match.partition(":")
        self.field, equals, value = condition.partition("=")
        if not self.field or not equals:
            raise ValueError(f"field:{match} is not of the form field:collection:attribute=value")
        self.pattern = re.compile(value[1:]) if value.startswith("~") else None
        self.value: bool | str = {"True": True, "False": False}.get(value, value)

    def __call__(self, target: Values, credentials: Values, enforcer: object, current_rule: object = None) -> bool:
        # A port or a subnet has the attributes of its network as "network:...".
        actual = target.get(f"network:{self.field}") if self.resource == "networks" else None
        if actual is None:
            actual = target.get(self.field)
        if self.pattern is not None:
            return isinstance(actual, str) and self.pattern.match(actual) is not None
        return bool(actual == self.value)


policy.register("field", FieldCheck)


def parse(rule: object) -> Any:
    """The check of a rule."""
    rules: Object = {"": rule}
    return policy.Rules.from_dict(rules)[""]


# oslo.policy exports not all classes of its checks: these are known by an example.
NEVER = parse("!")
TrueCheck, FalseCheck, RoleCheck, GenericCheck = (type(parse(text)) for text in ("@", "!", "role:any", "any:any"))
