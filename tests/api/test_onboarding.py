"""Onboarding of existing subnets into subnet pools."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.races import before_next_transaction


def pool(api: Api, *prefixes: str, **values: Any) -> Object:
    return api.make("subnetpool", name="pool", prefixes=list(prefixes), **values)


def onboard(api: Api, pool_id: str, network_id: Any) -> Any:
    return api.put(f"/subnetpools/{pool_id}/onboard_network_subnets", {"network_id": network_id})


def in_subnets(api: Api, **values: Any) -> tuple[Object, list[Object]]:
    """A network with two IPv4 subnets and an IPv6 one."""
    network = api.network(**values)
    cidrs = ("10.90.0.0/24", "10.90.2.0/24", "fd00:90::/64")
    return network, [api.subnet(network, cidr, ip_version=6 if ":" in cidr else 4) for cidr in cidrs]


def test_subnets_of_one_version_move_into_the_pool(api: Api) -> None:
    network, (first, second, other) = in_subnets(api)
    made = pool(api, "10.192.0.0/16")
    answer = onboard(api, made["id"], network["id"]).expect(200).body
    both = [{"id": subnet["id"], "cidr": subnet["cidr"]} for subnet in (first, second)]
    assert sorted(answer, key=str) == sorted(both, key=str)
    shown = [api.show("subnet", subnet["id"]) for subnet in (first, second, other)]
    assert [subnet["subnetpool_id"] for subnet in shown] == [made["id"], made["id"], None]
    assert shown[0]["revision_number"] > first["revision_number"]
    assert api.show("subnetpool", made["id"])["prefixes"] == ["10.90.0.0/24", "10.90.2.0/24", "10.192.0.0/16"]
    # They are allocated: the next subnet of the pool is elsewhere.
    allocated = api.make("subnet", network_id=api.network()["id"], ip_version=4, subnetpool_id=made["id"], prefixlen=24)
    assert allocated["cidr"] == "10.192.0.0/24"
    api.delete(f"/subnetpools/{made['id']}").refused(400, "SubnetPoolDeleteError")


def test_a_network_without_subnets(api: Api) -> None:
    made = pool(api, "10.192.0.0/16")
    assert onboard(api, made["id"], api.network()["id"]).expect(200).body == []
    assert api.show("subnetpool", made["id"]) == {**made}


def test_the_network_joins_the_address_scope(api: Api) -> None:
    scope = api.make("address_scope", "address-scopes", name="scope", ip_version=4)
    network, subnets = in_subnets(api)
    first = pool(api, "10.192.0.0/16")
    onboard(api, first["id"], network["id"]).expect(200)
    assert api.show("network", network["id"])["ipv4_address_scope"] is None
    second = pool(api, "10.193.0.0/16", address_scope_id=scope["id"])
    onboard(api, second["id"], network["id"]).expect(200)  # from one pool to another
    assert {api.show("subnet", s["id"])["subnetpool_id"] for s in subnets[:2]} == {second["id"]}
    shown = api.show("network", network["id"])
    assert (shown["ipv4_address_scope"], shown["ipv6_address_scope"]) == (scope["id"], None)
    assert "10.90.0.0/24" in api.show("subnetpool", first["id"])["prefixes"]


@pytest.mark.every_database
def test_what_overlaps_is_refused(api: Api) -> None:
    network, _ = in_subnets(api)
    made = pool(api, "10.90.0.0/16")
    taken = api.make("subnet", network_id=api.network()["id"], ip_version=4, subnetpool_id=made["id"], prefixlen=24)
    assert taken["cidr"] == "10.90.0.0/24"
    onboard(api, made["id"], network["id"]).refused(400, "IllegalSubnetPoolUpdate")
    other = pool(api, "10.192.0.0/16")
    onboard(api, other["id"], network["id"]).expect(200)
    onboard(api, other["id"], network["id"]).refused(400, "IllegalSubnetPoolUpdate")  # they are there already
    scope = api.make("address_scope", "address-scopes", name="scope", ip_version=4)
    pool(api, "10.90.0.0/24", address_scope_id=scope["id"])
    last = pool(api, "10.194.0.0/16", address_scope_id=scope["id"])
    onboard(api, last["id"], network["id"]).refused(409, "AddressScopePrefixConflict")
    assert api.show("subnetpool", last["id"])["prefixes"] == ["10.194.0.0/16"]


def test_delegated_prefixes_are_not_onboarded(api: Api) -> None:
    network, modes = api.network(), {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    api.make("subnet", network_id=network["id"], ip_version=6, subnetpool_id="prefix_delegation", **modes)
    made = pool(api, "fd00:192::/48")
    onboard(api, made["id"], network["id"]).refused(400, "IllegalSubnetPoolUpdate")


def test_bodies_without_a_network(api: Api) -> None:
    made = pool(api, "10.192.0.0/16")
    path = f"/subnetpools/{made['id']}/onboard_network_subnets"
    for body in ({}, {"network_id": None}, {"network_id": ""}, []):
        api.put(path, body).refused(400, "InvalidInput")
    onboard(api, made["id"], "x").expect(400)
    onboard(api, made["id"], ["x"]).expect(400)
    onboard(api, made["id"], "00000000-0000-4000-8000-00000000dead").refused(404, "NetworkNotFound")
    onboard(api, "00000000-0000-4000-8000-00000000dead", api.network()["id"]).refused(404, "SubnetPoolNotFound")


def test_only_the_owners_of_pool_and_network(api: Api, admin: Api) -> None:
    """Neither another project's pool nor another project's network, also if it is shared with all."""
    owner = api.as_stranger()
    network, subnets = in_subnets(owner.as_admin(), shared=True)
    private, _ = in_subnets(owner)
    made = pool(api, "10.192.0.0/16")
    onboard(api, made["id"], network["id"]).refused(403, "NotAuthorized")
    onboard(api, made["id"], private["id"]).refused(404, "NetworkNotFound")
    theirs = pool(admin, "10.195.0.0/16", shared=True)
    onboard(owner, theirs["id"], network["id"]).refused(403, "PolicyNotAuthorized")
    assert owner.show("subnet", subnets[0]["id"])["subnetpool_id"] is None
    onboard(api.as_reader(), made["id"], api.network()["id"]).refused(403, "PolicyNotAuthorized")
    assert len(onboard(admin, made["id"], network["id"]).expect(200).body) == 2


@pytest.mark.every_database
def test_a_subnet_that_is_added_meanwhile_moves_too(server: Server, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network, subnets = in_subnets(api)
    made = pool(api, "10.192.0.0/16")
    late: list[Object] = []
    before_next_transaction(server, monkeypatch, lambda: late.append(api.subnet(network, "10.90.4.0/24")))
    answer = onboard(api, made["id"], network["id"]).expect(200).body
    assert {one["id"] for one in answer} == {subnets[0]["id"], subnets[1]["id"], late[0]["id"]}
    assert api.show("subnet", late[0]["id"])["subnetpool_id"] == made["id"]


@pytest.mark.every_database
def test_a_prefix_that_is_allocated_meanwhile(server: Server, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = in_subnets(api)
    made = pool(api, "10.90.0.0/16")
    wanted = {"network_id": api.network()["id"], "ip_version": 4, "subnetpool_id": made["id"], "cidr": "10.90.2.0/24"}
    before_next_transaction(server, monkeypatch, lambda: api.make("subnet", **wanted))
    onboard(api, made["id"], network["id"]).refused(400, "IllegalSubnetPoolUpdate")
