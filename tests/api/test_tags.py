"""Tags: all verbs on every tagged resource, and filters by tags."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api


def make(api: Api, collection: str) -> dict[str, Any]:
    if collection == "networks":
        return api.network()
    if collection == "ports":
        return api.port(api.network())
    if collection == "subnets":
        return api.subnet(api.network())
    if collection == "subnetpools":
        return api.make("subnetpool", name="p", prefixes=["10.0.0.0/8"])
    return api.make("security_group", name="g")


@pytest.mark.parametrize("collection", ["networks", "ports", "subnets", "subnetpools", "security-groups"])
def test_verbs(api: Api, collection: str) -> None:
    one = make(api, collection)
    kind = collection.rstrip("s").replace("-", "_")
    path = f"/{collection}/{one['id']}/tags"
    assert api.get(path).expect(200).body == {"tags": []}
    assert sorted(api.put(path, {"tags": ["red", "blue"]}).expect(200).body["tags"]) == ["blue", "red"]
    api.put(f"{path}/green").expect(201)
    api.get(f"{path}/green").expect(204)
    api.get(f"{path}/Green").expect(404)
    api.delete(f"{path}/red").expect(204)
    api.delete(f"{path}/red").refused(404, "TagNotFound")
    assert sorted(api.show(kind, one["id"])["tags"]) == ["blue", "green"]
    api.post(path, {"tags": ["pink"]}).expect(201)
    assert [x["id"] for x in api.all(f"/{collection}", {"tags": "pink"})] == [one["id"]]
    api.delete(path).expect(204)
    assert api.show(kind, one["id"])["tags"] == []
    assert api.all(f"/{collection}", {"tags-any": "pink,blue"}) == []
    api.as_stranger().put(f"{path}/mine").expect(403)
    api.put(path, {"tags": ["x" * 256]}).expect(400)
    api.put(path, {"tags": [1]}).expect(400)


def test_filters(api: Api) -> None:
    by_name = {}
    for name, tags in (("a", ["red"]), ("b", ["red", "blue"]), ("c", ["green"]), ("d", [])):
        made = api.network(name=name)
        by_name[name] = made["id"]
        api.put(f"/networks/{made['id']}/tags", {"tags": tags}).expect(200)

    def names(query: dict[str, str]) -> set[str]:
        return {n["name"] for n in api.all("/networks", {**query, "project_id": api.project})}

    assert names({"tags": "red"}) == {"a", "b"}
    assert names({"tags": "red,blue"}) == {"b"}
    assert names({"tags-any": "blue,green"}) == {"b", "c"}
    assert names({"not-tags": "red,blue"}) == {"a", "c", "d"}
    assert names({"not-tags-any": "red,green"}) == {"d"}
    assert names({"tags": "red", "not-tags-any": "blue"}) == {"a"}
    assert names({"tags": "Red"}) == set()


def test_tags_go_with_their_object(api: Api) -> None:
    port = make(api, "ports")
    api.put(f"/ports/{port['id']}/tags", {"tags": ["red"]}).expect(200)
    api.delete(f"/ports/{port['id']}").expect(204)
    api.get(f"/ports/{port['id']}/tags").expect(404)
    assert api.all("/ports", {"tags": "red"}) == []
