"""What every feature of the list has by its declaration: aliases, policy rules, quotas, history, kinds and problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from neutrino.model.kinds import KINDS
from neutrino.server import features
from neutrino.server.api.definition import Resource
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.features import Feature
from neutrino.server.main import Server
from neutrino.server.policy.rules import DEFAULTS, SHARED
from tests.api.client import Api
from tests.api.conftest import start

FEATURES = features.installed()
# The rule of a verb. `index` has none of its own: `show` decides about each row.
RULES = {"show": "get", "create": "create", "update": "update", "delete": "delete"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("features")
    made = start(directory, f"sqlite:///{directory}/neutrino.sqlite")
    yield made
    made.close()


@pytest.fixture(params=FEATURES, ids=lambda feature: str(feature.name))
def feature(request: pytest.FixtureRequest) -> Feature:
    found: Feature = request.param
    return found


def resources(server: Server, feature: Feature) -> list[Resource]:
    return [served[0] for served in server.service_plugins[feature.name].collections]


def test_it_is_enabled_and_its_aliases_are_listed(server: Server, feature: Feature) -> None:
    listed = {one["alias"] for one in Api(server.app).get("/extensions").body["extensions"]}
    assert {extension.alias for extension in feature.extensions} <= listed


def test_no_rule_allows_anything_to_a_caller_without_a_role(server: Server, feature: Feature) -> None:
    """Of an object of the caller's own project, whose parent, network and security group are the project's too."""
    related = ("network:project_id", "security_group:project_id", "ext_parent:project_id")
    target = dict.fromkeys(("project_id", "tenant_id", *related), "mine")
    without_role = Context("mine", "user", frozenset(), is_admin=False, credentials={"project_id": "mine", "roles": []})
    roles = ("admin", "member", "reader")  # an administrator has the others too, as roles that the first one implies
    with_role = replace(without_role, roles=frozenset(roles), credentials={"project_id": "mine", "roles": list(roles)})
    rules = [rule for rule in feature.policy if not rule.startswith(SHARED)]
    assert [rule for rule in rules if server.authorizer.allows(without_role, rule, target)] == []
    assert [rule for rule in rules if not server.authorizer.allows(with_role, rule, target)] == []


def test_every_verb_of_its_resources_has_a_policy_rule(server: Server, feature: Feature) -> None:
    known = {**DEFAULTS, **feature.policy}
    missing = [
        rule
        for resource in resources(server, feature)
        for verb in sorted(resource.verbs & RULES.keys())
        if (rule := f"{RULES[verb]}_{_policy_name(resource)}") not in known
    ]
    assert missing == []


def _policy_name(resource: Resource) -> str:
    return f"{resource.parent.name}_{resource.name}" if resource.parent is not None else resource.name


def test_an_unknown_object_is_not_found_by_the_error_of_its_resource(server: Server, feature: Feature) -> None:
    admin = Api(server.app).as_admin()
    for resource in resources(server, feature):
        if resource.parent is None and "show" in resource.verbs:
            answer = admin.get(f"/{resource.url}/5c0fd3b1-0000-0000-0000-000000000000")
            answer.refused(404, resource.not_found.__name__)


def test_its_quotas_are_limits_of_projects(server: Server, feature: Feature) -> None:
    admin = Api(server.app).as_admin()
    limits = admin.get("/quotas/somebody").expect(200).body["quota"]
    assert {name: limits[name] for name in feature.quotas} == feature.quotas
    used = admin.get("/quotas/somebody/details.json").expect(200).body["quota"]
    assert {used[name]["used"] for name in feature.quotas} <= {0}


def test_its_kinds_are_known_to_hosts_and_their_changes_are_logged(feature: Feature) -> None:
    logged = {history.kind for history in t.histories().values() if history.feed}
    for served in feature.feed.kinds:
        assert KINDS[served.name] == served.kind
        assert served.source in logged, served.name


def test_it_adds_fields_that_the_objects_have(feature: Feature) -> None:
    types = {kind.source: kind.kind.type for kind in features.sources().kinds if kind.takes_additions}
    for part in feature.feed.parts:
        assert part.defaults.keys() <= set(types[part.of].__struct_fields__)
    assert {one.of for one in (*feature.feed.inner, *feature.feed.placed)} <= types.keys()


def test_networks_and_ports_have_its_attributes(server: Server, feature: Feature) -> None:
    served = {one[0].name: one[0] for one in server.core.collections}
    for name, added in (("network", feature.network_attributes), ("port", feature.port_attributes)):
        assert {attribute.name for one in added for attribute in one.definitions} <= served[name].by_name.keys()
    read = server.core.ports.view.fields.keys()
    assert {name for one in feature.port_attributes for name in one.columns} <= read
    assert {name for one in feature.port_attributes for needs in one.needs.values() for name in needs} <= read


def test_rbac_policies_share_its_objects(server: Server, feature: Feature) -> None:
    admin = Api(server.app).as_admin()
    for shared in feature.shared:
        values = {"object_type": shared.kind, "object_id": "5c0fd3b1-0000-0000-0000-000000000000", "target_tenant": "a"}
        for action in shared.users():
            body = {"rbac_policy": values | {"action": action}}
            admin.post("/rbac-policies", body).refused(400, "InvalidInput")
        body = {"rbac_policy": values | {"action": "access_as_owner"}}
        admin.post("/rbac-policies", body).refused(400, "InvalidActionForType")
