"""What tests of BGP speakers need: objects, agents, and networks in an address scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neutrino.model.agents import BGP, AgentState
from neutrino.model.objects import Object
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.main import Server
from tests.api.client import Api, Response

SPEAKERS, PEERS = "/bgp-speakers", "/bgp-peers"


def speaker(admin: Api, **values: Any) -> Object:
    return admin.make("bgp_speaker", **{"local_as": 64512, "ip_version": 4, **values})


def peer(admin: Api, **values: Any) -> Object:
    return admin.make("bgp_peer", **{"peer_ip": "192.0.2.1", "remote_as": 65000, "auth_type": "none", **values})


def act(admin: Api, one: Mapping[str, Any], action: str, **body: Any) -> Response:
    return admin.put(f"{SPEAKERS}/{one['id']}/{action}", body)


def routes(admin: Api, one: Mapping[str, Any]) -> dict[str, str]:
    """The advertised routes: destination → next hop."""
    found = admin.get(f"{SPEAKERS}/{one['id']}/get_advertised_routes").expect(200).body["advertised_routes"]
    made = {each["destination"]: each["next_hop"] for each in found}
    assert len(made) == len(found)
    return made


def pool(admin: Api, scope: Mapping[str, Any] | None, prefix: str, length: int) -> Object:
    """A subnet pool in a scope, from which subnets of a prefix length are allocated."""
    values = {} if scope is None else {"address_scope_id": scope["id"]}
    return admin.make("subnetpool", name="p", prefixes=[prefix], default_prefixlen=length, shared=True, **values)


def bgp_agent(server: Server, host: str) -> AgentReport:
    """A report of a BGP agent, and what follows from it."""
    made = server.registry.report(
        AgentState(BGP, "neutron-bgp-dragent", host, "bgp_dragent", start_flag=True, configurations={})
    )
    server.service_plugins["bgp"].schedulers[0].reported(made)
    return made
