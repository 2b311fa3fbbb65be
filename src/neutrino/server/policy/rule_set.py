"""All policy rules in force: the defaults, changed by the policy files and the options; and what is wrong with them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from oslo_config import cfg
from oslo_policy import policy

from neutrino.model.objects import Object, Values
from neutrino.server.policy.checks import NEVER
from neutrino.server.policy.files import (
    DEFAULT_FILE,
    Fault,
    Files,
    Override,
    leaves_of,
    parse,
    read,
    unknown_credential,
)
from neutrino.server.policy.rules import OF_ANY_TOKEN, SHARED

# What rules may compare of a caller (server/api/authentication.py).
CREDENTIALS = frozenset(
    ("project_id", "tenant_id", "user_id", "roles", "service_roles", "domain_id", "user_domain_id")
) | {"project_domain_id", "system_scope", "user_name", "project_name"}
OPTION = "[oslo_policy] policy_default_rule"
_default_check = cache(parse)  # several hundred default rules have a few dozen different texts


@dataclass(frozen=True)
class RuleSet:
    enforcer: policy.Enforcer  # has the rules, for checks that refer to others
    faults: tuple[Fault, ...] = ()
    broken: frozenset[str] = frozenset()  # rules that refuse everyone because of a fault
    all_refused: bool = False  # a file could not be read
    for_projects: frozenset[str] = frozenset()  # rules that allow nothing to tokens of a domain or of the system

    @property
    def rules(self) -> Values:
        return self.enforcer.rules

    def is_broken(self, rule: str) -> bool:
        return self.all_refused or rule in self.broken


@dataclass(frozen=True)
class Defaults:
    """Default rules, of the core or of features."""

    rules: Mapping[str, str] = field(default_factory=dict)
    deprecated: Mapping[str, str] = field(default_factory=dict)  # Neutron's deprecated checks, by rule
    # Earlier names by rule. An override by the earlier name applies if there is none by the other.
    earlier_names: Mapping[str, str] = field(default_factory=dict)


def build(conf: cfg.ConfigOpts, all_defaults: Defaults, files: Files, removed: Iterable[str] = ()) -> RuleSet:
    """`removed`: files and directories that existed before. Without them, access may be allowed that they refuse."""
    defaults = all_defaults.rules
    overrides, faults = read(files.paths)
    text = "it has been removed: restart the server to use the default rules, or create it again, empty"
    faults += [Fault(path, "", text, refuses=True) for path in removed]
    if faults:
        everything = dict.fromkeys(defaults, NEVER)
        return RuleSet(_enforcer(conf, everything, NEVER), tuple(faults), frozenset(), True)
    checks, broken = _parsed(conf, all_defaults, overrides, faults)
    default = conf.oslo_policy.policy_default_rule
    references = {name: _resolved(checks, check, default) for name, check in checks.items()}
    for rule in sorted(_on_cycles(references)):
        broken.add(rule)
        faults.append(Fault(_path(overrides, rule), rule, "it refers to itself", refuses=True))
    while more := {rule for rule in checks.keys() - broken if references[rule] & broken}:
        broken |= more
    checks.update(dict.fromkeys(broken, NEVER))
    faults += _without_effect(conf, all_defaults, overrides, checks, files)
    # An override may be meant for such tokens, and says so by domain_id or system_scope.
    owned = {name for name in defaults if name not in OF_ANY_TOKEN and not name.startswith(SHARED)}
    for_projects = frozenset(owned - overrides.keys())
    return RuleSet(_enforcer(conf, checks, default), tuple(faults), frozenset(broken), False, for_projects)


def _enforcer(conf: cfg.ConfigOpts, checks: Object, default_rule: str | None) -> policy.Enforcer:
    enforcer = policy.Enforcer(conf, default_rule=default_rule, use_conf=False)
    enforcer.set_rules(checks)
    return enforcer


def _parsed(
    conf: cfg.ConfigOpts, defaults: Defaults, overrides: Mapping[str, Override], faults: list[Fault]
) -> tuple[Object, set[str]]:
    checks: Object = {}
    broken: set[str] = set()
    for name, override in overrides.items():
        try:
            checks[name] = parse(override.value)
        except ValueError as error:
            faults.append(Fault(override.path, name, str(error), refuses=True))
            broken.add(name)
            checks[name] = NEVER
    for name in defaults.rules.keys() - overrides.keys():
        earlier = defaults.earlier_names.get(name, "")
        if earlier in overrides and overrides[earlier].value != f"rule:{name}":
            checks[name] = checks[earlier]
            if earlier in broken:
                broken.add(name)
            continue
        text = defaults.rules[name]
        if not conf.oslo_policy.enforce_new_defaults and name in defaults.deprecated:
            text = f"({text}) or ({defaults.deprecated[name]})"
        checks[name] = _default_check(text)
    return checks, broken


def _references(check: object) -> set[str]:
    return {each.match for each in leaves_of(check) if isinstance(each, policy.RuleCheck)}


def _resolved(checks: Values, check: object, default: str) -> set[str]:
    """The rules that are evaluated for a check: the default rule for one that does not exist."""
    return {name if name in checks else default for name in _references(check)} & checks.keys()


def _on_cycles(references: Mapping[str, set[str]]) -> set[str]:
    """The rules that refer to themselves, through others or directly."""
    # Rules without references are removed until only cycles, and what refers to them, are left; the same backwards.
    for _ in range(2):
        while ends := {name for name, others in references.items() if not others}:
            references = {name: others - ends for name, others in references.items() if name not in ends}
        references = {name: {other for other in references if name in references[other]} for name in references}
    return set(references)


def _without_effect(
    conf: cfg.ConfigOpts,
    defaults: Defaults,
    overrides: Mapping[str, Override],
    checks: Values,
    files: Files,
) -> list[Fault]:
    """Parts of the files that do nothing, or not what they say."""
    out = []
    referred = {other for name in checks for other in _references(checks[name])}
    known = defaults.rules.keys() | set(defaults.earlier_names.values()) | referred
    default = conf.oslo_policy.policy_default_rule
    for name, override in overrides.items():
        if name not in known and name != default:
            out.append(Fault(override.path, name, "there is no such rule, and no rule refers to it: it has no effect"))
        for other in sorted(_references(checks[name]) - checks.keys()):
            text = f"there is no rule {other!r}: the default rule ({default}) is used for it"
            out.append(Fault(override.path, name, text))
        for leaf in leaves_of(checks[name]):
            if (credential := unknown_credential(leaf, CREDENTIALS)) is not None:
                out.append(Fault(override.path, name, f"no caller has {credential!r}: {str(leaf)!r} is never true"))
    if default not in checks:
        out.append(Fault(OPTION, "", f"there is no rule {default!r}: what has no rule is refused"))
    file = conf.oslo_policy.policy_file
    if file != DEFAULT_FILE and not conf.find_file(file):
        out.append(Fault(file, "", "[oslo_policy] policy_file does not exist: the default rules apply"))
    return out


def _path(overrides: Mapping[str, Override], rule: str) -> str:
    if rule in overrides:
        return overrides[rule].path
    return ", ".join(sorted({override.path for override in overrides.values()}))
