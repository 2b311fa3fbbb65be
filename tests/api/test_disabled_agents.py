"""Agents with admin_state_up false: new ones (enable_new_agents), and what they go on serving."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.features import sources
from neutrino.server.feed.change_log import read_all
from neutrino.server.feed.fanout import Fanout
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports, serve
from tests.api.l3 import agents_of, attach, inside, l3_agent


@pytest.fixture
def cloud(another_server: Any) -> Any:
    """A server of the test's own with these options in [DEFAULT]."""

    def make(**options: str) -> tuple[Server, Api]:
        server: Server = another_server({"DEFAULT": options})
        return server, Api(server.app).as_admin()

    return make


def set_enabled(admin: Api, agent_id: str, enabled: bool) -> None:
    admin.put(f"/agents/{agent_id}", {"agent": {"admin_state_up": enabled}}).expect(200)


def serving_hosts(admin: Api, network: Object) -> list[str]:
    found = admin.get(f"/networks/{network['id']}/dhcp-agents").expect(200).body["agents"]
    return sorted(agent["host"] for agent in found)


def sent(server: Server, host: str, kind: str) -> set[str]:
    """The ids of what the feed sends to a host."""
    with server.db.read() as connection:
        records = read_all(connection, sources())
    fanout = Fanout(sources().kinds)
    fanout.apply(records)
    return {value.id for each, value in fanout.objects(host, ("l2", "dhcp", "l3")) if each == kind}


@pytest.mark.every_database
def test_new_agents_wait_until_they_are_enabled(cloud: Any) -> None:
    server, admin = cloud(enable_new_agents="false")
    switch(server, "h1")
    dhcp, l3 = serve(server, "h1"), l3_agent(server, "h1").agent_id
    agents = admin.all("/agents")
    assert {agent["admin_state_up"] for agent in agents} == {False}
    assert {agent["alive"] for agent in agents} == {True}
    network, subnet = inside(admin)
    router = admin.make("router")
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    port = admin.port(network, binding__host_id="h1")
    assert port["binding:vif_type"] == "binding_failed"
    assert (serving_hosts(admin, network), agents_of(admin, router)) == ([], [])
    # In any order: at the end the host has all, with ports that are bound.
    for agent_id in (dhcp, l3, *(a["id"] for a in agents if a["id"] not in (dhcp, l3))):
        set_enabled(admin, agent_id, True)
    assert (serving_hosts(admin, network), agents_of(admin, router)) == (["h1"], ["h1"])
    assert [one["binding:vif_type"] for one in dhcp_ports(admin, network)] == ["ovs"]
    serve(server, "h1")  # the next reports leave it enabled
    assert {agent["admin_state_up"] for agent in admin.all("/agents")} == {True}


def test_a_disabled_agent_serves_what_it_has_only_if_configured(cloud: Any) -> None:
    for option in ("false", "true"):
        server, admin = cloud(enable_services_on_agents_with_admin_state_down=option)
        dhcp, l3 = serve(server, "h1"), l3_agent(server, "h1").agent_id
        network, subnet = inside(admin)
        router = admin.make("router")
        attach(admin, router, subnet_id=subnet["id"]).expect(200)
        assert serving_hosts(admin, network) == agents_of(admin, router) == ["h1"]
        serve(server, "h2")
        set_enabled(admin, dhcp, False)
        set_enabled(admin, l3, False)
        stays = option == "true"
        assert serving_hosts(admin, network) == (["h1"] if stays else ["h2"])
        assert (router["id"] in sent(server, "h1", "router")) is stays
        assert (network["id"] in sent(server, "h1", "dhcp_network")) is stays
        # Nothing new in either case.
        other, _ = inside(admin, cidr="10.9.0.0/24")
        assert serving_hosts(admin, other) == ["h2"]
        if stays:
            problems = {one["kind"] for one in admin.get("/status").expect(200).body["status"]["problems"]}
            assert not {"network-agents-disabled", "router-agents-disabled"} & problems
            port = admin.port(network, binding__host_id="h1", device_owner="compute:nova")
            assert port["binding:vif_type"] == "ovs"


@pytest.mark.parametrize(("load_type", "chosen"), [("networks", "h2"), ("subnets", "h1"), ("ports", "h1")])
@pytest.mark.every_database
def test_the_load_of_dhcp_agents_is_counted_by_dhcp_load_type(cloud: Any, load_type: str, chosen: str) -> None:
    server, admin = cloud(dhcp_load_type=load_type)
    serve(server, "h1")
    for cidr in ("10.1.0.0/24", "10.2.0.0/24"):  # two small networks
        inside(admin, cidr=cidr)
    serve(server, "h2")
    large, _ = inside(admin, cidr="10.3.0.0/24")
    assert serving_hosts(admin, large) == ["h2"], "it has nothing yet"
    for number in range(4, 8):
        admin.subnet(large, cidr=f"10.{number}.0.0/24")
        admin.port(large)
    next_one, _ = inside(admin, cidr="10.8.0.0/24")
    assert serving_hosts(admin, next_one) == [chosen]


def test_dhcp_agents_by_chance(cloud: Any, another_server: Any) -> None:
    """An agent that serves many networks is as likely as one without any."""
    server, admin = cloud(network_scheduler_driver="neutron.scheduler.dhcp_agent_scheduler.ChanceScheduler")
    for host in ("h1", "h2"):
        serve(server, host)
    found = {
        host for number in range(20) for host in serving_hosts(admin, inside(admin, cidr=f"10.{number}.0.0/24")[0])
    }
    assert found == {"h1", "h2"}
    with pytest.raises(ValueError, match="network_scheduler_driver: 'Nonesuch' is none of ChanceScheduler"):
        another_server({"DEFAULT": {"network_scheduler_driver": "Nonesuch"}})
