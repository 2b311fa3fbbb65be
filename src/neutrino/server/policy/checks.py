"""Policy checks: `field:`, which compares an attribute, and lazy loading of the checks of other packages."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from oslo_policy import _checks, policy
from stevedore import NamedExtensionManager

GROUP = "oslo.policy.rule_checks"


class FieldCheck(policy.Check):
    """`field:<collection>:<attribute>=<value>` or `=~<regular expression>`."""

    def __init__(self, kind: str, match: str) -> None:
        super().__init__(kind, match)
        self.resource, _, condition = match.partition(":")
        self.field, equals, value = condition.partition("=")
        if not self.field or not equals:
            raise ValueError(f"field:{match} is not of the form field:collection:attribute=value")
        self.pattern = re.compile(value[1:]) if value.startswith("~") else None
        self.value: Any = {"True": True, "False": False}.get(value, value)

    def __call__(
        self, target: Mapping[str, Any], credentials: Mapping[str, Any], enforcer: Any, current_rule: Any = None
    ) -> bool:
        # A port or a subnet has the attributes of its network as "network:...".
        actual = target.get(f"network:{self.field}") if self.resource == "networks" else None
        if actual is None:
            actual = target.get(self.field)
        if self.pattern is not None:
            return isinstance(actual, str) and self.pattern.match(actual) is not None
        return bool(actual == self.value)


policy.register("field", FieldCheck)


def load_extension_checks_lazily() -> None:
    """Load the checks of other packages when a rule first uses one. Call it before the first rule is parsed.

    oslo.policy loads all of them with its first rule. Its own two (`http:`, `https:`) bring an HTTP client with tables of
    character sets: five megabytes in every process, for a kind of rule that hardly any policy has. Without effect if
    oslo.policy has loaded them already.
    """
    if getattr(_checks, "extension_checks", ()) is None:
        offered = NamedExtensionManager(GROUP, names=[], warn_on_missing_entrypoint=False).list_entry_points()
        _checks.extension_checks = {entry_point.name: _lazy(entry_point) for entry_point in offered}


def _lazy(entry_point: Any) -> Callable[..., Any]:
    return lambda kind, match: entry_point.load()(kind, match)
