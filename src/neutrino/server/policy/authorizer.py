"""Decides what a caller may do and see, by the rules of oslo.policy.

A list does not evaluate a rule for every row and attribute. Most rules depend on a few attributes of a row (its owner,
whether it is shared), so rows that are equal in those share a decision, which is cached. A caller who may see everything
needs no decision per row at all.

A check of another package (`http:`, entry points) may depend on anything: a rule with one is evaluated for every object,
with the whole object, and its decision is not cached.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from oslo_config import cfg
from oslo_policy import opts
from oslo_policy.policy import AndCheck, NotCheck, OrCheck, RuleCheck, Rules

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.context import Context
from neutrino.server.policy import deprecated, files, rules
from neutrino.server.policy.checks import FalseCheck, FieldCheck, GenericCheck, RoleCheck, TrueCheck
from neutrino.server.policy.files import Fault, Files, Signature
from neutrino.server.policy.rule_set import Defaults, RuleSet, build

LOG = logging.getLogger(__name__)
RELOAD_SECONDS = 1.0  # between looks at the files: too slow for every decision
LOG_SECONDS = 60.0  # between log lines about the evaluation of one rule
NO_DEFAULTS = Defaults()
MAX_DECISIONS = 10_000
MAX_VISIBILITIES = 1_000
_PARAMETER = re.compile(r"%\(([^)]+)\)")
Row = Values
# Attributes of related objects (network, security group, parent) that rules depend on.
RELATED_ATTRIBUTES = ("network:project_id", "network:shared", "security_group:project_id", "ext_parent:project_id")
# Attributes with two names in the API. Rules have either: both are checked, and see both names.
SYNONYMS = {"target_tenant": "target_project"}
# Checks that depend on the attributes that they name and on no others.
_PLAIN = (TrueCheck, FalseCheck, RoleCheck, GenericCheck)


@dataclass(frozen=True)
class Dependencies:
    """The attributes of an object that some rules depend on."""

    keys: tuple[str, ...] = ()
    whole: bool = False  # a check of another package: it may depend on any attribute
    negated: bool = False  # a `not` over attributes: what is allowed for the empty object may be refused for another

    @property
    def monotonic(self) -> bool:
        """Whether the rules allow for every object what they allow for the empty one."""
        return not self.whole and not self.negated


@dataclass(frozen=True)
class Visibility:
    """What one caller sees of one resource."""

    all_rows: bool  # objects of every project
    everything: bool  # and every attribute of them
    needs: tuple[str, ...]  # attributes that the decision about a row depends on
    never: frozenset[str]  # attributes that are hidden in every row
    sometimes: frozenset[str]  # attributes that are hidden in some rows
    hidden: Callable[[Row], frozenset[str] | None]  # the hidden attributes of a row; None if the row itself is hidden
    hidden_attributes: Callable[[Row], frozenset[str]]  # those of a row, even if the row itself is hidden


@dataclass(frozen=True)
class _Loaded:
    """The rules in force, and what was derived from them: replaced as a whole, so that no thread mixes two versions."""

    rule_set: RuleSet
    signature: Signature  # of the files
    dependencies: dict[tuple[str, ...], Dependencies] = field(default_factory=dict)
    decisions: dict[tuple[object, ...], bool] = field(default_factory=dict)
    visibilities: dict[tuple[object, ...], Visibility] = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        return self.rule_set.enforcer.rules


class Authorizer:
    def __init__(self, conf: cfg.ConfigOpts, extra: Defaults = NO_DEFAULTS) -> None:
        """`extra`: default rules of features and drivers."""
        opts.set_defaults(conf, enforce_new_defaults=True)  # registers the options too
        self._conf = conf
        self._defaults = Defaults(
            {**rules.DEFAULTS, **extra.rules},
            {**deprecated.CHECKS, **extra.deprecated},
            {**deprecated.NAMES, **extra.earlier_names},
        )
        self._roots: frozenset[str] = frozenset()
        self._loaded = self._load(files.find(conf))
        self._looked = time.monotonic()
        self._failed: dict[str, float] = {}  # rules whose evaluation has failed: when it was logged
        if self._loaded.rule_set.all_refused:
            raise files.PolicyFileError(self.faults)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong in the policy files."""
        return self._loaded.rule_set.faults

    def report(self) -> None:
        """Log what is wrong in the policy files."""
        for fault in self.faults:
            if fault.refuses:
                LOG.error("policy: access is refused: %s", fault)
            else:
                LOG.warning("policy: %s", fault)

    def _load(self, found: Files) -> _Loaded:
        # The signature is taken first: a change while the files are read makes them be read again.
        signature = found.signature
        built = build(self._conf, self._defaults, found, sorted(self._roots - set(found.roots)))
        self._roots |= set(found.roots)
        return _Loaded(built, signature)

    def _current(self) -> _Loaded:
        """The rules, reloaded if policy.yaml or a file of policy.d has changed, so that an edit needs no restart."""
        if time.monotonic() - self._looked > RELOAD_SECONDS:
            self._looked = time.monotonic()
            found = files.find(self._conf)
            if found.signature != self._loaded.signature:
                self._loaded = self._load(found)
                self.report()
        return self._loaded

    # --- single decisions -----------------------------------------------------------------------------------------

    def allows(self, context: Context, rule: str, target: Row) -> bool:
        """Whether the rule allows it. Decisions are cached by caller, rule and the attributes that the rule depends on."""
        loaded = self._current()
        # With the deprecated rules, administrators are not asked any, as in Neutron.
        if context.is_admin and not self._conf.oslo_policy.enforce_new_defaults:
            return not loaded.rule_set.is_broken(rule)
        if not context.is_of_project and rule in loaded.rule_set.for_projects:
            return False
        dependencies = self._depends(loaded, (rule,))
        if dependencies.whole:
            return self._evaluate(loaded, context.credentials, rule, _decoded(target))
        signature = (context.identity, rule, *map(target.get, dependencies.keys))
        try:
            if signature in loaded.decisions:
                return loaded.decisions[signature]
        except TypeError:  # the rule depends on a list, which is not hashable: not cached
            return self._evaluate(loaded, context.credentials, rule, target)
        decision = self._evaluate(loaded, context.credentials, rule, target)
        # A bound on memory. Emptied as a whole, because an LRU would cost every lookup.
        if len(loaded.decisions) > MAX_DECISIONS:
            loaded.decisions.clear()
        loaded.decisions[signature] = decision
        return decision

    def _evaluate(self, loaded: _Loaded, credentials: Values, rule: str, target: Row) -> bool:
        """A check that fails, because its server does not answer for example, is a refusal."""
        try:
            check = loaded.rules[rule]  # the default rule, if there is none of this name
        except KeyError:
            return False
        try:
            # Within an AndCheck: a check of another package may or may not take the rule's name.
            return bool(AndCheck([check])(target, dict(credentials), loaded.rule_set.enforcer, rule))
        except Exception:
            now = time.monotonic()
            if now - self._failed.get(rule, -LOG_SECONDS) >= LOG_SECONDS:  # a list evaluates it for every row
                self._failed[rule] = now
                LOG.exception("policy rule %s could not be evaluated: access is refused", rule)
            return False

    def holds(self, rule: str, credentials: Values) -> bool:
        """Whether a rule about the caller itself, such as `context_is_admin`, is true."""
        return self._evaluate(self._current(), credentials, rule, credentials)

    def has_rule(self, rule: str) -> bool:
        return rule in self._current().rules

    def require(self, context: Context, rule: str, target: Row) -> None:
        if not self.allows(context, rule, target):
            raise errors.PolicyNotAuthorized(rule=rule)

    def require_attributes(
        self, context: Context, action: str, resource: Resource, given: Iterable[str], target: Row
    ) -> None:
        """Refuse attributes that the caller may not set. Keys of a dictionary may have rules of their own."""
        for rule, seen in self._attribute_rules(action, resource, given, target):
            self.require(context, rule, seen)

    def allows_new(self, context: Context, rule: str, resource: Resource, given: Iterable[str], target: Row) -> bool:
        """Whether a create is allowed whatever the objects are that it is related to, which `target` lacks."""
        wanted = [(rule, target), *self._attribute_rules("create", resource, given, target)]
        loaded = self._current()
        return all(self._depends(loaded, (r,)).monotonic and self.allows(context, r, seen) for r, seen in wanted)

    def _attribute_rules(
        self, action: str, resource: Resource, given: Iterable[str], target: Row
    ) -> Iterator[tuple[str, Row]]:
        """The rules of the attributes that a request sets, each with the object as the rule sees it."""
        for name in given:
            attribute = resource.by_name[name]
            # A create that gives the default value sets nothing, as in Neutron.
            if not attribute.guarded or (action == "create" and target.get(name) == attribute.default):
                continue
            seen = {**target, SYNONYMS[name]: target.get(name)} if name in SYNONYMS else target
            for synonym in (name, SYNONYMS[name]) if name in SYNONYMS else (name,):
                for rule in self._with_parts(f"{action}_{resource.name}:{synonym}", target.get(name)):
                    yield rule, seen

    def rules_of_update(self, resource: Resource, values: Values) -> list[str]:
        """The rules of the attributes that an update sets."""
        return [rule for rule, _ in self._attribute_rules("update", resource, values, values)]

    def rules_of_body(self, action: str, body: object) -> list[str]:
        """The rules of what the body of an action names, which is not validated yet."""
        named = body.items() if isinstance(body, dict) else ()
        return [rule for name, value in named for rule in self._with_parts(f"{action}:{name}", value)]

    def needs(self, rules: Iterable[str]) -> tuple[str, ...] | None:
        """The attributes of an object that decisions by these rules depend on; None: any of them."""
        loaded = self._current()
        dependencies = _union(self._depends(loaded, (rule,)) for rule in rules)
        return None if dependencies.whole else dependencies.keys

    def _with_parts(self, rule: str, value: object) -> list[str]:
        """The rule of an attribute, and those of the keys of a dictionary, or of the dictionaries in a list."""
        items = value if isinstance(value, list) else [value]
        parts = {key for item in items if isinstance(item, dict) for key in item}
        return [name for name in (rule, *(f"{rule}:{part}" for part in parts)) if self.has_rule(name)]

    # --- lists ----------------------------------------------------------------------------------------------------

    def visibility(self, context: Context, resource: Resource, row_rule: str) -> Visibility:
        """What the caller sees of a resource; `row_rule` decides about a whole object."""
        loaded = self._current()
        # An empty list would say that there are no objects, which a client may take for their deletion.
        if loaded.rule_set.is_broken(row_rule):
            raise errors.PolicyNotAuthorized(rule=row_rule)
        key = (context.identity, resource.name, row_rule)
        found = loaded.visibilities.get(key)
        if found is None:
            if len(loaded.visibilities) > MAX_VISIBILITIES:
                loaded.visibilities.clear()
            found = loaded.visibilities[key] = self._new_visibility(loaded, context, resource, row_rule)
        return found

    def _new_visibility(self, loaded: _Loaded, context: Context, resource: Resource, row_rule: str) -> Visibility:
        every_row = self._allows_all(loaded, context, row_rule)
        # If the rule must be evaluated per row, an administrator's list reads all rows, that of others their own.
        per_row = context.is_admin and not self._depends(loaded, (row_rule,)).monotonic
        all_rows = every_row or per_row or context.has_global_access
        # The name of a nested resource may contain its parent's, as in the rules of whole objects.
        named = [(name, f"get_{of}:{name}") for of in (resource.name, resource.full_name) for name in resource.visible]
        guarded = {n: r for n, r in named if self.has_rule(r) and not self._allows_all(loaded, context, r)}
        if every_row and not guarded:
            return Visibility(
                True, True, (), frozenset(), frozenset(), lambda row: frozenset(), lambda row: frozenset()
            )
        dependencies = self._depends(loaded, (row_rule, *guarded.values()))
        needs = dependencies.keys
        if dependencies.whole:
            needs = tuple(dict.fromkeys([*needs, *resource.visible, *RELATED_ATTRIBUTES]))
        cache: dict[tuple[object, ...], frozenset[str] | None] = {}

        def attributes(target: Row) -> frozenset[str]:
            return frozenset(name for name, rule in guarded.items() if not self.allows(context, rule, target))

        def evaluate(target: Row) -> frozenset[str] | None:
            return attributes(target) if every_row or self.allows(context, row_rule, target) else None

        def hidden(row: Row) -> frozenset[str] | None:
            if dependencies.whole:
                return evaluate(row)
            signature = tuple(map(row.get, needs))
            try:
                return cache[signature]
            except TypeError:  # a rule depends on a list, which is not hashable: not cached
                return evaluate(row)
            except KeyError:
                if len(cache) > MAX_DECISIONS:
                    cache.clear()
                # Without None, which oslo.policy would compare as the text "None"; a missing attribute matches nothing.
                cache[signature] = evaluate({k: v for k, v in zip(needs, signature, strict=True) if v is not None})
                return cache[signature]

        def hidden_attributes(row: Row) -> frozenset[str]:
            found = hidden(row)
            return attributes({k: v for k, v in row.items() if v is not None}) if found is None else found

        # A rule that depends on no attribute decides the same for every row.
        never = frozenset(name for name, rule in guarded.items() if self._depends(loaded, (rule,)) == Dependencies())
        sometimes = frozenset(guarded) - never
        return Visibility(all_rows, False, needs, never, sometimes, hidden, hidden_attributes)

    def _allows_all(self, loaded: _Loaded, context: Context, rule: str) -> bool:
        """Whether the rule allows it for every possible object."""
        return self._depends(loaded, (rule,)).monotonic and self.allows(context, rule, {})

    def _depends(self, loaded: _Loaded, names: tuple[str, ...]) -> Dependencies:
        """What these rules depend on."""
        found = loaded.dependencies.get(names)
        if found is None:
            found = loaded.dependencies[names] = _union(_walk_rule(loaded.rules, rule, ()) for rule in names)
        return found


def _walk_rule(known: Rules, rule: str, within: tuple[str, ...]) -> Dependencies:
    """What a rule depends on; `within` are the rules that it is part of, so that a cycle ends."""
    if rule in within:
        return Dependencies()
    try:
        check = known[rule]  # the default rule, if there is none of this name
    except KeyError:
        return Dependencies()
    return _walk(known, check, (*within, rule))


def _walk(known: Rules, check: Any, within: tuple[str, ...]) -> Dependencies:
    kind = type(check)  # not isinstance: a subclass of another package may depend on anything
    if kind is FieldCheck:
        of_network = [f"network:{check.field}"] if check.resource == "networks" else []
        return Dependencies((check.field, *of_network))
    if kind in (AndCheck, OrCheck):
        return _union(_walk(known, inner, within) for inner in check.rules)
    if kind is NotCheck:
        inner = _walk(known, check.rule, within)
        return replace(inner, negated=inner.negated or bool(inner.keys) or inner.whole)
    if kind is RuleCheck:
        return _walk_rule(known, check.match, within)
    if kind in _PLAIN:
        return Dependencies(tuple(_PARAMETER.findall(getattr(check, "match", ""))))
    return Dependencies(whole=True)


def _union(parts: Iterable[Dependencies]) -> Dependencies:
    every = list(parts)
    keys = sorted({key for one in every for key in one.keys})
    return Dependencies(tuple(keys), any(one.whole for one in every), any(one.negated for one in every))


def _decoded(target: Row) -> Object:
    """The object with its JSON columns decoded, for a check that reads all of it."""
    return {name: msgspec.json.decode(v) if isinstance(v, msgspec.Raw) else v for name, v in target.items()}
