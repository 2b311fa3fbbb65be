"""If-Match: a change is applied only to the revision that the client has seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api

MAKERS: list[tuple[str, str, dict[str, Any]]] = [
    ("network", "networks", {}),
    ("security_group", "security-groups", {"name": "g"}),
    ("subnetpool", "subnetpools", {"name": "p", "prefixes": ["10.0.0.0/8"]}),
    ("address_group", "address-groups", {"name": "a", "addresses": ["10.0.0.1/32"]}),
]


def at(revision: int) -> dict[str, str]:
    return {"If-Match": f"revision_number={revision}"}


def check(api: Api, kind: str, path: str, revision: int) -> None:
    stale = {"headers": at(revision + 7)}
    api.put(path, {kind: {"description": "x"}}, **stale).refused(412, "RevisionNumberConstraintFailed")
    api.delete(path, **stale).refused(412, "RevisionNumberConstraintFailed")
    changed = api.put(path, {kind: {"description": "x"}}, headers=at(revision)).expect(200).body[kind]
    assert changed["revision_number"] > revision
    api.put(path, {kind: {"description": "y"}}, headers=at(revision)).refused(412)
    assert api.get(path).body[kind]["description"] == "x"
    api.put(path, {kind: {"description": "z"}}, headers={"If-Match": '"etag"'}).expect(200)
    current = api.get(path).body[kind]["revision_number"]
    api.delete(path, headers=at(current)).expect(204)
    api.delete(path, headers=at(current)).expect(404)


@pytest.mark.parametrize(("kind", "collection", "values"), MAKERS)
def test_simple_objects(api: Api, kind: str, collection: str, values: dict[str, Any]) -> None:
    made = api.make(kind, collection, **values)
    check(api, kind, f"/{collection}/{made['id']}", made["revision_number"])


def test_subnets_and_ports(api: Api) -> None:
    network = api.network()
    subnet = api.subnet(network)
    check(api, "subnet", f"/subnets/{subnet['id']}", subnet["revision_number"])
    port = api.port(network)
    check(api, "port", f"/ports/{port['id']}", port["revision_number"])


def test_a_subnet_is_a_change_of_its_network(api: Api) -> None:
    network = api.network()
    api.subnet(network)
    body = {"network": {"name": "x"}}
    api.put(f"/networks/{network['id']}", body, headers=at(network["revision_number"])).refused(412)
