"""Network segment ranges: the configuration's and added ones, what they have, and which networks get their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import url_of
from tests.api.races import before_next_transaction

SETTINGS = {
    "ml2": {"project_network_types": "vlan,vxlan"},
    "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:104,physnet2"},
    "ml2_type_vxlan": {"vni_ranges": "1:20"},
}
PATH = "/network-segment-ranges"
Make = Callable[..., Server]


@pytest.fixture
def admin(another_server: Make) -> Api:
    return Api(another_server(SETTINGS).app).as_admin()


def post(admin: Api, **values: Any) -> Any:
    given = {"network_type": "vlan", "physical_network": "physnet1", "minimum": 200, "maximum": 202, **values}
    known = {name: value for name, value in given.items() if value is not None}
    return admin.post(PATH, {"network_segment_range": known})


def make(admin: Api, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = post(admin, **values).expect(201).body["network_segment_range"]
    return made


def show(admin: Api, key: str) -> dict[str, Any]:
    shown: dict[str, Any] = admin.get(f"{PATH}/{key}").expect(200).body["network_segment_range"]
    return shown


def ids(api: Api, count: int) -> list[int]:
    return sorted(
        api.as_admin().make("network", project_id=api.project)["provider:segmentation_id"] for _ in range(count)
    )


def ranges(admin: Api) -> list[tuple[Any, ...]]:
    columns = ("network_type", "physical_network", "minimum", "maximum", "default", "shared")
    return sorted(
        (
            tuple(one[name] for name in columns)
            for kind in ("vlan", "vxlan")
            for one in admin.all(PATH, {"network_type": kind})
        ),
        key=str,
    )


def test_the_ranges_of_the_configuration_are_shown(another_server: Make) -> None:
    server = another_server(SETTINGS)
    admin = Api(server.app).as_admin()
    expected = [
        ("vlan", "physnet1", 100, 104, True, True),
        ("vxlan", None, 1, 20, True, True),
    ]
    assert ranges(admin) == expected
    before = {one["id"] for one in admin.all(PATH)}
    again = Api(another_server(SETTINGS, url_of(server)).app).as_admin()
    assert {one["id"] for one in again.all(PATH)} == before
    changed = {**SETTINGS, "ml2_type_vxlan": {"vni_ranges": "1:30"}}
    other = Api(another_server(changed, url_of(server)).app).as_admin()
    assert ranges(other) == [expected[0], ("vxlan", None, 1, 30, True, True)]


def test_the_ranges_of_the_configuration_are_read_only(admin: Api) -> None:
    default = admin.all(PATH, {"network_type": "vxlan"})[0]
    path = f"{PATH}/{default['id']}"
    admin.put(path, {"network_segment_range": {"maximum": 30}}).refused(400, "NetworkSegmentRangeDefaultReadOnly")
    admin.delete(path).refused(400, "NetworkSegmentRangeDefaultReadOnly")


def test_a_range_from_creation_to_deletion(admin: Api) -> None:
    made = make(admin, name="r", description="d")
    assert (made["project_id"], made["shared"], made["default"]) == (None, True, False)
    assert (made["available"], made["used"], made["revision_number"]) == ([200, 201, 202], {}, 0)
    assert show(admin, made["id"]) == made
    path = f"{PATH}/{made['id']}"
    changed = admin.put(path, {"network_segment_range": {"maximum": 204, "name": "s"}}).expect(200).body
    shown = show(admin, made["id"])
    assert changed["network_segment_range"]["available"] == shown["available"] == [200, 201, 202, 203, 204]
    assert (shown["name"], shown["revision_number"]) == ("s", 1)
    admin.put(f"{path}/tags/blue").expect(201)
    assert [one["id"] for one in admin.all(PATH, {"tags": "blue"})] == [made["id"]]
    admin.delete(path).expect(204)
    admin.get(path).refused(404, "NetworkSegmentRangeNotFound")


def test_invalid_ranges_are_refused(admin: Api) -> None:
    post(admin, network_type="flat").refused(400, "HTTPBadRequest")
    post(admin, network_type=None).refused(400, "NetworkSegmentRangeNetTypeNotSupported")
    post(admin, physical_network=None).refused(400, "BadRequest")
    post(admin, minimum=None).refused(400, "HTTPBadRequest")
    post(admin, minimum=0).refused(400, "HTTPBadRequest")
    post(admin, minimum="x").refused(400, "InvalidInput")
    post(admin, minimum=203).refused(400, "NetworkVlanRangeError")
    post(admin, maximum=4095).refused(400, "NetworkVlanRangeError")
    post(admin, network_type="vxlan", maximum=2**24).refused(400, "NetworkTunnelRangeError")
    post(admin, default=True).refused(400, "HTTPBadRequest")
    admin.get(PATH, {"default": "true"}).refused(400, "HTTPBadRequest")


def test_a_type_that_is_not_configured_has_no_ranges(another_server: Make) -> None:
    settings = {"ml2": {"project_network_types": "vlan", "type_drivers": "flat,vlan"}}
    admin = Api(another_server(settings).app).as_admin()
    post(admin, network_type="vxlan").refused(400, "NetworkSegmentRangeNetTypeNotSupported")


@pytest.mark.every_database
def test_added_ranges_do_not_overlap(admin: Api) -> None:
    first, other = make(admin), make(admin, minimum=210, maximum=220)
    post(admin, minimum=202, maximum=205).refused(409, "NetworkSegmentRangeOverlaps")
    post(admin, minimum=100, maximum=300).refused(409, "NetworkSegmentRangeOverlaps")
    make(admin, physical_network="physnet2")
    make(admin, network_type="vxlan", physical_network=None)
    make(admin, minimum=100, maximum=102)  # the configuration's may
    path = f"{PATH}/{first['id']}"
    admin.put(path, {"network_segment_range": {"maximum": 215}}).refused(409, "NetworkSegmentRangeOverlaps")
    admin.put(path, {"network_segment_range": {"maximum": 199}}).refused(400, "NetworkVlanRangeError")
    admin.put(path, {"network_segment_range": {"maximum": 209}}).expect(200)
    assert show(admin, other["id"])["minimum"] == 210


def test_ranges_of_concurrent_requests_do_not_overlap(another_server: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server = another_server(SETTINGS)
    admin = Api(server.app).as_admin()
    # The first range of a physical network, another one, and a change: each is overtaken by a request of the same ids.
    before_next_transaction(server, monkeypatch, lambda: make(admin, minimum=200, maximum=202))
    post(admin, minimum=202, maximum=205).refused(409, "NetworkSegmentRangeOverlaps")
    before_next_transaction(server, monkeypatch, lambda: make(admin, minimum=300, maximum=302))
    post(admin, minimum=302, maximum=305).refused(409, "NetworkSegmentRangeOverlaps")
    (first, *_) = [one for one in admin.all(PATH) if one["minimum"] == 200]
    before_next_transaction(server, monkeypatch, lambda: make(admin, minimum=206, maximum=209))
    change = {"network_segment_range": {"maximum": 206}}
    admin.put(f"{PATH}/{first['id']}", change).refused(409, "NetworkSegmentRangeOverlaps")
    # One that does not overlap is made by the second attempt.
    before_next_transaction(server, monkeypatch, lambda: make(admin, minimum=400, maximum=402))
    assert make(admin, minimum=403, maximum=405)["minimum"] == 403
    added = sorted((one["minimum"], one["maximum"]) for one in admin.all(PATH) if not one["default"])
    assert added == [(200, 202), (206, 209), (300, 302), (400, 402), (403, 405)]


def test_members_see_and_make_no_ranges(admin: Api) -> None:
    member = admin.as_member(admin.project)
    made = make(admin)
    assert member.all(PATH) == []
    member.get(f"{PATH}/{made['id']}").refused(404, "NetworkSegmentRangeNotFound")
    post(member).refused(403, "PolicyNotAuthorized")
    member.delete(f"{PATH}/{made['id']}").refused(404, "NetworkSegmentRangeNotFound")


def test_a_used_range_is_kept(admin: Api) -> None:
    made = make(admin, minimum=200, maximum=209)
    path = f"{PATH}/{made['id']}"
    provider = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    network = admin.make("network", **provider, provider__segmentation_id=205)
    shown = show(admin, made["id"])
    assert shown["used"] == {"205": admin.project}
    assert shown["available"] == [200, 201, 202, 203, 204, 206, 207, 208, 209]
    admin.delete(path).refused(409, "NetworkSegmentRangeReferencedByProject")
    for values in ({"minimum": 206}, {"maximum": 204}):
        admin.put(path, {"network_segment_range": values}).refused(409, "NetworkSegmentRangeReferencedByProject")
    admin.put(path, {"network_segment_range": {"minimum": 205, "maximum": 205}}).expect(200)
    admin.delete(f"/networks/{network['id']}").expect(204)
    admin.delete(path).expect(204)


# --- which networks get their ids -------------------------------------------------------------------------------------


def test_shared_ranges_are_for_all_projects(admin: Api) -> None:
    member = admin.as_stranger()
    assert ids(member, 5) == [100, 101, 102, 103, 104]
    made = make(admin, minimum=200, maximum=201)
    assert ids(member, 1) + ids(admin.as_stranger(), 1) in ([200, 201], [201, 200])
    assert len(show(admin, made["id"])["used"]) == 2
    network = admin.make("network")  # no VLAN is left
    assert network["provider:network_type"] == "vxlan"


@pytest.mark.every_database
def test_a_projects_own_range_comes_first_and_is_its_alone(admin: Api) -> None:
    own, other = admin.as_stranger(), admin.as_stranger()
    make(admin, shared=False, project_id=own.project, minimum=300, maximum=301)
    make(admin, shared=False, project_id=own.project, minimum=103, maximum=104)
    assert ids(own, 4) == [103, 104, 300, 301]
    assert ids(other, 3) == [100, 101, 102]
    assert other.as_admin().make("network")["provider:network_type"] == "vxlan"


@pytest.mark.every_database
def test_a_project_whose_range_is_full_gets_shared_ids(admin: Api) -> None:
    own = admin.as_stranger()
    made = make(admin, shared=False, project_id=own.project, minimum=300, maximum=300)
    assert made["project_id"] == own.project
    first, second = (own.as_admin().make("network", project_id=own.project) for _ in range(2))
    assert first["provider:segmentation_id"] == 300
    assert 100 <= second["provider:segmentation_id"] <= 104


def test_a_range_makes_a_physical_network_usable(admin: Api) -> None:
    provider = {"provider:network_type": "vlan", "provider:physical_network": "new", "provider:segmentation_id": 7}
    admin.post("/networks", {"network": provider}).refused(400, "InvalidInput")
    made = make(admin, physical_network="new", minimum=7, maximum=9)
    network = admin.post("/networks", {"network": provider}).expect(201).body["network"]
    assert network["provider:segmentation_id"] == 7
    any_id = admin.make("network", provider__network_type="vlan", provider__physical_network="new")
    assert any_id["provider:segmentation_id"] in (8, 9)
    physnet2 = {"provider:network_type": "vlan", "provider:physical_network": "physnet2"}
    admin.post("/networks", {"network": physnet2}).refused(400, "InvalidInput")
    make(admin, physical_network="physnet2", minimum=1, maximum=1)
    assert admin.post("/networks", {"network": physnet2}).expect(201).body["network"]["provider:segmentation_id"] == 1
    assert set(show(admin, made["id"])["used"]) == {"7", str(any_id["provider:segmentation_id"])}


def test_tunnels_follow_added_ranges(admin: Api) -> None:
    own = admin.as_stranger()
    make(admin, network_type="vxlan", physical_network=None, shared=False, project_id=own.project, minimum=5, maximum=6)
    network = own.as_admin().make("network", project_id=own.project, provider__network_type="vxlan")
    assert network["provider:segmentation_id"] in (5, 6)
    others = {admin.make("network", provider__network_type="vxlan")["provider:segmentation_id"] for _ in range(18)}
    assert others == set(range(1, 21)) - {5, 6}
    admin.post("/networks", {"network": {"provider:network_type": "vxlan"}}).refused(409, "NoNetworkAvailable")


def test_without_the_plugin_the_configuration_counts(another_server: Make) -> None:
    server = another_server(SETTINGS)
    admin = Api(server.app).as_admin()
    make(admin, minimum=200, maximum=201)
    settings = {**SETTINGS, "DEFAULT": {"service_plugins": "router"}}
    plain = Api(another_server(settings, url_of(server)).app).as_admin()
    plain.get(PATH).expect(404)
    assert ids(plain.as_stranger(), 5) == [100, 101, 102, 103, 104]
    assert plain.make("network")["provider:network_type"] == "vxlan"


def test_a_large_range_shows_some_of_its_ids(admin: Api) -> None:
    made = make(admin, network_type="vxlan", physical_network=None, minimum=1000, maximum=2**24 - 1)
    assert len(made["available"]) == 100_000
    assert made["available"][:2] == [1000, 1001]
