"""The policy rules of Neutron and its plugins, and what they decide: recorded in tests/data/neutron-policies.json.

Run as a program by a Python that has the packages of PACKAGES, it records them (standard library and these packages only):

    scripts/setup neutron && build/neutron/venv/bin/python tests/conformance/neutron_policies.py [--check]

With --check nothing is written, and the exit status is 1 if the file differs. Decisions are made by Neutron's own checks
(`neutron.policy`) in oslo.policy's enforcer, with and without the deprecated rules, for each caller and object below.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("neutron", "neutron-lib", "neutron-fwaas", "neutron-vpnaas", "neutron-dynamic-routing", "tap-as-a-service")
FILE = Path(__file__).parents[1] / "data" / "neutron-policies.json"
P1, P2 = "1" * 32, "2" * 32


def _caller(project: str, roles: str, service_roles: str = "", **scope: str) -> dict[str, Any]:
    return {"project_id": project, "roles": roles.split(), "service_roles": service_roles.split(), **scope}


# Roles as Keystone gives them, with the implied ones, and some alone.
CALLERS: dict[str, dict[str, Any]] = {
    "admin": _caller(P1, "admin manager member reader"),
    "admin alone": _caller(P2, "admin"),
    "manager": _caller(P1, "manager member reader"),
    "manager alone": _caller(P1, "manager"),
    "member": _caller(P1, "member reader"),
    "member alone": _caller(P1, "member"),
    "reader": _caller(P1, "reader"),
    "other role": _caller(P1, "creator"),
    "no role": _caller(P1, ""),
    "manager of another project": _caller(P2, "manager member reader"),
    "member of another project": _caller(P2, "member reader"),
    "reader of another project": _caller(P2, "reader"),
    "service": _caller(P2, "service"),
    "member by a service": _caller(P1, "member reader", "service"),
    "advsvc": _caller(P2, "advsvc"),
    "data plane integrator": _caller(P2, "data_plane_integrator"),
    "admin of a domain": _caller("", "admin manager member reader", domain_id="default"),
    "admin of the system": _caller("", "admin manager member reader", system_scope="all"),
}


def _object(project: str = P1, **other: Any) -> dict[str, Any]:
    network, parent = other.pop("network", project), other.pop("parent", project)
    shared = other.pop("shared", False)
    return {
        "project_id": project,
        "tenant_id": project,
        "network:project_id": network,
        "network:tenant_id": network,
        "security_group:project_id": parent,
        "security_group:tenant_id": parent,
        "ext_parent:project_id": parent,
        "ext_parent:tenant_id": parent,
        "shared": shared,
        "network:shared": shared,
        "router:external": False,
        "device_owner": "",
        "target_tenant": P2,
        "target_project": P2,
        "belongs_to_default_sg": False,
        **other,
    }


OBJECTS: dict[str, dict[str, Any]] = {
    "own": _object(),
    "of another project": _object("3" * 32),
    "on another project's network": _object(network=P2),
    "of another project, on the own network": _object("3" * 32, network=P1),
    "of another project, with an own parent": _object("3" * 32, parent=P1),
    "with a parent of another project": _object(parent=P2),
    "shared": _object("3" * 32, shared=True),
    "external": _object("3" * 32, **{"router:external": True}),
    "of an instance": _object(device_owner="compute:nova"),
    "of a bare metal node": _object(device_owner="baremetal:none"),
    "of a share": _object(device_owner="manila:share"),
    "of a network service, on another project's network": _object(network=P2, device_owner="network:dhcp"),
    "for all projects, by target_tenant": _object(target_tenant="*"),
    "for all projects, by target_project": _object(target_project="*"),
    "of a default security group": _object(belongs_to_default_sg=True),
}


def defaults() -> list[tuple[str, Any]]:
    """All rules with the names of their packages. A rule of neutron-lib's that Neutron has too is Neutron's."""
    from neutron_lib.policy import _engine

    _prepare()
    found = {}
    for point in sorted(metadata.entry_points(group="neutron.policies"), key=lambda each: each.name):
        found.update({rule.name: (point.name, rule) for rule in point.load()()})
    for rule in _engine.list_rules():
        found.setdefault(rule.name, ("neutron-lib", rule))
    return [found[name] for name in sorted(found)]


def _prepare() -> None:
    """As a server, before a rule is parsed: register Neutron's checks, and load the attributes that they convert."""
    from neutron import extensions, policy
    from neutron_lib.api import attributes, definitions

    assert policy.OwnerCheck
    for package in (definitions, extensions):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for collection, more in getattr(module, "RESOURCE_ATTRIBUTE_MAP", {}).items():
                attributes.RESOURCES.setdefault(collection, {}).update(more)


def decisions(rules: list[tuple[str, Any]], enforce_new_defaults: bool) -> dict[str, str]:
    """Of each rule: for each object a number, whose bits are the callers that are allowed."""
    from oslo_config import cfg
    from oslo_policy import opts, policy

    conf = cfg.ConfigOpts()
    conf([])
    opts.set_defaults(conf, enforce_new_defaults=enforce_new_defaults)
    enforcer = policy.Enforcer(conf, policy_file="none.yaml")
    enforcer.suppress_default_change_warnings = enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults([rule for _, rule in rules])

    def allowed(name: str, target: dict[str, Any], caller: dict[str, Any]) -> bool:
        # As neutron.policy.check: with the deprecated rules, administrators are not asked any.
        if not enforce_new_defaults and enforcer.enforce("context_is_admin", dict(caller), dict(caller)):
            return True
        return bool(enforcer.enforce(name, dict(target), dict(caller)))

    return {
        rule.name: " ".join(
            format(sum(allowed(rule.name, target, caller) << i for i, caller in enumerate(CALLERS.values())), "x")
            for target in OBJECTS.values()
        )
        for _, rule in rules
    }


def recording() -> dict[str, Any]:
    rules = defaults()
    new, old = decisions(rules, True), decisions(rules, False)
    tables = sorted({*new.values(), *old.values()})
    number = {table: i for i, table in enumerate(tables)}
    return {
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "callers": list(CALLERS),
        "objects": list(OBJECTS),
        "decisions": tables,
        "rules": {
            rule.name: {
                "package": package,
                "check": rule.check_str,
                "deprecated": [rule.deprecated_rule.name, rule.deprecated_rule.check_str]
                if rule.deprecated_rule
                else None,
                "scope": rule.scope_types,
                "operations": [f"{each['method']} {each['path']}" for each in getattr(rule, "operations", ())],
                "enforce_new_defaults": [number[new[rule.name]], number[old[rule.name]]],
            }
            for package, rule in rules
        },
    }


def encoded(recorded: dict[str, Any]) -> str:
    """One line for each rule and each table, so that a new release shows as a readable difference."""
    lines = ["{"]
    for key in ("packages", "callers", "objects"):
        lines.append(f"{json.dumps(key)}: {json.dumps(recorded[key])},")
    tables = ",\n".join(map(json.dumps, recorded["decisions"]))
    rules = ",\n".join(f"{json.dumps(name)}: {json.dumps(rule)}" for name, rule in recorded["rules"].items())
    return "\n".join([*lines, f'"decisions": [\n{tables}\n],', f'"rules": {{\n{rules}\n}}', "}\n"])


def main(arguments: list[str]) -> int:
    text = encoded(recording())
    if arguments == ["--check"]:
        return int(not FILE.exists() or FILE.read_text() != text)
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
