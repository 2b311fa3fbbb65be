"""Segments: their life, the network that shows them, subnets of segments, and routes between these subnets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.segments import SETTINGS, VLANS, provider, routed_network, segments_of
from tests.support.databases import prepared_database

DEAD = "00000000-0000-0000-0000-00000000dead"
HOSTS = itertools.count()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory), SETTINGS)
    yield made
    made.close()


def vlan_segment(admin: Api, network_id: str, **values: Any) -> dict[str, Any]:
    given = {"network_type": "vlan", "physical_network": "rack2", "segmentation_id": next(VLANS), **values}
    return admin.make("segment", network_id=network_id, **given)


def subnet(admin: Api, network_id: str, cidr: str, **values: Any) -> dict[str, Any]:
    return admin.make("subnet", network_id=network_id, ip_version=4, cidr=cidr, enable_dhcp=False, **values)


# --- segments ---------------------------------------------------------------------------------------------------------


def test_a_network_has_its_segment(admin: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    (segment,) = segments_of(admin, network["id"])
    assert segment == admin.get(f"/segments/{segment['id']}").expect(200).body["segment"]
    assert segment["segmentation_id"] == network["provider:segmentation_id"]
    assert (segment["name"], segment["description"], segment["revision_number"]) == (None, None, 1)
    assert segment["created_at"] == network["created_at"]


def test_a_segment_from_creation_to_deletion(admin: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    made = vlan_segment(admin, network["id"], name="second")
    shown = admin.get(f"/networks/{network['id']}").body["network"]
    assert [one["provider:segmentation_id"] for one in shown["segments"]] == [
        network["provider:segmentation_id"],
        made["segmentation_id"],
    ]
    assert "provider:segmentation_id" not in shown
    assert shown["revision_number"] == network["revision_number"]
    changed = admin.change("segment", made["id"], name="other", description="d")
    assert (changed["name"], changed["description"], changed["revision_number"]) == ("other", "d", 2)
    admin.put(f"/segments/{made['id']}", {"segment": {"name": "x"}}, headers={"If-Match": "revision_number=1"}).expect(
        412
    )
    admin.put(f"/segments/{made['id']}", {"segment": {"segmentation_id": 7}}).refused(400, "HTTPBadRequest")
    admin.delete(f"/segments/{made['id']}").expect(204)
    admin.get(f"/segments/{made['id']}").refused(404, "SegmentNotFound")
    again = admin.get(f"/networks/{network['id']}").body["network"]
    assert again["provider:segmentation_id"] == network["provider:segmentation_id"]
    assert "segments" not in again


def test_a_network_may_lose_all_its_segments(admin: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    (segment,) = segments_of(admin, network["id"])
    admin.delete(f"/segments/{segment['id']}").expect(204)
    shown = admin.get(f"/networks/{network['id']}").body["network"]
    assert shown["provider:network_type"] is None
    vlan_segment(admin, network["id"], segmentation_id=segment["segmentation_id"], physical_network="rack1")
    admin.change("network", network["id"], name="renamed")
    admin.delete(f"/networks/{network['id']}").expect(204)


@pytest.mark.every_database
def test_a_segmentation_id_is_chosen_if_none_is_given(admin: Api) -> None:
    network = admin.make("network")
    made = admin.make("segment", network_id=network["id"], network_type="vlan", physical_network="physnet1")
    assert 100 <= made["segmentation_id"] <= 199
    tunnel = admin.make("segment", network_id=network["id"], network_type="vxlan")
    assert tunnel["physical_network"] is None
    assert 1 <= tunnel["segmentation_id"] <= 16000


def test_invalid_segments_are_refused(admin: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    given = {"network_id": network["id"], "network_type": "vlan", "physical_network": "rack1", "segmentation_id": 5}

    def post(**values: Any) -> Any:
        return admin.post("/segments", {"segment": {**given, **values}})

    post(segmentation_id=network["provider:segmentation_id"]).refused(409, "VlanIdInUse")
    post(network_id=DEAD).refused(404, "NetworkNotFound")
    post(network_type="bogus").refused(400, "InvalidInput")
    post(physical_network="nowhere").refused(400, "InvalidInput")
    post(segmentation_id=5000).refused(400, "InvalidInput")
    post(segmentation_id="x").refused(400, "InvalidInput")
    post(unknown=1).refused(400, "HTTPBadRequest")
    admin.post("/segments", {"segment": {"network_type": "vlan"}}).refused(400, "HTTPBadRequest")


def test_members_see_and_make_no_segments(api: Api, admin: Api) -> None:
    network = api.make("network")
    (segment,) = segments_of(admin, network["id"])
    assert api.all("/segments") == []
    api.get(f"/segments/{segment['id']}").refused(404, "SegmentNotFound")
    api.post("/segments", {"segment": {"network_id": network["id"], "network_type": "vxlan"}}).refused(403)
    api.put(f"/segments/{segment['id']}", {"segment": {"name": "x"}}).refused(404, "SegmentNotFound")
    api.delete(f"/segments/{segment['id']}").refused(404, "SegmentNotFound")


@pytest.mark.every_database
def test_segments_are_filtered_and_sorted(admin: Api) -> None:
    routed = routed_network(admin)
    by_name = admin.all("/segments", {"network_id": routed.id, "name": "rack2"})
    assert [one["id"] for one in by_name] == [routed.segments[1]["id"]]
    by_physical = admin.all("/segments", {"network_id": routed.id, "physical_network": "rack1"})
    assert [one["id"] for one in by_physical] == [routed.segments[0]["id"]]
    query = {"network_id": routed.id, "sort_key": "segmentation_id", "sort_dir": "desc"}
    assert [one["segmentation_id"] for one in admin.all("/segments", query)] == sorted(
        (one["segmentation_id"] for one in routed.segments), reverse=True
    )


def test_a_used_segment_is_not_deleted(server: Server, admin: Api) -> None:
    host = f"host-{next(HOSTS)}"
    switch(server, host, bridge_mappings={"rack2": "br-2"})
    network = admin.make("network", **provider("rack1", next(VLANS)))
    segment = vlan_segment(admin, network["id"])
    port = admin.make("port", network_id=network["id"], binding__host_id=host)
    assert port["binding:vif_type"] == "ovs"
    admin.delete(f"/segments/{segment['id']}").refused(409, "SegmentInUse")
    admin.delete(f"/ports/{port['id']}").expect(204)
    made = subnet(admin, network["id"], "10.0.0.0/24", segment_id=segment["id"])
    admin.delete(f"/segments/{segment['id']}").refused(409, "SegmentInUse")
    admin.delete(f"/subnets/{made['id']}").expect(204)
    admin.delete(f"/segments/{segment['id']}").expect(204)


@pytest.mark.every_database
def test_segments_made_at_once_are_all_shown(admin: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: vlan_segment(admin, network["id"]), range(4)))
    shown = admin.get(f"/networks/{network['id']}").body["network"]["segments"]
    expected = {network["provider:segmentation_id"], *(one["segmentation_id"] for one in made)}
    assert {one["provider:segmentation_id"] for one in shown} == expected


def test_a_renamed_network_keeps_segments_that_were_added(admin: Api) -> None:
    routed = routed_network(admin)
    changed = admin.change("network", routed.id, name="renamed")
    assert len(changed["segments"]) == 2
    assert len(admin.get(f"/networks/{routed.id}").body["network"]["segments"]) == 2


# --- subnets of segments ----------------------------------------------------------------------------------------------


def test_a_network_with_subnets_of_segments_is_routed(admin: Api) -> None:
    routed = routed_network(admin)
    assert routed.network["l2_adjacency"] is True
    assert admin.get(f"/networks/{routed.id}").body["network"]["l2_adjacency"] is False
    assert [one["segment_id"] for one in routed.subnets] == [one["id"] for one in routed.segments]
    found = admin.all("/subnets", {"segment_id": routed.segments[1]["id"]})
    assert [one["id"] for one in found] == [routed.subnets[1]["id"]]


def test_invalid_segments_of_subnets_are_refused(admin: Api, api: Api) -> None:
    routed, plain = routed_network(admin), admin.make("network")
    given = {"network_id": plain["id"], "ip_version": 4, "cidr": "10.9.0.0/24"}

    def post(caller: Api = admin, **values: Any) -> Any:
        return caller.post("/subnets", {"subnet": {**given, **values}})

    post(segment_id=DEAD).refused(404, "SegmentNotFound")
    post(segment_id="x").refused(400, "HTTPBadRequest")
    post(segment_id=routed.segments[0]["id"]).refused(400, "NetworkIdsDontMatch")
    post(network_id=routed.id).refused(400, "SubnetsNotAllAssociatedWithSegments")
    (own,) = segments_of(admin, plain["id"])
    post(api, segment_id=own["id"]).refused(403, "PolicyNotAuthorized")
    subnet(admin, plain["id"], "10.8.0.0/24")
    post(segment_id=own["id"]).refused(400, "SubnetsNotAllAssociatedWithSegments")


def test_the_segment_of_a_subnet_can_be_set_later(admin: Api, api: Api) -> None:
    network = admin.make("network", **provider("rack1", next(VLANS)))
    made = subnet(admin, network["id"], "10.0.0.0/24")
    (segment,) = segments_of(admin, network["id"])
    api.put(f"/subnets/{made['id']}", {"subnet": {"segment_id": segment["id"]}}).refused(403, "PolicyNotAuthorized")
    second = vlan_segment(admin, network["id"])
    refused = admin.put(f"/subnets/{made['id']}", {"subnet": {"segment_id": segment["id"]}})
    refused.refused(400, "NoUpdateSubnetWhenMultipleSegmentsOnNetwork")
    admin.delete(f"/segments/{second['id']}").expect(204)
    assert admin.change("subnet", made["id"], segment_id=segment["id"])["segment_id"] == segment["id"]
    assert admin.change("subnet", made["id"], segment_id=segment["id"])["segment_id"] == segment["id"]
    for other in (None, second["id"]):
        refused = admin.put(f"/subnets/{made['id']}", {"subnet": {"segment_id": other}})
        refused.refused(400, "SubnetSegmentAssociationChangeNotAllowed")
    plain = admin.make("network")
    first = subnet(admin, plain["id"], "10.0.0.0/24")
    subnet(admin, plain["id"], "10.1.0.0/24")
    (own,) = segments_of(admin, plain["id"])
    admin.put(f"/subnets/{first['id']}", {"subnet": {"segment_id": own["id"]}}).refused(
        400, "SubnetsNotAllAssociatedWithSegments"
    )


def test_members_do_not_see_the_segment_of_a_subnet(api: Api, admin: Api) -> None:
    routed = routed_network(admin)
    assert "segment_id" not in api.get(f"/subnets/{routed.subnets[0]['id']}").body["subnet"]
    assert api.all("/subnets", {"segment_id": routed.segments[0]["id"]}) == []


# --- routes to the subnets of other segments --------------------------------------------------------------------------


def routes(admin: Api, key: str) -> list[tuple[str, str]]:
    shown = admin.get(f"/subnets/{key}").body["subnet"]["host_routes"]
    return sorted((route["destination"], route["nexthop"]) for route in shown)


def test_subnets_have_routes_to_those_of_other_segments(admin: Api) -> None:
    routed = routed_network(admin)
    first, second = (one["id"] for one in routed.subnets)
    assert routes(admin, first) == [("10.2.0.0/24", "10.1.0.1")]
    assert routes(admin, second) == [("10.1.0.0/24", "10.2.0.1")]
    # A second subnet of the first segment: it has a route to the other segment alone.
    third = subnet(admin, routed.id, "10.3.0.0/24", segment_id=routed.segments[0]["id"])
    assert [route["destination"] for route in third["host_routes"]] == ["10.2.0.0/24"]
    assert routes(admin, first) == [("10.2.0.0/24", "10.1.0.1")]
    assert routes(admin, second) == [("10.1.0.0/24", "10.2.0.1"), ("10.3.0.0/24", "10.2.0.1")]
    admin.delete(f"/subnets/{third['id']}").expect(204)
    assert routes(admin, second) == [("10.1.0.0/24", "10.2.0.1")]


def test_routes_follow_the_gateway(admin: Api) -> None:
    routed = routed_network(admin)
    key = routed.subnets[0]["id"]
    pools = [{"start": "10.1.0.2", "end": "10.1.0.253"}]
    admin.change("subnet", key, gateway_ip="10.1.0.254", allocation_pools=pools)
    assert routes(admin, key) == [("10.2.0.0/24", "10.1.0.254")]
    admin.change("subnet", key, gateway_ip=None)
    assert routes(admin, key) == []


def test_a_route_of_the_operator_is_kept(admin: Api) -> None:
    routed = routed_network(admin)
    key = routed.subnets[0]["id"]
    wide = [{"destination": "10.0.0.0/8", "nexthop": "10.1.0.9"}]
    assert admin.change("subnet", key, host_routes=wide)["host_routes"] == wide
    changed = admin.change("subnet", key, host_routes=[{"destination": "192.0.2.0/24", "nexthop": "10.1.0.9"}])
    assert [route["destination"] for route in changed["host_routes"]] == ["192.0.2.0/24", "10.2.0.0/24"]
