"""Each networking resource type of the Terraform provider: after a request, what is shown is what was asked for.

Otherwise Terraform plans a change again and again. The requests are those of the provider, without the program itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from tests.conformance.server import LiveServer
from tests.conformance.terraform import FUNCTIONS, MANAGED, V2, Managed, Provider


def shown_as(values: Object, found: Object) -> Object:
    """The attributes of `found` that `values` has, a dictionary within it likewise."""
    picked: Object = {}
    for name, value in values.items():
        actual: Any = found[name]
        if isinstance(value, dict) and value and isinstance(actual, dict):
            actual = shown_as(value, actual)
        picked[name] = actual
    return picked


def expected(kind: Managed, values: Object) -> Object:
    """What the server shows of them. A removed gateway is null."""
    texts = {name: str(values[name]) for name in kind.texts}
    return {name: None if value == {} else value for name, value in values.items()} | texts


@pytest.mark.parametrize("name", sorted(MANAGED))
def test_an_object_is_created_updated_found_and_deleted(server: LiveServer, name: str) -> None:
    kind = MANAGED[name]
    with Provider(server).having(*kind.needs) as provider:
        made = provider.create(kind)
        key = str(made["id"])
        wanted = expected(kind, provider.filled(kind.create))
        assert shown_as(wanted, provider.show(kind, key)) == wanted
        if kind.tagged:
            check_tags(server, kind, key)
        if kind.update is not None:
            provider.update(kind, key, kind.update)
            wanted = expected(kind, {**wanted, **provider.filled(kind.update)})
            assert shown_as(wanted, provider.show(kind, key)) == wanted
        if "name" in wanted:  # as a data source finds it
            listed = server.ask("GET", f"{V2}/{provider.filled(kind.path)}?name={wanted['name']}")
            assert [each["id"] for each in next(iter(listed.values()))] == [key]
        provider.delete(kind, key)


def check_tags(server: LiveServer, kind: Managed, key: str) -> None:
    path = f"{V2}/{kind.path.removeprefix('qos/')}/{key}"
    server.ask("PUT", f"{path}/tags", {"tags": ["blue", "green"]})
    assert sorted(server.ask("GET", f"{path}/tags")["tags"]) == ["blue", "green"]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_part_of_an_object_is_managed(server: LiveServer, name: str) -> None:
    FUNCTIONS[name](Provider(server))
