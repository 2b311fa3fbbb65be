"""Routers on L3 agents: scheduling, failover, and the ports that follow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from neutrino.cli.database import verify
from neutrino.features.router.floating_ips.floating_ips import set_floating_ip_status
from neutrino.model.objects import Object
from neutrino.server.main import Server
from neutrino.server.scheduling.loads import Loads
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.l3 import agents_of, attach, detach, gateway, inside, l3_agent, outside, ports_of
from tests.faults.integrity import check


@pytest.fixture
def cloud(another_server: Any) -> Any:
    """A server of the test's own: agents serve everybody's routers."""
    made: list[Server] = []

    def make(**options: str) -> tuple[Server, Api]:
        made.append(another_server({"DEFAULT": options}))
        return made[-1], Api(made[-1].app).as_admin()

    yield make
    for server in made:
        check(server.db)


def hosts_of(admin: Api, router: Object) -> set[str]:
    return {port["binding:host_id"] for port in ports_of(admin, router)}


def test_a_router_gets_an_agent_when_it_has_something_to_do(cloud: Any) -> None:
    server, admin = cloud()
    switch(server, "h1", bridge_mappings={"physnet1": "br-ex"})
    l3_agent(server, "h1", zone="z1")
    router = admin.make("router")
    assert agents_of(admin, router) == []
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert agents_of(admin, router) == ["h1"]
    shown = admin.show("router", router["id"])
    assert shown["availability_zones"] == ["z1"]
    (port,) = ports_of(admin, router)
    assert (port["binding:host_id"], port["binding:vif_type"]) == ("h1", "ovs")
    other = admin.make("router", external_gateway_info=gateway(outside(admin)))
    assert agents_of(admin, other) == ["h1"]
    assert hosts_of(admin, other) == {"h1"}


@pytest.mark.every_database
def test_the_agent_with_the_fewest_routers(cloud: Any) -> None:
    server, admin = cloud()
    for host in ("h1", "h2"):
        l3_agent(server, host)
    external = outside(admin, "172.24.0.0/16")
    routers = [admin.make("router", external_gateway_info=gateway(external)) for _ in range(4)]
    assert sorted(agents_of(admin, router)[0] for router in routers) == ["h1", "h1", "h2", "h2"]


@pytest.mark.every_database
def test_routers_are_spread_without_being_counted(cloud: Any) -> None:
    """In a large cloud agents' routers are counted every few seconds only; a burst of new ones is spread all the same."""
    server, admin = cloud()
    for host in ("h1", "h2"):
        l3_agent(server, host)
    scheduler = server.service_plugins["router"].scheduler
    scheduler.loads = Loads(most=0, clock=lambda: 1.0)
    external = outside(admin, "172.24.0.0/16")
    routers = [admin.make("router", external_gateway_info=gateway(external)) for _ in range(5)]
    assert sorted(Counter(agents_of(admin, router)[0] for router in routers).values()) == [2, 3]
    assert sorted(scheduler.loads.kept().values()) == [2, 3]


def test_by_chance(cloud: Any) -> None:
    server, admin = cloud(router_scheduler_driver="neutron.scheduler.l3_agent_scheduler.ChanceScheduler")
    for host in ("h1", "h2"):
        l3_agent(server, host)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    assert agents_of(admin, router) in (["h1"], ["h2"])


def test_a_scheduler_that_is_not_there(another_server: Any) -> None:
    with pytest.raises(ValueError, match="router_scheduler_driver"):
        another_server({"DEFAULT": {"router_scheduler_driver": "Nonesuch"}})


def test_zones(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h1", zone="z1")
    l3_agent(server, "h2", zone="z2")
    admin.post("/routers", {"router": {"availability_zone_hints": ["z3"]}}).refused(404, "AvailabilityZoneNotFound")
    external = outside(admin)
    router = admin.make("router", availability_zone_hints=["z2"], external_gateway_info=gateway(external))
    assert agents_of(admin, router) == ["h2"]
    zones = admin.get("/availability_zones", {"resource": "router"}).body["availability_zones"]
    assert {zone["name"] for zone in zones} == {"z1", "z2"}


def test_agents_that_take_not_all(cloud: Any) -> None:
    server, admin = cloud()
    first, second = outside(admin), outside(admin, "172.25.0.0/24")
    l3_agent(server, "kept", gateway_external_network_id=second["id"])
    l3_agent(server, "outer", handle_internal_only_routers=False, gateway_external_network_id=first["id"])
    l3_agent(server, "dvr", agent_mode="dvr")
    assert agents_of(admin, admin.make("router", external_gateway_info=gateway(first))) == ["outer"]
    assert agents_of(admin, admin.make("router", external_gateway_info=gateway(second))) == ["kept"]
    router = admin.make("router")
    attach(admin, router, subnet_id=inside(admin)[1]["id"]).expect(200)
    assert agents_of(admin, router) == ["kept"]


def test_a_new_agent_gets_routers_that_lack_one(cloud: Any) -> None:
    server, admin = cloud()
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert hosts_of(admin, router) == {""}
    l3_agent(server, "h1")
    assert agents_of(admin, router) == ["h1"]
    assert {p["binding:vif_type"] for p in ports_of(admin, router)} == {"binding_failed"}
    report = switch(server, "h1", bridge_mappings={}, tunnel_types=["vxlan"])
    server.service_plugins["router"].scheduler.reported(report)
    assert {p["binding:vif_type"] for p in ports_of(admin, router)} == {"ovs"}


def test_floating_ips_of_a_router_without_agent_are_down(cloud: Any) -> None:
    server, admin = cloud()
    agent = l3_agent(server, "h1").agent_id
    out = outside(admin)
    router = admin.make("router", external_gateway_info=gateway(out))
    network, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    port = admin.make("port", network_id=network["id"])
    floating = admin.make("floatingip", floating_network_id=out["id"], port_id=port["id"])
    assert set_floating_ip_status(server.db, "h1", floating["id"], "ACTIVE")
    admin.delete(f"/agents/{agent}/l3-routers/{router['id']}").expect(204)
    assert admin.get(f"/floatingips/{floating['id']}").body["floatingip"]["status"] == "DOWN"
    assert not set_floating_ip_status(server.db, "h1", floating["id"], "ACTIVE")  # a report that was late
    admin.post(f"/agents/{agent}/l3-routers", {"router_id": router["id"]}).expect(201)
    assert set_floating_ip_status(server.db, "h1", floating["id"], "ACTIVE")


def test_by_the_operator(cloud: Any) -> None:
    server, admin = cloud()
    first = l3_agent(server, "h1").agent_id
    second = l3_agent(server, "h2").agent_id
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    (host,) = agents_of(admin, router)
    has, other = (first, second) if host == "h1" else (second, first)
    api = admin.as_member(admin.project)
    body = {"router_id": router["id"]}
    api.post(f"/agents/{other}/l3-routers", body).refused(403)
    admin.post(f"/agents/{other}/l3-routers", body).refused(409, "RouterHostedByL3Agent")
    admin.post(f"/agents/{has}/l3-routers", body).expect(201)
    assert [r["id"] for r in admin.get(f"/agents/{has}/l3-routers").body["routers"]] == [router["id"]]
    admin.delete(f"/agents/{other}/l3-routers/{router['id']}").refused(409, "RouterNotHostedByL3Agent")
    admin.delete(f"/agents/{has}/l3-routers/{router['id']}").expect(204)
    assert agents_of(admin, router) == []
    assert hosts_of(admin, router) == {""}
    admin.post(f"/agents/{other}/l3-routers", body).expect(201)
    assert len(hosts_of(admin, router)) == 1
    assert hosts_of(admin, router) == set(agents_of(admin, router)) != {host}
    nobody = router["id"]
    admin.post(f"/agents/{nobody}/l3-routers", body).refused(404, "AgentNotFound")
    admin.get(f"/agents/{nobody}/l3-routers").refused(404, "AgentNotFound")
    admin.post(f"/agents/{has}/l3-routers", {"router_id": has}).refused(404, "RouterNotFound")
    admin.post(f"/agents/{has}/l3-routers", {}).refused(400)
    admin.get(f"/routers/{has}/l3-agents").refused(404, "RouterNotFound")
    not_l3 = switch(server, "h3").agent_id
    admin.post(f"/agents/{not_l3}/l3-routers", body).refused(404, "InvalidL3Agent")
    dvr = l3_agent(server, "h4", agent_mode="dvr").agent_id
    admin.post(f"/agents/{dvr}/l3-routers", body).refused(409, "DVRL3CannotAssignToDvrAgent")
    admin.delete(f"/agents/{dvr}/l3-routers/{router['id']}").refused(409, "DVRL3CannotRemoveFromDvrAgent")


@pytest.mark.every_database
def test_a_dead_agent_is_relieved(cloud: Any) -> None:
    server, admin = cloud(allow_automatic_l3agent_failover="true")
    plugin = server.service_plugins["router"]
    l3_agent(server, "h1")
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    set_clock(server, 1000)
    assert plugin.scheduler.reschedule_dead() == []  # there is no other agent
    assert agents_of(admin, router) == ["h1"]
    l3_agent(server, "h2")
    assert len(plugin.scheduler.reschedule_dead()) == 1
    assert agents_of(admin, router) == ["h2"]
    assert hosts_of(admin, router) == {"h2"}
    assert plugin.scheduler.reschedule_dead() == []


def test_a_deleted_agent_leaves_its_routers_to_others(cloud: Any) -> None:
    server, admin = cloud()
    first = l3_agent(server, "h1").agent_id
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    admin.change("agent", first, admin_state_up=False)
    second = l3_agent(server, "h2").agent_id
    admin.delete(f"/agents/{first}").expect(204)
    assert agents_of(admin, router) == ["h2"]
    admin.delete(f"/agents/{second}").expect(204)
    assert agents_of(admin, router) == []
    assert hosts_of(admin, router) == {""}


def test_an_enabled_agent_gets_routers_that_lack_one(cloud: Any) -> None:
    server, admin = cloud()
    agent = l3_agent(server, "h1").agent_id
    admin.change("agent", agent, admin_state_up=False)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    assert agents_of(admin, router) == []
    admin.change("agent", agent, admin_state_up=True)
    assert agents_of(admin, router) == ["h1"]


def test_a_router_keeps_its_agent_without_interfaces(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h1")
    router = admin.make("router")
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    detach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert agents_of(admin, router) == ["h1"]
    admin.delete(f"/routers/{router['id']}").expect(204)


# --- routers that no agent has ----------------------------------------------------------------------------------------


def statuses(admin: Api, router: Object) -> tuple[str, str]:
    """As shown, and as in a list."""
    (listed,) = (one for one in admin.all("/routers") if one["id"] == router["id"])
    return admin.show("router", router["id"])["status"], listed["status"]


ACTIVE, DOWN = ("ACTIVE", "ACTIVE"), ("DOWN", "DOWN")


def test_a_router_without_an_agent_is_down(cloud: Any, caplog: Any) -> None:
    server, admin = cloud()
    external = outside(admin)
    idle = admin.make("router")
    assert (idle["status"], statuses(admin, idle)) == ("ACTIVE", ACTIVE)
    assert caplog.records == []
    router = admin.make("router", external_gateway_info=gateway(external))
    assert (router["status"], statuses(admin, router)) == ("DOWN", DOWN)
    (record,) = caplog.records
    assert router["id"] in record.getMessage()
    assert "none has reported" in record.getMessage()
    assert admin.change("router", router["id"], name="x")["status"] == "DOWN"
    assert len(caplog.records) == 1, "the same reason is logged once"
    ha = admin.make("router", ha=True)
    assert statuses(admin, ha) == DOWN
    switch(server, "h1")
    agent = l3_agent(server, "h1")
    assert statuses(admin, router) == statuses(admin, ha) == statuses(admin, idle) == ACTIVE
    assert admin.change("router", router["id"], name="y")["status"] == "ACTIVE"
    caplog.clear()
    admin.delete(f"/agents/{agent.agent_id}").expect(204)
    assert statuses(admin, router) == DOWN
    assert any(router["id"] in one.getMessage() for one in caplog.records)
    cleared = admin.change("router", router["id"], external_gateway_info=None)
    assert (cleared["status"], statuses(admin, router)) == ("ACTIVE", ACTIVE), "it has nothing to do any more"


def test_a_distributed_router_without_dvr_agents_is_down(cloud: Any, caplog: Any) -> None:
    server, admin = cloud()
    switch(server, "h1")
    l3_agent(server, "h1")  # legacy
    router = admin.make("router", distributed=True)
    assert statuses(admin, router) == ACTIVE
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert statuses(admin, router) == DOWN
    (record,) = caplog.records
    assert "distributed" in record.getMessage()
    assert "dvr" in record.getMessage()
    l3_agent(server, "h2", agent_mode="dvr")
    assert statuses(admin, router) == ACTIVE
    outer = admin.change("router", router["id"], external_gateway_info=gateway(outside(admin)))
    assert (outer["status"], statuses(admin, router)) == ("DOWN", DOWN), "nobody has its SNAT"
    assert "h1: agent_mode legacy; h2: agent_mode dvr" in caplog.records[-1].getMessage()
    l3_agent(server, "h3", agent_mode="dvr_snat")
    assert statuses(admin, router) == ACTIVE
    l3_agent(server, "h2", agent_mode="legacy")
    assert statuses(admin, router) == ACTIVE, "the host with the SNAT forwards"


def test_verify_lists_routers_that_no_agent_can_host(cloud: Any, capsys: Any) -> None:
    server, admin = cloud()
    admin.make("router")  # it needs none yet
    assert verify(server.conf) == 0
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    capsys.readouterr()
    assert verify(server.conf) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"router {router['id']}: no L3 agent with agent_mode ")
    assert lines[-1] == "verify: 1 routers that no agent can host"
    switch(server, "h1")
    l3_agent(server, "h1")
    assert verify(server.conf) == 0


def test_only_what_is_stored_is_written_back(cloud: Any) -> None:
    """The status that is shown follows from agents; a change of a router that is DOWN does not make it so for good."""
    server, admin = cloud()
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    routes = {"router": {"routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.200"}]}}
    assert admin.put(f"/routers/{router['id']}/add_extraroutes", routes).expect(200).body["router"]["status"] == "DOWN"
    l3_agent(server, "h1")
    assert statuses(admin, router) == ACTIVE
