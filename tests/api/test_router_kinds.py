"""HA and distributed routers: their ports and agents, and changes of the kind."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.routers.ha_networks import HaNetworks
from neutrino.features.router.tables import ha_router_networks, routers
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.main import Server
from neutrino.server.ml2.subnets import Subnets
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.l3 import agents_of, attach, detach, gateway, inside, l3_agent, outside, ports_of
from tests.api.races import before_next_write
from tests.faults.integrity import check

INTERFACE, GATEWAY = "network:router_interface", "network:router_gateway"
REPLICATED, HA_PORT = "network:ha_router_replicated_interface", "network:router_ha_interface"
DISTRIBUTED, SNAT = "network:router_interface_distributed", "network:router_centralized_snat"


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


def owners(admin: Api, router: Object) -> list[str]:
    return sorted(port["device_owner"] for port in ports_of(admin, router))


@pytest.mark.parametrize("step", ["subnet", "record"])
@pytest.mark.every_database
def test_an_ha_network_that_cannot_be_completed_leaves_nothing(
    cloud: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, admin = cloud()
    l3_agent(server, "h1")
    l3_agent(server, "h2")

    def fail(*_: Any, **__: Any) -> Any:
        raise errors.NoNetworkAvailable()

    with monkeypatch.context() as failing:
        where = (Subnets, "create") if step == "subnet" else (HaNetworks, "_keep")
        failing.setattr(*where, fail)
        admin.post("/routers", {"router": {"ha": True}}).expect(409)
    assert [network["name"] for network in admin.all("/networks")] == []
    admin.make("router", ha=True)
    assert [network["name"] for network in admin.all("/networks")] == [f"HA network tenant {admin.project}"]


@pytest.mark.parametrize("hosts", [0, 2])
@pytest.mark.parametrize("request_", ["create", "update"])
@pytest.mark.every_database
def test_the_ha_network_is_deleted_while_a_router_becomes_ha(
    cloud: Any, hosts: int, request_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the project's last HA router, between the decision on the next one and its transaction."""
    server, admin = cloud()
    for number in range(hosts):
        switch(server, f"h{number}")
        l3_agent(server, f"h{number}")
    last = admin.make("router", ha=True)
    router = admin.make("router", admin_state_up=False)
    before_next_write(server, monkeypatch, lambda: admin.delete(f"/routers/{last['id']}").expect(204))
    if request_ == "create":
        router = admin.make("router", ha=True)
    else:
        admin.change("router", router["id"], ha=True)
    (network,) = admin.all("/networks")
    assert network["name"] == f"HA network tenant {admin.project}"
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert owners(admin, router) == [REPLICATED] + [HA_PORT] * hosts


@pytest.mark.every_database
def test_the_network_of_an_ha_router_is_in_use(cloud: Any) -> None:
    _, admin = cloud()
    router = admin.make("router", ha=True, admin_state_up=False)
    (network,) = admin.all("/networks")
    refused = admin.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    assert router["id"] in refused.body["NeutronError"]["message"]
    admin.change("router", router["id"], ha=False)
    assert admin.all("/networks") == []


@pytest.mark.every_database
def test_a_router_whose_ha_network_is_gone_gets_another(cloud: Any) -> None:
    """As earlier releases left it, and the upgrade found it."""
    server, admin = cloud()
    router = admin.make("router", ha=True)
    (network,) = admin.all("/networks")
    with server.db.transaction() as tx:
        tx.execute(sa.delete(ha_router_networks))
        tx.execute(sa.update(routers).values(ha_network_id=None, ha_vr_id=None))
    admin.delete(f"/networks/{network['id']}").expect(204)
    switch(server, "h1")
    server.service_plugins["router"].begin()
    l3_agent(server, "h1")
    assert owners(admin, router) == [HA_PORT]
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)


def test_an_ha_router_has_several_agents_and_a_network_where_they_meet(cloud: Any) -> None:
    server, admin = cloud()
    for host in ("h1", "h2", "h3", "h4"):
        l3_agent(server, host)
    router = admin.make("router", ha=True)
    assert router["ha"] is True
    assert len(agents_of(admin, router)) == 3
    (network,) = [n for n in admin.all("/networks") if n["name"] == f"HA network tenant {admin.project}"]
    assert network["project_id"] == ""
    ports = ports_of(admin, router, HA_PORT)
    assert {p["binding:host_id"] for p in ports} == set(agents_of(admin, router))
    assert {p["network_id"] for p in ports} == {network["id"]}
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert owners(admin, router) == [REPLICATED, HA_PORT, HA_PORT, HA_PORT]
    admin.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    detach(admin, router, subnet_id=subnet["id"]).expect(200)
    admin.delete(f"/routers/{router['id']}").expect(204)
    assert [n["id"] for n in admin.all("/networks") if n["id"] == network["id"]] == []


def test_the_active_host_has_the_ports(cloud: Any) -> None:
    server, admin = cloud(max_l3_agents_per_router="0")
    for host in ("h1", "h2"):
        l3_agent(server, host)
    external = outside(admin)
    router = admin.make("router", ha=True, external_gateway_info=gateway(external))
    plugin = server.service_plugins["router"]
    for active, standby in (("h1", "h2"), ("h2", "h1")):
        plugin.scheduler.set_ha_state(standby, router["id"], "standby")
        plugin.scheduler.set_ha_state(active, router["id"], "active")
        states = {
            agent["host"]: agent["ha_state"] for agent in admin.get(f"/routers/{router['id']}/l3-agents").body["agents"]
        }
        assert states == {active: "active", standby: "standby"}
        assert {p["binding:host_id"] for p in ports_of(admin, router, GATEWAY)} == {active}
    assert plugin.scheduler.set_ha_state("h2", router["id"], "active") is False


@pytest.mark.every_database
def test_vrrp_ids_are_a_projects_own(cloud: Any) -> None:
    server, admin = cloud(l3_ha="true")
    routers = [admin.make("router") for _ in range(3)]
    with server.db.read() as connection:
        rows = connection.exec_driver_sql("SELECT ha_vr_id FROM routers").scalars().all()
    assert sorted(rows) == [1, 2, 3]
    admin.delete(f"/routers/{routers[0]['id']}").expect(204)
    assert [n["name"] for n in admin.all("/networks")] == [f"HA network tenant {admin.project}"]


def test_a_new_agent_joins_ha_routers(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h1")
    router = admin.make("router", ha=True)
    assert agents_of(admin, router) == ["h1"]
    l3_agent(server, "h2")
    assert agents_of(admin, router) == ["h1", "h2"]
    assert len(ports_of(admin, router, HA_PORT)) == 2
    second = admin.get("/agents", {"host": "h2"}).body["agents"][0]["id"]
    admin.delete(f"/agents/{second}/l3-routers/{router['id']}").expect(204)
    assert len(ports_of(admin, router, HA_PORT)) == 1


def test_a_kind_changes_while_the_router_is_down(cloud: Any) -> None:
    server, admin = cloud()
    for host in ("h1", "h2"):
        l3_agent(server, host, agent_mode="dvr_snat")
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    _, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    path = f"/routers/{router['id']}"
    for name in ("ha", "distributed"):
        admin.put(path, {"router": {name: True}}).refused(400, "BadRequest")
        admin.put(path, {"router": {name: True, "admin_state_up": False}}).refused(400, "BadRequest")
        assert admin.change("router", router["id"], **{name: False})[name] is False  # as it is
    admin.change("router", router["id"], admin_state_up=False)
    admin.change("router", router["id"], ha=True)
    assert owners(admin, router) == sorted([REPLICATED, GATEWAY, HA_PORT, HA_PORT])
    assert agents_of(admin, router) == ["h1", "h2"]
    admin.change("router", router["id"], distributed=True)
    assert owners(admin, router) == sorted([DISTRIBUTED, SNAT, GATEWAY, HA_PORT, HA_PORT])
    admin.change("router", router["id"], ha=False)
    assert owners(admin, router) == sorted([DISTRIBUTED, SNAT, GATEWAY])
    assert len(agents_of(admin, router)) == 1
    admin.change("router", router["id"], distributed=False)
    assert owners(admin, router) == sorted([INTERFACE, GATEWAY])
    assert {p["binding:host_id"] for p in ports_of(admin, router)} == set(agents_of(admin, router))
    assert admin.all("/networks", {"name": f"HA network tenant {admin.project}"}) == []


def test_a_distributed_router_is_everywhere_but_for_its_snat(cloud: Any) -> None:
    server, admin = cloud(router_distributed="true")
    switch(server, "net")
    l3_agent(server, "net", agent_mode="dvr_snat")
    l3_agent(server, "vm-host", agent_mode="dvr")
    router = admin.make("router")
    assert router["distributed"] is True
    network, subnet = inside(admin)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    (port,) = ports_of(admin, router)
    assert (port["device_owner"], port["binding:host_id"], port["binding:vif_type"]) == (DISTRIBUTED, "", "distributed")
    assert agents_of(admin, router) == []
    admin.change("router", router["id"], external_gateway_info=gateway(outside(admin)))
    assert agents_of(admin, router) == ["net"]
    (snat,) = ports_of(admin, router, SNAT)
    assert (snat["binding:host_id"], snat["project_id"]) == ("net", "")
    assert [f["subnet_id"] for f in snat["fixed_ips"]] == [subnet["id"]]
    admin.make("port", network_id=network["id"], device_owner="compute:z", device_id="d", binding__host_id="vm-host")
    assert agents_of(admin, router) == ["net", "vm-host"]
    _, second = inside(admin, "10.1.0.0/24")
    attach(admin, router, subnet_id=second["id"]).expect(200)
    assert len(ports_of(admin, router, SNAT)) == 2
    detach(admin, router, subnet_id=second["id"]).expect(200)
    assert len(ports_of(admin, router, SNAT)) == 1
    admin.change("router", router["id"], external_gateway_info=None)
    assert owners(admin, router) == [DISTRIBUTED]


def test_ipv6_prefixes_share_a_snat_port(cloud: Any) -> None:
    server, admin = cloud(router_distributed="true")
    l3_agent(server, "net", agent_mode="dvr_snat")
    external = admin.network(router__external=True)
    admin.subnet(external, "2001:db8:99::/64", enable_dhcp=False)
    router = admin.make("router", external_gateway_info=gateway(external))
    network = admin.network()
    subnets = [admin.subnet(network, f"2001:db8:{i}::/64") for i in (1, 2)]
    for subnet in subnets:
        attach(admin, router, subnet_id=subnet["id"]).expect(200)
    (snat,) = ports_of(admin, router, SNAT)
    assert {f["subnet_id"] for f in snat["fixed_ips"]} == {subnet["id"] for subnet in subnets}
    detach(admin, router, subnet_id=subnets[0]["id"]).expect(200)
    (snat,) = ports_of(admin, router, SNAT)
    assert {f["subnet_id"] for f in snat["fixed_ips"]} == {subnets[1]["id"]}


def test_ports_and_macs_of_hosts_with_distributed_routers(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h1", agent_mode="dvr")
    external = outside(admin)
    dvr = server.service_plugins["router"].dvr
    port = dvr.gateway_port(external["id"], "h1")
    assert dvr.gateway_port(external["id"], "h1")["id"] == port["id"]
    shown = admin.show("port", port["id"])
    assert (shown["device_owner"], shown["binding:host_id"]) == ("network:floatingip_agent_gateway", "h1")
    mac = dvr.mac_of("h1")
    assert mac.startswith("fa:16:3f")
    assert dvr.mac_of("h1") == mac != dvr.mac_of("h2")


DRIVERS = "neutron.services.l3_router.service_providers"


# --- flavors and topologies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "distributed", "ha"),
    [
        ("single_node.SingleNodeDriver", False, False),
        ("ha.HaDriver", False, True),
        ("dvr.DvrDriver", True, False),
        ("dvrha.DvrHaDriver", True, True),
    ],
)
def test_a_flavor_chooses_the_kind_of_a_router(cloud: Any, driver: str, distributed: bool, ha: bool) -> None:
    """For a member too, who may not name a kind; it stays as long as the router has the flavor."""
    _, admin = cloud(l3_ha=str(not ha), router_distributed=str(not distributed))
    member = admin.as_stranger()
    profile = admin.make("service_profile", driver=f"{DRIVERS}.{driver}")
    flavor = admin.make("flavor", service_type="L3_ROUTER_NAT", service_profiles=[profile["id"]])
    router = admin.show("router", member.make("router", flavor_id=flavor["id"])["id"])
    assert (router["distributed"], router["ha"]) == (distributed, ha)
    one = admin.make("router", flavor_id=flavor["id"], ha=ha, distributed=distributed)
    assert (one["distributed"], one["ha"]) == (distributed, ha)
    wrong = {"flavor_id": flavor["id"], "ha": not ha}
    answer = admin.post("/routers", {"router": wrong})
    answer.refused(400, "BadRequest")
    assert f"does not support ha={not ha}" in answer.body["NeutronError"]["message"]
    admin.change("router", router["id"], admin_state_up=False)
    for values in ({"ha": not ha}, {"distributed": not distributed}):
        admin.put(f"/routers/{router['id']}", {"router": values}).refused(400, "BadRequest")


def test_a_flavor_whose_profile_selects_nothing_is_refused(cloud: Any) -> None:
    _, admin = cloud()
    for values, status, error in (
        ({"metainfo": "{}"}, 404, "ServiceProfileDriverNotFound"),
        ({"driver": "some.other.Driver"}, 404, "ServiceProfileDriverNotFound"),
        ({"driver": f"{DRIVERS}.ha.HaDriver", "enabled": False}, 503, "ServiceProfileDisabled"),
    ):
        profile = admin.make("service_profile", **values)
        flavor = admin.make("flavor", service_type="L3_ROUTER_NAT", service_profiles=[profile["id"]])
        admin.post("/routers", {"router": {"flavor_id": flavor["id"]}}).refused(status, error)
    assert admin.all("/routers") == []


def test_flavors(cloud: Any) -> None:
    _, admin = cloud()
    api = admin.as_stranger()
    profile = admin.make("service_profile", driver=f"{DRIVERS}.single_node.SingleNodeDriver")
    admin.post("/service_profiles", {"service_profile": {}}).refused(400, "ServiceProfileEmpty")
    flavor = admin.make("flavor", name="f", service_type="L3_ROUTER_NAT")
    admin.post("/flavors", {"flavor": {"service_type": "NONSENSE"}}).refused(400)
    api.post("/flavors", {"flavor": {"service_type": "L3_ROUTER_NAT"}}).refused(403)
    api.post("/routers", {"router": {"flavor_id": flavor["id"]}}).refused(404, "FlavorServiceProfileBindingNotFound")
    path = f"/flavors/{flavor['id']}/service_profiles"
    admin.post(path, {"service_profile": {"id": profile["id"]}}).expect(201)
    admin.post(path, {"service_profile": {"id": profile["id"]}}).refused(409, "FlavorServiceProfileBindingExists")
    assert api.show("flavor", flavor["id"])["service_profiles"] == [profile["id"]]
    admin.delete(f"/service_profiles/{profile['id']}").refused(409, "ServiceProfileInUse")
    router = api.make("router", flavor_id=flavor["id"])
    assert router["flavor_id"] == flavor["id"]
    admin.delete(f"/flavors/{flavor['id']}").refused(409, "FlavorInUse")
    api.post("/routers", {"router": {"flavor_id": profile["id"]}}).refused(404, "FlavorNotFound")
    for kind in ("distributed", "ha"):
        admin.post("/routers", {"router": {"flavor_id": flavor["id"], kind: True}}).refused(400, "BadRequest")
    assert not [each for each in admin.all("/networks") if each["name"].startswith("HA network")]  # refused before
    api.delete(f"/routers/{router['id']}").expect(204)
    admin.change("flavor", flavor["id"], enabled=False)
    api.post("/routers", {"router": {"flavor_id": flavor["id"]}}).refused(503, "FlavorDisabled")
    admin.delete(f"{path}/{profile['id']}").expect(204)
    admin.delete(f"{path}/{profile['id']}").refused(404, "FlavorServiceProfileBindingNotFound")
    admin.delete(f"/flavors/{flavor['id']}").expect(204)
    admin.delete(f"/service_profiles/{profile['id']}").expect(204)
    providers = api.get("/service-providers").expect(200).body["service_providers"]
    assert [p["name"] for p in providers if p["default"]] == ["single_node", "strongswan"]


def test_service_type(cloud: Any) -> None:
    _, api = cloud()
    service_type = "6f1e2e8c-5a43-4b64-9d67-1b4fb3a1f5a0"
    router = api.make("router", service_type_id=service_type)
    assert api.show("router", router["id"])["service_type_id"] == service_type
    assert api.make("router")["service_type_id"] is None
    api.put(f"/routers/{router['id']}", {"router": {"service_type_id": None}}).refused(400)
    assert "service_type_id" in str(api.post("/routers", {"router": {"service_type_id": "x"}}).refused(400).body)


def test_auto_allocated_topology(cloud: Any) -> None:
    _, admin = cloud()
    api = admin.as_stranger()
    path = f"/auto-allocated-topology/{api.project}"
    dry = {"fields": "dry-run"}
    api.get(path, dry).refused(409, "AutoAllocationFailure")
    external = outside(admin, is_default=True)
    admin.post("/networks", {"network": {"router:external": True, "is_default": True}}).refused(
        409, "DefaultExternalNetworkExists"
    )
    api.get(path, dry).refused(409, "AutoAllocationFailure")
    pool = {"name": "p", "prefixes": ["10.64.0.0/16"], "default_prefixlen": 26, "is_default": True, "shared": True}
    admin.make("subnetpool", **pool)
    assert api.get(path, dry).expect(200).body["auto_allocated_topology"]["id"] == "dry-run=pass"
    assert api.all("/networks", {"name": "auto_allocated_network"}) == []
    found = api.get(path).expect(200).body["auto_allocated_topology"]
    assert api.get("/auto-allocated-topology/None").body["auto_allocated_topology"] == found
    network = api.show("network", found["id"])
    assert (network["project_id"], len(network["subnets"])) == (api.project, 1)
    (router,) = api.all("/routers")
    assert router["external_gateway_info"]["network_id"] == external["id"]
    assert len(ports_of(api, router)) == 1
    admin.as_stranger().get(path).refused(403)
    api.delete(path).expect(204)
    assert (api.all("/routers"), api.all("/networks", {"name": "auto_allocated_network"})) == ([], [])
    api.delete(path).expect(204)


def test_options_are_the_defaults_of_default_routes(cloud: Any) -> None:
    flags = ("enable_default_route_ecmp", "enable_default_route_bfd")
    _, admin = cloud(**dict.fromkeys(flags, "true"))
    router = admin.make("router")
    assert [router[flag] for flag in flags] == [True, True]
    assert admin.make("router", enable_default_route_bfd=False)["enable_default_route_bfd"] is False
