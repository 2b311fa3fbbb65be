"""Where routers run: administrators see hosts and states, members how many instances of their own routers work."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.features.router import router_placements
from neutrino.server.main import Server
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.l3 import attach, gateway, inside, l3_agent, outside


@pytest.fixture
def cloud(another_server: Any) -> Any:
    def make(**options: str) -> tuple[Server, Api]:
        server = another_server({"DEFAULT": options})
        return server, Api(server.app).as_admin()

    return make


def placement(admin: Api, router: Any) -> dict[str, Any]:
    shown: dict[str, Any] = admin.get(f"/router-placements/{router['id']}").expect(200).body["router_placement"]
    return shown


def states(shown: dict[str, Any]) -> list[tuple[str, str, list[str], bool]]:
    return sorted((one["host"], one["state"], one["roles"], one["alive"]) for one in shown["instances"])


@pytest.mark.every_database
def test_an_ha_router_by_what_its_hosts_report(cloud: Any) -> None:
    server, admin = cloud(l3_ha="true", max_l3_agents_per_router="3")
    for host in ("h1", "h2", "h3"):
        l3_agent(server, host)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    assert states(placement(admin, router)) == [(f"h{n}", "unknown", ["router"], True) for n in (1, 2, 3)]
    scheduler = server.service_plugins["router"].scheduler
    scheduler.set_ha_state("h2", router["id"], "active")
    scheduler.set_ha_state("h1", router["id"], "standby")
    shown = placement(admin, router)
    assert states(shown) == [
        ("h1", "standby", ["router"], True),
        ("h2", "active", ["router"], True),
        ("h3", "unknown", ["router"], True),
    ]
    assert (shown["active"], shown["standby"], shown["hosts"]) == (1, 1, ["h1", "h2", "h3"])
    assert shown["instances"][0]["agent_id"] == admin.all("/agents", {"host": "h1"})[0]["id"]
    set_clock(server, 100)  # no host reports any more: the last state is shown, and counts for nothing
    shown = placement(admin, router)
    assert (shown["active"], shown["standby"]) == (0, 0)
    assert ("h2", "active", ["router"], False) in states(shown)


@pytest.mark.every_database
def test_a_distributed_router_is_where_its_ports_are(cloud: Any) -> None:
    server, admin = cloud(router_distributed="true")
    for host, mode in (("net", "dvr_snat"), ("c1", "dvr"), ("c2", "dvr"), ("old", "legacy")):
        switch(server, host)
        l3_agent(server, host, agent_mode=mode)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    network, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    for host in ("c1", "net", "old"):
        admin.port(network, device_owner="compute:nova", device_id=host, binding__host_id=host)
    shown = placement(admin, router)
    assert states(shown) == [("c1", "active", ["distributed"], True), ("net", "active", ["snat", "distributed"], True)]
    assert shown["active"] == 1  # that with SNAT: the others route for their host only

    def on(host: str) -> list[str]:
        return [one["id"] for one in admin.all("/router-placements", {"hosts": host})]

    assert on("c1") == on("net") == [router["id"]]
    assert on("c2") == []


def test_many_in_one_request(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server, admin = cloud()
    l3_agent(server, "h1")
    external = outside(admin)
    made = [admin.make("router", name=f"r{n}", external_gateway_info=gateway(external))["id"] for n in range(5)]
    idle = admin.make("router")
    asked = [("id", each) for each in [*made[:3], idle["id"]]]
    found = {one["id"]: one for one in admin.all("/router-placements", asked)}
    assert found.keys() == {*made[:3], idle["id"]}
    assert [one["state"] for one in found[made[0]]["instances"]] == ["active"]
    assert found[idle["id"]]["instances"] == []
    page = admin.get("/router-placements", {"limit": 4, "sort_key": "name", "fields": "name"}).expect(200).body
    assert len(page["router_placements"]) == 4
    assert page["router_placements_links"][0]["rel"] == "next"
    monkeypatch.setattr(router_placements, "MAX_ROUTERS", 5)
    assert "limit" in admin.get("/router-placements").refused(400).message
    assert "limit" in admin.get("/router-placements", {"limit": 100}).refused(400).message
    assert len(admin.all("/router-placements", {"limit": 5})) == 5


def test_members_see_their_own_without_hosts(cloud: Any) -> None:
    server, admin = cloud(l3_ha="true")
    for host in ("h1", "h2"):
        l3_agent(server, host)
    member = admin.as_stranger()
    own, other = member.make("router"), admin.make("router")
    server.service_plugins["router"].scheduler.set_ha_state("h1", own["id"], "active")
    (shown,) = member.all("/router-placements")
    assert shown["id"] == own["id"]
    assert shown.keys() == {"id", "name", "project_id", "tenant_id", "status", "active", "standby"}
    assert shown["active"] == 1
    assert "h1" not in str(shown)
    member.get(f"/router-placements/{other['id']}").refused(404, "RouterNotFound")
    assert member.all("/router-placements", {"id": other["id"]}) == []
    assert member.all("/router-placements", {"hosts": "h1"}) == []  # nothing tells where it is
    assert member.all("/router-placements", {"ha": "true"}) == []
    assert admin.all("/router-placements", {"hosts": "h1", "id": own["id"]}) != []


@pytest.mark.parametrize(
    "query", ["hosts=%00", "hosts=" + "x" * 3000, "id=x", "limit=-1", "nonsense=1", "fields=x", "ha=2"]
)
def test_odd_queries(cloud: Any, query: str) -> None:
    _, admin = cloud()
    assert admin.get(f"/router-placements?{query}").status in (200, 400)
