"""What a rule may ask of an object besides its owner: `field:networks:shared=True`, also on a port of that network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oslo_policy import policy


class FieldCheck(policy.Check):
    """`field:<collection>:<attribute>=<value>`, or `=~<regular expression>`."""

    def __init__(self, kind: str, match: str) -> None:
        super().__init__(kind, match)
        resource, _, condition = match.partition(":")
        self.resource = resource
        field, _, value = condition.partition("=")
        self.field = field
        self.pattern = re.compile(value[1:]) if value.startswith("~") else None
        self.value: Any = {"True": True, "False": False}.get(value, value)

    def __call__(
        self, target: Mapping[str, Any], credentials: Mapping[str, Any], enforcer: Any, current_rule: Any = None
    ) -> bool:
        # A port or a subnet carries what its network says under "network:...".
        actual = target.get(f"network:{self.field}") if self.resource == "networks" else None
        if actual is None:
            actual = target.get(self.field)
        if self.pattern is not None:
            return isinstance(actual, str) and self.pattern.match(actual) is not None
        return bool(actual == self.value)


policy.register("field", FieldCheck)
