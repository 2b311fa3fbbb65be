"""The OpenAPI document is valid, complete, and matches the responses of the server."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from schemathesis.specs.openapi import definitions

from neutrino.server.api import resources
from neutrino.server.api.catalog import Served
from neutrino.server.api.openapi import answered, document
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.test_bad_input import send

Json = dict[str, Any]


@pytest.fixture(scope="module")
def database() -> str:
    """The document is the same whatever the database."""
    return "sqlite"


@pytest.fixture(scope="module")
def spec(server: Server) -> Json:
    answer = send(server, "GET", "/openapi.json")
    assert answer.status == 200
    body: Json = answer.body
    return body


def operations(spec: Json) -> dict[tuple[str, str], Json]:
    verbs = ("get", "post", "put", "delete")
    return {(v.upper(), path): item[v] for path, item in spec["paths"].items() for v in verbs if v in item}


def resolved(spec: Json, schema: Json) -> Json:
    return {**schema, "components": spec["components"]}


def check(spec: Json, method: str, path: str, status: str, value: Any) -> None:
    """The response matches its documented schema and has no undocumented attribute."""
    response = spec["paths"][path][method.lower()]["responses"][status]
    if "$ref" in response:
        response = spec["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(resolved(spec, schema), format_checker=jsonschema.FormatChecker())
    problems = [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(value)]
    assert not problems


def test_it_is_valid(spec: Json) -> None:
    assert spec["openapi"] == "3.1.0"
    errors = list(jsonschema.Draft202012Validator(definitions.OPENAPI_31).iter_errors(spec))
    assert not errors
    for schema in spec["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere(spec: Json) -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [v for k, v in value.items() if k == "$ref"] + [r for v in value.values() for r in references(v)]
        return [r for v in value for r in references(v)] if isinstance(value, list) else []

    for reference in set(references(spec)):
        found: Any = spec
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_every_path_names_its_parts_and_every_operation_is_told_apart(spec: Json) -> None:
    for path, item in spec["paths"].items():
        names = [p["name"] for p in item.get("parameters", [])]
        assert [f"{{{n}}}" for n in names] == [part for part in path.split("/") if part.startswith("{")]
    ids = [operation["operationId"] for operation in operations(spec).values()]
    assert len(set(ids)) == len(ids)


def test_every_kind_of_path_is_there(spec: Json) -> None:
    expected = {
        ("GET", "/"),
        ("GET", PREFIX),
        ("GET", f"{PREFIX}/extensions/{{alias}}"),
        ("GET", f"{PREFIX}/quotas/{{project_id}}/details"),
        ("PUT", f"{PREFIX}/quotas/{{project_id}}"),
        ("GET", f"{PREFIX}/agents/{{agent_id}}/dhcp-networks"),
        ("DELETE", f"{PREFIX}/agents/{{agent_id}}/dhcp-networks/{{network_id}}"),
        ("GET", f"{PREFIX}/networks/{{network_id}}/dhcp-agents"),
        ("POST", f"{PREFIX}/ports/{{port_id}}/bindings"),
        ("PUT", f"{PREFIX}/ports/{{port_id}}/bindings/{{host}}/activate"),
        ("PUT", f"{PREFIX}/address-groups/{{address_group_id}}/add_addresses"),
        ("PUT", f"{PREFIX}/security-groups/{{security_group_id}}/tags/{{tag}}"),
        ("GET", f"{PREFIX}/network-ip-availabilities/{{network_id}}"),
    }
    for resource in resources.CORE:
        expected |= {("GET", f"{PREFIX}/{resource.url}"), ("POST", f"{PREFIX}/{resource.url}")}
        member = f"{PREFIX}/{resource.url}/{{{resource.name}_id}}"
        expected |= {(verb, member) for verb in ("GET", "PUT", "DELETE")}
    assert expected <= operations(spec).keys()


def test_a_plugins_own_route_is_there_too() -> None:
    def handler(_: Any) -> Any:
        raise NotImplementedError

    served = [Served(NETWORK, index=handler)]
    made = document(served, [Route("GET", f"{PREFIX}/weather/{{key}}", handler)], [{"alias": "weather"}])
    assert list(made["paths"][f"{PREFIX}/weather/{{weather_id}}"]) == ["parameters", "get"]


def test_what_a_request_may_say(spec: Json) -> None:
    create = spec["components"]["schemas"]["NetworkCreate"]
    assert create["additionalProperties"] is False
    assert "id" not in create["properties"]
    assert create["properties"]["tenant_id"]["deprecated"]
    assert create["properties"]["admin_state_up"] == {"type": "boolean", "default": True}
    port = spec["components"]["schemas"]["PortCreate"]
    assert port["required"] == ["network_id"]
    assert "network_id" not in spec["components"]["schemas"]["PortUpdate"]["properties"]
    body = operations(spec)["POST", f"{PREFIX}/networks"]["requestBody"]["content"]["application/json"]["schema"]
    assert [one["required"] for one in body["oneOf"]] == [["network"], ["networks"]]


def test_what_a_list_can_be_asked(spec: Json) -> None:
    given = operations(spec)["GET", f"{PREFIX}/networks"]["parameters"]
    names = {p.get("name") or p["$ref"].rpartition("/")[2] for p in given}
    paging = {"limit", "marker", "page_reverse", "sort_key", "sort_dir", "fields", "changed_since"}
    assert paging | {"id", "name", "project_id", "tenant_id", "tags", "not-tags-any", "mtu", "shared"} <= names
    assert "subnets" not in names
    change = operations(spec)["PUT", f"{PREFIX}/networks/{{network_id}}"]
    assert change["parameters"] == [{"$ref": "#/components/parameters/if_match"}]


def test_every_refusal_is_described(spec: Json) -> None:
    for (method, _), operation in operations(spec).items():
        expected = {"400", "403", "404"} | (set() if method == "GET" else {"409", "412", "413", "415"})
        assert expected <= operation["responses"].keys()
    assert spec["security"] == [{"token": []}]
    assert operations(spec)["GET", "/"]["security"] == []


def test_null_in_answers() -> None:
    array = {"type": "array", "items": {}}
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert answered({"anyOf": [array, {"type": "null"}]}) == array
    assert answered(text) == text


def test_answers_are_as_described(spec: Json, admin: Api) -> None:
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    segments = [{"provider:network_type": "vxlan"}, {"provider:network_type": "local"}]
    admin.network(segments=segments)
    admin.subnet(network)
    admin.subnet(network, "2001:db8::/64", gateway_ip=None)
    admin.port(network)
    admin.make("subnetpool", name="pool", prefixes=["10.0.0.0/8"])
    admin.make("address_scope", ip_version=4)
    admin.make("address_group", addresses=["10.0.0.0/24"])
    group = admin.make("security_group")
    admin.make("security_group_rule", security_group_id=group["id"], direction="ingress")
    shared = {"object_type": "network", "object_id": network["id"], "target_tenant": "*"}
    admin.make("rbac_policy", action="access_as_shared", **shared)
    admin.put(f"/quotas/{admin.project}", {"quota": {"network": 5}}).expect(200)
    lists = [path for (verb, path) in operations(spec) if verb == "GET" and path.startswith(PREFIX) and "{" not in path]
    for path in lists:
        check(spec, "GET", path, "200", admin.get(path).expect(200).body)
    for path, key in (("networks/{network_id}", network["id"]), ("security-groups/{security_group_id}", group["id"])):
        found = admin.get(f"/{path.partition('/')[0]}/{key}").expect(200).body
        check(spec, "GET", f"{PREFIX}/{path}", "200", found)
    check(spec, "GET", f"{PREFIX}/networks/{{network_id}}", "404", admin.get("/networks/none").expect(404).body)
    both = admin.post("/networks", {"networks": [{}, {}]}).expect(201).body
    check(spec, "POST", f"{PREFIX}/networks", "201", both)
