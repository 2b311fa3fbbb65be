"""Decides what a caller may do and see.

The rules are oslo.policy's. For lists a rule is not asked for every row and attribute: most rules look at a few
attributes of a row (its owner, whether it is shared), so rows that agree in those get the same answer, which is worked
out once a request. The answer for a caller who may see all needs no row at all.

A check of another package (`http:`, entry points) may look at anything: a rule with one is asked for every object, with the
whole object, and no answer of it is kept.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from oslo_config import cfg
from oslo_policy import _checks, opts, policy

from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.context import Context
from neutrino.server.policy import rules
from neutrino.server.policy.checks import FieldCheck

LOG = logging.getLogger(__name__)
RELOAD_SECONDS = 1.0
MOST_DECISIONS = 10_000
MOST_SIGHTS = 1_000
_PARAMETER = re.compile(r"%\(([^)]+)\)")
Row = Mapping[str, Any]
# What rules look at beyond an object's own attributes.
POLICY_NAMES = ("network:project_id", "network:shared", "security_group:project_id", "ext_parent:project_id")
# Checks that look at the attributes that they name and at no others.
_PLAIN = (_checks.TrueCheck, _checks.FalseCheck, _checks.RoleCheck, _checks.GenericCheck)


@dataclass(frozen=True)
class Looks:
    """What some rules look at in an object."""

    keys: tuple[str, ...]
    whole: bool  # at what else cannot be known
    negated: bool  # a rule is fulfilled by what an object is not: true of no object at all is not true of every one

    @property
    def settled_without(self) -> bool:
        """Whether what the rules allow without an object they allow for every object."""
        return not self.whole and not self.negated


@dataclass(frozen=True)
class Sight:
    """What one caller sees of one resource."""

    all_rows: bool  # objects of every project
    everything: bool  # and every attribute of them
    needs: tuple[str, ...]  # attributes that the answer for a row depends on
    never: frozenset[str]  # attributes that are hidden in every row
    sometimes: frozenset[str]  # those that are hidden in some rows
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
        self._looks: dict[tuple[str, ...], Looks] = {}
        self._decisions: dict[tuple[Any, ...], bool] = {}
        self._sights: dict[tuple[Any, ...], Sight] = {}

    def _rules(self) -> Any:
        if time.monotonic() - self._loaded > RELOAD_SECONDS:  # an edited policy.yaml serves without a restart
            self._enforcer.load_rules()
            self._loaded = time.monotonic()
            self._looks.clear()
            self._decisions.clear()
            self._sights.clear()
        return self._enforcer.rules

    # --- questions ------------------------------------------------------------------------------------------------

    def allows(self, context: Context, rule: str, target: Row) -> bool:
        """Whether the rule allows it. Same caller, rule and attributes looked at: same answer, so it is kept."""
        known = self._rules()
        if rule not in known:
            rule = "default"
        looks = self._look((rule,))
        if looks.whole:
            return self._ask_others(context, rule, target)
        signature = (context.identity, rule, *(target.get(key) for key in looks.keys))
        try:
            if signature in self._decisions:
                return self._decisions[signature]
        except TypeError:  # a rule that looks at a list: not worth keeping
            return self._ask(context, rule, target)
        decision = self._ask(context, rule, target)
        if len(self._decisions) > MOST_DECISIONS:
            self._decisions.clear()
        self._decisions[signature] = decision
        return decision

    def _ask(self, context: Context, rule: str, target: Row) -> bool:
        # A check of another package may want to know the rule's name, or may not take it: oslo.policy looks.
        check = self._enforcer.rules[rule]
        return bool(_checks._check(check, target, context.credentials, self._enforcer, rule))

    def _ask_others(self, context: Context, rule: str, target: Row) -> bool:
        """A server that cannot be asked has not allowed it."""
        try:
            return self._ask(context, rule, _decoded(target))
        except Exception:
            LOG.exception("policy rule %s could not be asked, and is taken for a refusal", rule)
            return False

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
        row_settled = self._allows_all(context, row_rule)
        # Where each row has to be asked for, an administrator is asked about all rows and others about their own.
        all_rows = row_settled or (context.is_admin and not self._look((row_rule,)).settled_without)
        guarded = {name: r for name, r in guarded.items() if not self._allows_all(context, r)}
        if row_settled and not guarded:
            return Sight(True, True, (), frozenset(), frozenset(), lambda row: frozenset())
        looks = self._look((row_rule, *guarded.values()))
        needs = tuple(dict.fromkeys([*looks.keys, *resource.visible, *POLICY_NAMES])) if looks.whole else looks.keys
        known: dict[tuple[Any, ...], frozenset[str] | None] = {}

        def asked(target: Row) -> frozenset[str] | None:
            if not row_settled and not self.allows(context, row_rule, target):
                return None
            return frozenset(name for name, rule in guarded.items() if not self.allows(context, rule, target))

        def hidden(row: Row) -> frozenset[str] | None:
            if looks.whole:
                return asked(row)
            signature = tuple(row.get(key) for key in needs)
            try:
                new = signature not in known
            except TypeError:  # a rule that looks at a list: not worth keeping
                return asked(row)
            if new:
                if len(known) > MOST_DECISIONS:
                    known.clear()
                known[signature] = asked({k: v for k, v in zip(needs, signature, strict=True) if v is not None})
            return known[signature]

        never = frozenset(name for name, rule in guarded.items() if self._look((rule,)) == _NOTHING)
        return Sight(all_rows, False, needs, never, frozenset(guarded) - never, hidden)

    def _allows_all(self, context: Context, rule: str) -> bool:
        """Whether the rule allows it for every object there is."""
        return self._look((rule,)).settled_without and self.allows(context, rule, {})

    def _look(self, names: tuple[str, ...]) -> Looks:
        """What these rules look at."""
        if names not in self._looks:
            looks = [self._walk(self._rules().get(rule, self._rules()["default"]), ()) for rule in names]
            self._looks[names] = _joined(looks)
        return self._looks[names]

    def _walk(self, check: Any, within: tuple[str, ...]) -> Looks:
        """What a check looks at; `within` are the rules that it is part of."""
        kind = type(check)
        if kind is FieldCheck:
            of_network = [f"network:{check.field}"] if check.resource == "networks" else []
            return Looks((check.field, *of_network), whole=False, negated=False)
        if kind in (_checks.AndCheck, _checks.OrCheck):
            return _joined([self._walk(inner, within) for inner in check.rules])
        if kind is _checks.NotCheck:
            inner = self._walk(check.rule, within)
            return replace(inner, negated=inner.negated or bool(inner.keys) or inner.whole)
        if kind is _checks.RuleCheck:
            if check.match in within or check.match not in self._rules():
                return _NOTHING
            return self._walk(self._rules()[check.match], (*within, check.match))
        if kind in _PLAIN:
            match = getattr(check, "match", "")
            return Looks(tuple(_PARAMETER.findall(match)), whole=False, negated=False)
        return Looks((), whole=True, negated=False)


_NOTHING = Looks((), whole=False, negated=False)


def _joined(looks: Iterable[Looks]) -> Looks:
    every = list(looks)
    keys = sorted({key for one in every for key in one.keys})
    return Looks(tuple(keys), any(one.whole for one in every), any(one.negated for one in every))


def _decoded(target: Row) -> dict[str, Any]:
    """The object with plain values, for a check that reads all of it: what goes to clients as JSON text is parsed."""
    return {name: msgspec.json.decode(v) if isinstance(v, msgspec.Raw) else v for name, v in target.items()}
