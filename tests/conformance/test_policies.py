"""The default policy rules against those of Neutron 29 and its plugins: names, and decisions for callers and objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import opts

from neutrino.server import features
from neutrino.server.context import Context, known
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.policy.rules import DEFAULTS, OF_ANY_TOKEN, SHARED
from tests.conformance.neutron_policies import CALLERS, FILE, OBJECTS

RECORDED = json.loads(FILE.read_text())
RULES: dict[str, dict[str, Any]] = RECORDED["rules"]

# Rules of Neutron's for what does not exist here.
NOT_HERE = {
    "create_router:evpn_vni": "EVPN of routers",
    "get_router:evpn_vni": "EVPN of routers",
    "update_subnet:leak_routes": "EVPN of routers",
    **{f"{verb}_network:pvlan": "private VLANs" for verb in ("create", "update", "get")},
    **{
        f"{verb}_port:{name}": "private VLANs"
        for verb in ("create", "update", "get")
        for name in ("pvlan_type", "pvlan_community")
    },
    **{f"{verb}_segments_tags": "segments have no tags" for verb in ("create", "get", "update", "delete")},
}

ALL = {*DEFAULTS, *features.policy_defaults().rules}  # of the core and all features

# Rules that Neutron does not have.
_FIREWALLS = ("firewall_group", "firewall_policy", "firewall_rule")
OURS = {
    "create_network:ha": "the attribute is an administrator's",
    "create_port:hardware_offload_type": "it writes binding:profile",
    "update_port_binding": "Neutron has the request, and falls back to its default rule",
    "update_security_group_rule": "rules have tags and a description that can be changed",
    "create_policy:shared": "as an RBAC policy for all projects",
    "update_policy:shared": "as an RBAC policy for all projects",
    **{f"{verb}_{name}:tags": "tags" for verb in ("create", "get", "update", "delete") for name in _FIREWALLS},
    "get_local_ip_port_association:host": "the host of a port is hidden from its owner",
    "get_status": "an API of ours",
    "create_trace": "an API of ours",
    "get_trace": "an API of ours",
    "get_change": "an API of ours",
    "get_rate": "an API of ours",
    "get_rate:host": "an API of ours",
    "get_router_placement": "an API of ours",
    **{f"get_router_placement:{name}": "an API of ours" for name in ("distributed", "ha", "hosts", "instances")},
}

# Rules that decide differently, with the reason.
DIFFERENT = {
    "create_subnet:service_types": "Neutron does not enforce its rule: members set service types, in its tests too",
    "update_subnet:service_types": "Neutron does not enforce its rule: members set service types, in its tests too",
    **dict.fromkeys(
        [f"{verb}_log" for verb in ("create", "get", "update", "delete")]
        + ["get_loggable_resource"]
        + [f"{verb}_metering_label{rule}" for verb in ("create", "get", "delete") for rule in ("", "_rule")],
        "logs and metering labels are the administrator's",
    ),
    "get_metering_label": "a label that counts the traffic of all routers is seen by all projects",
}


def authorizer(enforce_new_defaults: bool) -> Authorizer:
    conf = cfg.ConfigOpts()
    conf([])
    opts.set_defaults(conf)  # registers the options
    conf.set_override("enforce_new_defaults", enforce_new_defaults, "oslo_policy")
    conf.set_override("policy_file", "none.yaml", "oslo_policy")
    return Authorizer(conf, features.policy_defaults())


def context(subject: Authorizer, number: int, caller: dict[str, Any]) -> Context:
    """A caller as authentication makes it. Each has another user: decisions are cached by caller."""
    credentials = known({**caller, "user_id": str(number)})
    roles = frozenset(caller["roles"])
    others = tuple(map(str, caller.items()))
    is_admin = subject.holds("context_is_admin", credentials)
    return Context(caller["project_id"] or None, str(number), roles, others, is_admin=is_admin, credentials=credentials)


def test_the_recording_is_of_this_grid() -> None:
    assert RECORDED["callers"] == list(CALLERS)
    assert RECORDED["objects"] == list(OBJECTS)
    assert RECORDED["packages"]["neutron"].startswith("29.")


def test_names_of_rules() -> None:
    of_any_token = OF_ANY_TOKEN | {name for name in ALL if name.startswith(SHARED)}
    assert sorted(set(RULES) - ALL) == sorted(NOT_HERE)
    assert sorted(ALL - set(RULES)) == sorted(OURS)
    assert {name for name in RULES if name in ALL and RULES[name]["scope"] != ["project"]} <= of_any_token
    assert {name for name in of_any_token if RULES[name]["scope"]} == set()


@pytest.mark.parametrize("enforce_new_defaults", [True, False])
def test_decisions(enforce_new_defaults: bool) -> None:
    subject = authorizer(enforce_new_defaults)
    callers = {name: context(subject, i, caller) for i, (name, caller) in enumerate(CALLERS.items())}
    wrong: dict[str, list[str]] = {}
    for rule in sorted(set(RULES) & ALL):
        table = RECORDED["decisions"][RULES[rule]["enforce_new_defaults"][0 if enforce_new_defaults else 1]]
        for bits, (object_name, target) in zip(table.split(), OBJECTS.items(), strict=True):
            for i, (name, caller) in enumerate(callers.items()):
                allowed = bool(int(bits, 16) >> i & 1)
                if subject.allows(caller, rule, target) != allowed:
                    wrong.setdefault(rule, []).append(
                        f"{name}, object {object_name}: Neutron {'allows' if allowed else 'refuses'} it"
                    )
    assert {rule: texts for rule, texts in wrong.items() if rule not in DIFFERENT} == {}
    if enforce_new_defaults:
        assert sorted(wrong) == sorted(DIFFERENT), "no rule is listed as different without being so"
