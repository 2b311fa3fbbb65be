"""Decides what a caller may do and see.

The rules are oslo.policy's. For lists a rule is not asked for every row and attribute: a rule can only look at a few
attributes of a row (its owner, whether it is shared), so rows that agree in those get the same answer, which is worked
out once a request. The answer for a caller who may see all needs no row at all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from oslo_policy import opts, policy

from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.context import Context
from neutrino.server.policy import rules
from neutrino.server.policy.checks import FieldCheck

RELOAD_SECONDS = 1.0
MOST_DECISIONS = 10_000
MOST_SIGHTS = 1_000
_PARAMETER = re.compile(r"%\(([^)]+)\)s")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sight:
    """What one caller sees of one resource."""

    all_rows: bool  # objects of every project
    everything: bool  # and every attribute of them
    needs: tuple[str, ...]  # attributes that the answer for a row depends on
    names: Callable[[Row], frozenset[str] | None]  # hidden attributes of a row, or None if the row itself is hidden


class Authorizer:
    def __init__(self, conf: cfg.ConfigOpts, extra_rules: Mapping[str, str] | None = None) -> None:
        opts.set_defaults(conf, enforce_scope=False, enforce_new_defaults=True)
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        defaults = rules.DEFAULTS | dict(extra_rules or {})
        self._enforcer.register_defaults([policy.RuleDefault(name, check) for name, check in defaults.items()])
        self._enforcer.load_rules()
        self._loaded = time.monotonic()
        self._needs: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._decisions: dict[tuple[Any, ...], bool] = {}
        self._sights: dict[tuple[Any, ...], Sight] = {}

    def _rules(self) -> Any:
        if time.monotonic() - self._loaded > RELOAD_SECONDS:  # an edited policy.yaml serves without a restart
            self._enforcer.load_rules()
            self._loaded = time.monotonic()
            self._needs.clear()
            self._decisions.clear()
            self._sights.clear()
        return self._enforcer.rules

    # --- questions ------------------------------------------------------------------------------------------------

    def allows(self, context: Context, rule: str, target: Row) -> bool:
        """Whether the rule allows it. Same caller, rule and attributes looked at: same answer, so it is kept."""
        known = self._rules()
        if rule not in known:
            rule = "default"
        signature = (context.identity, rule, *(target.get(key) for key in self._keys((rule,))))
        try:
            if signature in self._decisions:
                return self._decisions[signature]
        except TypeError:  # a rule that looks at a list: not worth keeping
            return bool(known[rule](target, context.credentials, self._enforcer))
        decision = bool(known[rule](target, context.credentials, self._enforcer))
        if len(self._decisions) > MOST_DECISIONS:
            self._decisions.clear()
        self._decisions[signature] = decision
        return decision

    def is_admin(self, credentials: Mapping[str, Any]) -> bool:
        return bool(self._rules()["context_is_admin"]({}, credentials, self._enforcer))

    def has_rule(self, rule: str) -> bool:
        return rule in self._rules()

    def require(self, context: Context, rule: str, target: Row) -> None:
        if not self.allows(context, rule, target):
            raise errors.PolicyNotAuthorized(rule=rule)

    def require_attributes(
        self, context: Context, action: str, resource: Resource, given: Iterable[str], target: Row
    ) -> None:
        """Refuse attributes that the caller may not set; parts of dictionaries may have rules of their own."""
        for name in given:
            attribute = resource.by_name[name]
            if not attribute.guarded or (action == "create" and target.get(name) == attribute.default):
                continue
            rule = f"{action}_{resource.name}:{name}"
            if self.has_rule(rule):
                self.require(context, rule, target)
            value = target.get(name)
            items = value if isinstance(value, list) else [value]
            for part in {key for item in items if isinstance(item, dict) for key in item}:
                if self.has_rule(f"{rule}:{part}"):
                    self.require(context, f"{rule}:{part}", target)

    # --- lists ----------------------------------------------------------------------------------------------------

    def sight(self, context: Context, resource: Resource, rule: str | None = None) -> Sight:
        row_rule = rule or f"get_{resource.name}"
        self._rules()  # forgets what is kept when the rules have changed
        key = (context.identity, resource.name, row_rule)
        if key not in self._sights:
            if len(self._sights) > MOST_SIGHTS:
                self._sights.clear()
            self._sights[key] = self._new_sight(context, resource, row_rule)
        return self._sights[key]

    def _new_sight(self, context: Context, resource: Resource, row_rule: str) -> Sight:
        guarded = {
            name: f"get_{resource.name}:{name}"
            for name in resource.visible
            if self.has_rule(f"get_{resource.name}:{name}")
        }
        all_rows = self.allows(context, row_rule, {})
        hidden_always = {name for name, r in guarded.items() if not self.allows(context, r, {})}
        if all_rows and not hidden_always:
            return Sight(True, True, (), lambda row: frozenset())
        needs = self._keys((row_rule, *guarded.values()))
        known: dict[tuple[Any, ...], frozenset[str] | None] = {}

        def hidden(row: Row) -> frozenset[str] | None:
            signature = tuple(row.get(key) for key in needs)
            if signature not in known:
                if len(known) > MOST_DECISIONS:
                    known.clear()
                target = dict(zip(needs, signature, strict=True))
                known[signature] = (
                    frozenset(name for name in hidden_always if not self.allows(context, guarded[name], target))
                    if all_rows or self.allows(context, row_rule, target)
                    else None
                )
            return known[signature]

        return Sight(all_rows, False, needs, hidden)

    def _keys(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The attributes that these rules look at."""
        if names not in self._needs:
            found: set[str] = set()
            for rule in names:
                self._walk(self._rules().get(rule, self._rules()["default"]), found)
            self._needs[names] = tuple(sorted(found))
        return self._needs[names]

    def _walk(self, check: Any, found: set[str]) -> None:
        """Collect the attributes that a rule looks at."""
        if isinstance(check, FieldCheck):
            found.add(check.field)
            if check.resource == "networks":
                found.add(f"network:{check.field}")
            return
        for inner in getattr(check, "rules", ()):
            self._walk(inner, found)
        if getattr(check, "rule", None) is not None:
            self._walk(check.rule, found)
        kind, match = getattr(check, "kind", None), getattr(check, "match", None)
        if kind == "rule" and match in self._rules():
            self._walk(self._rules()[match], found)
        elif isinstance(match, str):
            found.update(_PARAMETER.findall(match))
