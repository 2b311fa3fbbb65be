"""What tests of routers need: an external network, a network behind a router, agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neutrino.model.agents import L3, AgentState
from neutrino.model.objects import Object
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.main import Server
from tests.api.client import Api, Response
from tests.support.addresses import pool


def outside(admin: Api, cidr: str = "172.24.0.0/24", **values: Any) -> Object:
    """An external network with a subnet, whose last addresses are free."""
    network = admin.network(router__external=True, **values)
    admin.subnet(network, cidr, enable_dhcp=False, **pool(cidr))
    return network


def inside(api: Api, cidr: str = "10.0.0.0/24", **values: Any) -> tuple[Object, Object]:
    """A network and its subnet, whose last addresses are free."""
    network = api.network()
    return network, api.subnet(network, cidr, **{**pool(cidr), **values})


def gateway(network: Mapping[str, Any], **more: Any) -> Object:
    return {"network_id": network["id"], **more}


def attach(api: Api, router: Mapping[str, Any], **what: str) -> Response:
    return api.put(f"/routers/{router['id']}/add_router_interface", what)


def detach(api: Api, router: Mapping[str, Any], **what: str) -> Response:
    return api.put(f"/routers/{router['id']}/remove_router_interface", what)


def ports_of(admin: Api, router: Mapping[str, Any], owner: str = "") -> list[Object]:
    found = admin.all("/ports", {"device_id": router["id"]})
    return [port for port in found if not owner or port["device_owner"] == owner]


def agents_of(admin: Api, router: Mapping[str, Any]) -> list[str]:
    found = admin.get(f"/routers/{router['id']}/l3-agents").expect(200).body["agents"]
    return sorted(agent["host"] for agent in found)


def l3_agent(server: Server, host: str, zone: str | None = None, **configurations: Any) -> AgentReport:
    """A report of an L3 agent, and what follows from it."""
    known = {"agent_mode": "legacy", **configurations}
    made = server.registry.report(
        AgentState(L3, "neutron-l3-agent", host, "l3_agent", zone, configurations=known, start_flag=True)
    )
    server.service_plugins["router"].scheduler.reported(made)
    return made
