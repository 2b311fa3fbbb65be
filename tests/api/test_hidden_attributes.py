"""Lists filtered or sorted by attributes that the caller may not see do not disclose their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import l3_agent
from tests.support.resources import RESOURCES


def ids(api: Api, path: str, *query: tuple[str, Any]) -> list[str]:
    found = api.get(path, list(query)).expect(200).body
    (collection,) = [name for name in found if not name.endswith("_links")]
    return [one["id"] for one in found[collection]]


def hidden_and_filtered() -> list[tuple[str, str]]:
    """Every attribute that lists are filtered by and that members may not see."""
    from neutrino.server import features
    from neutrino.server.policy.rules import DEFAULTS

    rules = {**DEFAULTS, **features.policy_defaults().rules}
    admins = {"rule:admin_only", "(rule:admin_only) or (rule:service_api)"}
    return [
        (resource.url, attribute.name)
        for resource in RESOURCES
        for attribute in resource.attributes
        if attribute.filter and rules.get(f"get_{resource.name}:{attribute.name}") in admins
    ]


def test_the_table_is_complete() -> None:
    assert sorted(hidden_and_filtered()) == sorted(VALUES)


VALUES: dict[tuple[str, str], Any] = {
    ("networks", "provider:network_type"): "vlan",
    ("networks", "provider:physical_network"): "physnet1",
    ("networks", "provider:segmentation_id"): None,
    ("ports", "binding:host_id"): "h1",
    ("subnets", "segment_id"): None,
    ("router-placements", "distributed"): None,
    ("router-placements", "ha"): None,
    ("router-placements", "hosts"): "h1",
}


def make(admin: Api, server: Server, path: str) -> dict[str, Any]:
    if path == "router-placements":
        l3_agent(server, "h1")
        network = admin.network(router__external=True)
        admin.make("subnet", network_id=network["id"], ip_version=4, cidr="203.0.113.0/24")
        router = admin.make("router", external_gateway_info={"network_id": network["id"]})
        return admin.get(f"/router-placements/{router['id']}").expect(200).body["router_placement"]
    network = admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    if path == "ports":
        return admin.port(network, binding__host_id="h1")
    if path == "subnets":
        (segment,) = admin.all("/segments", {"network_id": network["id"]})
        return admin.make(
            "subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", segment_id=segment["id"]
        )
    return network


@pytest.mark.parametrize(("path", "name"), VALUES)
def test_a_filter_by_a_hidden_attribute_matches_nothing(
    api: Api, admin: Api, server: Server, path: str, name: str
) -> None:
    made = make(admin, server, path)
    value = made[name] if VALUES[path, name] is None else VALUES[path, name]
    assert made["id"] in ids(api, f"/{path}")
    assert made["id"] in ids(admin, f"/{path}", (name, value))
    # The same answer, whether the guess is right or wrong, and with pages.
    for page in ((), (("limit", 1),), (("limit", 1), ("page_reverse", "True"))):
        for guess in (value, "7" if name.endswith("_id") else "true"):
            answer = api.get(f"/{path}", [(name, guess), *page]).expect(200).body
            assert answer[path.replace("-", "_")] == []
            assert made["id"] not in json.dumps(answer)


def with_rules(another_server: Callable[..., Server], tmp_path: Path, **rules: str) -> Api:
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps({f"get_network:{name}": rule for name, rule in rules.items()}))
    return Api(another_server({"oslo_policy": {"policy_file": str(path)}}).app)


def test_an_order_by_a_hidden_attribute_is_none(another_server: Callable[..., Server], tmp_path: Path) -> None:
    api = with_rules(another_server, tmp_path, description="rule:admin_only")
    networks = [api.network(description=text)["id"] for text in ("c", "a", "b")]
    by_id = sorted(networks)
    for direction in ("asc", "desc"):
        order = [("sort_key", "description"), ("sort_dir", direction)]
        assert ids(api, "/networks", *order, ("limit", 5)) == by_id
        assert ids(api, "/networks", *order, ("limit", 5), ("marker", by_id[0])) == by_id[1:]
    assert ids(api.as_admin(), "/networks", ("sort_key", "description")) == [networks[i] for i in (1, 2, 0)]
    assert ids(api, "/networks", ("description", "a")) == []


def test_a_filter_by_what_is_hidden_in_some_rows(another_server: Callable[..., Server], tmp_path: Path) -> None:
    """An attribute that its owner alone sees: a filter finds the caller's own rows, in full pages."""
    api = with_rules(another_server, tmp_path, description="rule:admin_or_owner", tags="rule:admin_or_owner")
    owner, admin = api.as_stranger(), api.as_admin()
    own, others = [], []
    for _ in range(6):
        others.append(owner.network(description="x")["id"])
        owner.put(f"/networks/{others[-1]}/tags/t").expect(201)
        admin.change("network", others[-1], shared=True)
        own.append(api.network(description="x")["id"])
        api.put(f"/networks/{own[-1]}/tags/t").expect(201)
    own.sort()
    for name, value in (("description", "x"), ("tags", "t"), ("tags-any", "t"), ("not-tags", "none")):
        assert sorted(ids(api, "/networks", (name, value))) == own
        seen, marker = [], []
        while page := ids(api, "/networks", (name, value), ("limit", 2), *marker):
            assert len(page) == 2
            seen += page
            marker = [("marker", page[-1])]
        assert seen == own
        back = [("page_reverse", "True"), ("marker", own[4])]
        assert ids(api, "/networks", (name, value), ("limit", 2), *back) == own[2:4]
        answer = api.get("/networks", [(name, value), ("limit", 100)]).body
        assert not any(other in json.dumps(answer) for other in others)
    assert set(others) <= set(ids(api, "/networks"))
    assert set(ids(admin, "/networks", ("description", "x"))) == {*own, *others}
