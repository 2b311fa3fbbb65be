"""Lists: pages through ties and nulls, order by several keys, fields, and filters of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api

OLD = "2001-02-03T04:05:06Z"


def pages(api: Api, path: str, query: dict[str, Any], rel: str = "next") -> Iterator[list[dict[str, Any]]]:
    """Every page, by following the links; the number of pages is bounded."""
    collection = path.strip("/").replace("-", "_")
    answer = api.get(path, query).expect(200).body
    for _ in range(200):
        if not answer[collection]:
            return
        yield answer[collection]
        links = {link["rel"]: link["href"] for link in answer.get(f"{collection}_links", [])}
        if rel not in links:
            return
        answer = api.get(links[rel]).expect(200).body
    raise AssertionError("the pages do not end")


@pytest.fixture
def ports(api: Api) -> tuple[Api, list[dict[str, Any]]]:
    """Twenty-three ports whose names repeat, on a network without addresses."""
    network = api.network()
    bodies = [
        {"network_id": network["id"], "name": f"n{i % 3}", "device_id": f"d{i % 2}", "admin_state_up": i % 4 != 0}
        for i in range(23)
    ]
    return api, api.post("/ports", {"ports": bodies}).expect(201).body["ports"]


def expected(rows: list[dict[str, Any]], *keys: tuple[str, bool]) -> list[str]:
    """The ids in order: by each key in its direction (descending if true), null first, then by id."""
    out = sorted(rows, key=lambda row: row["id"])
    for name, descending in reversed(keys):
        out.sort(key=lambda row: (row[name] is not None, row[name]), reverse=descending)
        if descending:  # a stable sort in reverse keeps ties in their order
            continue
    return [row["id"] for row in out]


@pytest.mark.parametrize("limit", [1, 4, 23, 50])
def test_pages_with_ties(ports: tuple[Api, list[dict[str, Any]]], limit: int) -> None:
    api, made = ports
    query = {"sort_key": "name", "sort_dir": "asc", "limit": limit}
    found = [row["id"] for page in pages(api, "/ports", query) for row in page]
    assert found == expected(made, ("name", False))


@pytest.mark.parametrize("directions", list(itertools.product([False, True], repeat=2)))
def test_pages_by_several_keys(ports: tuple[Api, list[dict[str, Any]]], directions: tuple[bool, bool]) -> None:
    api, made = ports
    words = ["desc" if d else "asc" for d in directions]
    query = {"sort_key": ["admin_state_up", "name"], "sort_dir": words, "limit": 5}
    found = [row["id"] for page in pages(api, "/ports", query) for row in page]
    keys = list(zip(["admin_state_up", "name"], directions, strict=True))
    by_id = {row["id"]: row for row in made}
    assert sorted(found) == sorted(by_id)
    assert [(by_id[i]["admin_state_up"], by_id[i]["name"]) for i in found] == [
        (by_id[i]["admin_state_up"], by_id[i]["name"]) for i in expected(made, *keys)
    ]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_through_nulls(api: Api, direction: str) -> None:
    network = api.network()
    for i in range(9):
        api.subnet(network, f"10.0.{i}.0/24", gateway_ip=None if i % 2 else f"10.0.{i}.1")
    query = {"sort_key": "gateway_ip", "sort_dir": direction, "limit": 2}
    found = [row for page in pages(api, "/subnets", query) for row in page]
    assert len({row["id"] for row in found}) == len(found) == 9
    nulls = [row["gateway_ip"] is None for row in found]
    assert nulls == sorted(nulls, reverse=direction == "asc")
    gateways = [row["gateway_ip"] for row in found if row["gateway_ip"]]
    assert gateways == sorted(gateways, reverse=direction == "desc")


@pytest.mark.parametrize("key", ["shared", "mtu", "admin_state_up", "created_at", "revision_number", "description"])
def test_every_kind_of_key_can_be_paged_by(api: Api, admin: Api, key: str) -> None:
    made = {(admin if i % 2 else api).network(**({"shared": True} if i % 2 else {}))["id"] for i in range(5)}
    query = {"sort_key": key, "sort_dir": "asc", "limit": 2, "project_id": api.project}
    found = [row for page in pages(api, "/networks", query) for row in page]
    assert {row["id"] for row in found} == made
    assert len(found) == 5
    assert [row[key] for row in found] == sorted(row[key] for row in found)


def test_pages_backwards(ports: tuple[Api, list[dict[str, Any]]]) -> None:
    api, made = ports
    order = expected(made, ("name", False))
    query = {"sort_key": "name", "limit": 5, "page_reverse": "True", "marker": order[-1]}
    back = list(pages(api, "/ports", query, rel="previous"))
    assert [row["id"] for page in reversed(back) for row in page] == order[:-1]
    last = api.all("/ports", {"sort_key": "name", "limit": 5, "page_reverse": "True"})
    assert [row["id"] for row in last] == order[-5:]


def test_from_the_empty_page_behind_the_last_one_it_goes_back(ports: tuple[Api, list[dict[str, Any]]]) -> None:
    api, made = ports
    order = expected(made, ("name", False))
    for marker, reverse, way, end in (
        (order[-1], "False", "previous", order[-2:]),
        (order[0], "True", "next", order[:2]),
    ):
        query = {"sort_key": "name", "limit": 2, "marker": marker, "page_reverse": reverse}
        answer = api.get("/ports", query).expect(200).body
        assert answer["ports"] == []
        (link,) = answer["ports_links"]
        assert link["rel"] == way
        back = api.get(link["href"].partition("/v2.0")[2]).expect(200).body["ports"]
        assert [row["id"] for row in back] == end


def test_a_marker_must_be_visible(ports: tuple[Api, list[dict[str, Any]]]) -> None:
    api, made = ports
    api.as_stranger().get("/ports", {"limit": 2, "marker": made[0]["id"]}).refused(404, "PortNotFound")
    api.get("/ports", {"limit": -1}).expect(400)
    api.get("/ports", {"sort_key": "name", "sort_dir": "sideways"}).expect(400)
    api.get("/ports", {"sort_key": "fixed_ips"}).expect(400)
    assert len(api.all("/ports", {"limit": 0})) == 23


def test_a_server_may_bound_pages(another_server: Any) -> None:
    api = Api(another_server({"DEFAULT": {"pagination_max_limit": "2"}}).app)
    made = {api.network()["id"] for _ in range(5)}
    found = [row["id"] for page in pages(api, "/networks", {}) for row in page]
    assert set(found) == made
    assert len(found) == 5
    assert len(api.all("/networks", {"limit": 4})) == 2


def test_fields(api: Api, admin: Api) -> None:
    network = api.network(name="a")
    own = {"project_id": api.project}
    assert api.all("/networks", {**own, "fields": ["id", "name"]}) == [{"id": network["id"], "name": "a"}]
    assert api.all("/networks", {**own, "fields": "name", "limit": 5}) == [{"name": "a"}]
    shown = api.get(f"/networks/{network['id']}", {"fields": ["mtu", "tenant_id"]}).expect(200).body["network"]
    assert shown == {"mtu": 1450, "tenant_id": api.project}
    hidden = api.get(f"/networks/{network['id']}", {"fields": ["id", "provider:network_type"]}).expect(200).body
    assert hidden["network"] == {"id": network["id"]}
    seen = admin.get(f"/networks/{network['id']}", {"fields": ["provider:network_type"]}).expect(200).body
    assert seen["network"] == {"provider:network_type": "vxlan"}


def test_filters_by_value_list_and_truth(ports: tuple[Api, list[dict[str, Any]]]) -> None:
    api, made = ports

    def ids(**query: Any) -> set[str]:
        return {row["id"] for row in api.all("/ports", query)}

    assert ids(name="n1") == {p["id"] for p in made if p["name"] == "n1"}
    assert ids(name=["n1", "n2"]) == {p["id"] for p in made if p["name"] != "n0"}
    assert ids(admin_state_up="false") == {p["id"] for p in made if not p["admin_state_up"]}
    assert ids(admin_state_up="True", device_id="d0") == {
        p["id"] for p in made if p["admin_state_up"] and p["device_id"] == "d0"
    }
    assert ids(id=[made[0]["id"], made[5]["id"]]) == {made[0]["id"], made[5]["id"]}
    assert ids(mac_address=made[3]["mac_address"]) == {made[3]["id"]}
    assert ids(name="") == set()
    assert ids(tenant_id=api.project, status="DOWN") == {p["id"] for p in made}
    api.get("/ports", {"colour": "red"}).expect(400)


def test_filters_by_number(api: Api) -> None:
    network = api.network()
    four, six = api.subnet(network, "10.0.0.0/24"), api.subnet(network, "fd00::/64")
    assert [s["id"] for s in api.all("/subnets", {"ip_version": 4})] == [four["id"]]
    assert [s["id"] for s in api.all("/subnets", {"ip_version": 6})] == [six["id"]]
    assert {s["id"] for s in api.all("/subnets", {"ip_version": [4, 6]})} == {four["id"], six["id"]}
    api.get("/subnets", {"ip_version": "four"}).expect(400)


def test_filters_are_exact_about_case_and_wildcards(api: Api) -> None:
    for name in ("Blue", "blue", "bl_e", "ünïcode ☃"):
        api.network(name=name)
    for name in ("Blue", "blue", "bl_e", "ünïcode ☃"):
        assert [n["name"] for n in api.all("/networks", {"name": name})] == [name]
    assert api.all("/networks", {"name": "bl%"}) == []


def test_values_of_one_form_are_found_however_they_are_written(api: Api, admin: Api) -> None:
    """UUIDs, MACs, addresses, words of a closed list; on every database, and page by page."""
    network = api.network()
    subnet = api.subnet(network, "fd00:ab::/64", gateway_ip="fd00:ab::1")
    ports = [api.port(network, mac_address=f"fa:16:3e:ab:cd:0{i}") for i in range(3)]
    first = ports[0]

    def ids(collection: str, **filters: Any) -> list[str]:
        return [row["id"] for row in api.all(f"/{collection}", filters)]

    assert ids("networks", id=network["id"].upper()) == [network["id"]]
    assert sorted(ids("ports", network_id=network["id"].upper())) == sorted(port["id"] for port in ports)
    for mac in ("FA:16:3E:AB:CD:00", "fa-16-3e-ab-cd-00"):
        assert ids("ports", mac_address=mac) == [first["id"]]
    assert len(ids("ports", status="down")) == len(ids("ports", status="DOWN")) == 3
    group = first["security_groups"][0]
    assert len(ids("ports", security_groups=group.upper())) == 3
    assert ids("subnets", cidr="FD00:00AB::/64") == ids("subnets", gateway_ip="FD00:AB:0::1") == [subnet["id"]]
    assert ids("subnets", cidr="fd00:ab::5/64") == [], "an address in the subnet is not the subnet"
    address = first["fixed_ips"][0]["ip_address"]
    assert ids("ports", fixed_ips=f"ip_address={address.upper()}") == [first["id"]]
    assert len(ids("ports", fixed_ips=f"subnet_id={subnet['id'].upper()}")) == 3
    assert len(ids("security-group-rules", ethertype="ipv6")) == 2
    assert [n["id"] for n in admin.all("/networks", {"provider:network_type": "VXLAN", "id": network["id"]})]
    page = api.get("/ports", {"status": "Down", "limit": 2, "sort_key": "mac_address"}).expect(200).body
    more = api.get(page["ports_links"][0]["href"]).expect(200).body
    assert [p["id"] for p in page["ports"] + more["ports"]] == [p["id"] for p in ports]
    for collection, name in (("networks", "id"), ("ports", "mac_address"), ("ports", "status"), ("subnets", "cidr")):
        assert ids(collection, **{name: "no such thing"}) == []


def test_free_text_is_found_as_it_is_written(api: Api) -> None:
    network = api.network()
    api.port(network, name="Web", device_id="Abc", device_owner="compute:Nova", description="Mine")
    api.put(f"/networks/{network['id']}/tags", {"tags": ["Red"]}).expect(200)
    free = {"name": "Web", "device_id": "Abc", "device_owner": "compute:Nova", "description": "Mine"}
    for name, value in free.items():
        assert len(api.all("/ports", {name: value})) == 1
        assert api.all("/ports", {name: value.lower()}) == []
    assert (len(api.all("/networks", {"tags": "Red"})), api.all("/networks", {"tags": "red"})) == (1, [])


def test_addresses_are_found_whole_and_in_part(api: Api) -> None:
    network = api.network()
    subnet = api.subnet(network, "10.20.0.0/16")
    one = api.port(network, fixed_ips=[{"ip_address": "10.20.30.40"}])
    two = api.port(network, fixed_ips=[{"ip_address": "10.20.33.4"}, {"ip_address": "10.20.0.9"}])

    def ids(*filters: str) -> set[str]:
        return {row["id"] for row in api.all("/ports", [("fixed_ips", f) for f in filters])}

    assert ids("ip_address=10.20.30.40") == {one["id"]}
    assert ids("ip_address=10.20.30.4") == set()
    assert ids("ip_address=10.20.30.40", "ip_address=10.20.0.9") == {one["id"], two["id"]}
    assert ids(f"subnet_id={subnet['id']}") == {one["id"], two["id"]}
    assert ids(f"subnet_id={subnet['id']}", "ip_address_substr=.33.") == {two["id"]}
    assert ids("ip_address_substr=30.4") == {one["id"]}
    assert ids("ip_address_substr=10.20") == {one["id"], two["id"]}
    assert ids("ip_address_substr=%") == set()
    assert ids("host=x") == {one["id"], two["id"]}, "a key that is not known here is passed over"
    assert ids("host=x", "ip_address=10.20.30.40") == {one["id"]}
    for wrong in ("x", "=x", "ip_address="):
        api.get("/ports", {"fixed_ips": wrong}).refused(400, "InvalidInput")


def test_ports_by_security_group(api: Api) -> None:
    network, group = api.network(), api.make("security_group", name="web")
    inside = api.port(network, security_groups=[group["id"]])
    api.port(network)
    assert [p["id"] for p in api.all("/ports", {"security_groups": group["id"]})] == [inside["id"]]


def test_changed_since(api: Api, server: Server) -> None:
    old, new = api.network(), api.network()
    with server.db.transaction() as tx:
        c = t.networks.c
        tx.execute(sa.update(t.networks).where(c.id == old["id"]).values(updated_at=OLD))
    own = {"project_id": api.project}
    assert [n["id"] for n in api.all("/networks", {**own, "changed_since": "2010-01-01T00:00:00Z"})] == [new["id"]]
    assert len(api.all("/networks", {**own, "changed_since": OLD})) == 2
    assert len(api.all("/networks", {**own, "changed_since": OLD.rstrip("Z")})) == 2
    api.get("/networks", {"changed_since": "yesterday"}).expect(400)


def test_more_filter_values_than_a_statement_takes(api: Api) -> None:
    made = api.network()
    ids = [f"00000000-0000-0000-0000-{i:012d}" for i in range(1500)]
    assert [n["id"] for n in api.all("/networks", [("id", i) for i in [*ids, made["id"]]])] == [made["id"]]


def test_links_begin_as_network_link_prefix_says(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"network_link_prefix": "https://net.example.org/networking/"}})
    api = Api(server.app)
    for name in "ab":
        api.make("network", name=name)
    links = api.get("/networks", {"limit": 1}).expect(200).body["networks_links"]
    assert {one["href"].partition("?")[0] for one in links} == {"https://net.example.org/networking/v2.0/networks"}
    listed = {one["name"]: one["links"][0]["href"] for one in api.get("").expect(200).body["resources"]}
    assert listed["port"] == "https://net.example.org/networking/v2.0/ports"
