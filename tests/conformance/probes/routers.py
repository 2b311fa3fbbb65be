"""Routers, floating IPs, firewalls and BGP speakers."""

from __future__ import annotations

import ipaddress

from neutrino.model.agents import BGP, L3, AgentState
from tests.conformance.probes.asking import Shown, ids, refused
from tests.conformance.server import LiveServer


def single_routes(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/routers/{shown['routers']['id']}"
    hop = {"destination": "198.51.100.0/24", "nexthop": str(ipaddress.ip_network(shown["subnets"]["cidr"])[250])}
    assert server.ask("PUT", f"{path}/add_extraroutes", {"router": {"routes": [hop]}})["router"]["routes"] == [hop]
    assert server.ask("PUT", f"{path}/remove_extraroutes", {"router": {"routes": [hop]}})["router"]["routes"] == []


def several_gateways(server: LiveServer, shown: Shown) -> None:
    router = server.ask("POST", "/v2.0/routers", {"router": {}})["router"]
    gateways = []
    for i in (1, 2):
        network = {"network": {"router:external": True}}
        made = server.ask("POST", "/v2.0/networks", network)["network"]["id"]
        subnet = {"network_id": made, "ip_version": 4, "cidr": f"198.18.{i}.0/24"}
        server.ask("POST", "/v2.0/subnets", {"subnet": subnet})
        gateways.append({"network_id": made})
    path, body = f"/v2.0/routers/{router['id']}", {"router": {"external_gateways": gateways}}
    added = server.ask("PUT", f"{path}/add_external_gateways", body)["router"]
    assert [each["network_id"] for each in added["external_gateways"]] == [each["network_id"] for each in gateways]
    body = {"router": {"external_gateways": gateways[::-1]}}
    updated = server.ask("PUT", f"{path}/update_external_gateways", body)["router"]
    assert updated["external_gateways"] == added["external_gateways"][::-1]
    assert server.ask("PUT", f"{path}/remove_external_gateways", body)["router"]["external_gateways"] == []
    server.ask("DELETE", path)


def default_routes_over_all(server: LiveServer, shown: Shown) -> None:
    body = {"router": {"enable_default_route_ecmp": True}}
    router = server.ask("POST", "/v2.0/routers", body)["router"]
    assert router["enable_default_route_ecmp"] is True
    server.ask("DELETE", f"/v2.0/routers/{router['id']}")


def supervised_next_hops(server: LiveServer, shown: Shown) -> None:
    router = server.ask("POST", "/v2.0/routers", {"router": {"enable_default_route_bfd": True}})["router"]
    assert router["enable_default_route_bfd"] is True
    path, body = f"/v2.0/routers/{router['id']}", {"router": {"enable_default_route_bfd": False}}
    assert server.ask("PUT", path, body)["router"]["enable_default_route_bfd"] is False
    server.ask("DELETE", path)


def typed_router(server: LiveServer, shown: Shown) -> None:
    service_type = shown["flavors"]["id"]
    body = {"router": {"service_type_id": service_type}}
    router = server.ask("POST", "/v2.0/routers", body)["router"]
    path = f"/v2.0/routers/{router['id']}"
    assert server.ask("GET", path)["router"]["service_type_id"] == service_type
    refused(server, "PUT", path, body)
    server.ask("DELETE", path)


def routers_of_agents(server: LiveServer, shown: Shown) -> None:
    server.report_agents([AgentState(L3, "neutron-l3-agent", "host-1", "l3_agent", "zone-1", start_flag=True)])
    agent = server.ask("GET", "/v2.0/agents?agent_type=L3%20agent")["agents"][0]["id"]
    router = shown["routers"]["id"]
    server.ask("POST", f"/v2.0/agents/{agent}/l3-routers", {"router_id": router})
    assert router in ids(server, f"agents/{agent}/l3-routers")
    assert [a["id"] for a in server.ask("GET", f"/v2.0/routers/{router}/l3-agents")["agents"]] == [agent]
    server.ask("DELETE", f"/v2.0/agents/{agent}/l3-routers/{router}")
    assert server.ask("GET", f"/v2.0/routers/{router}/l3-agents")["agents"] == []


def kind_while_up(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/routers/{shown['routers']['id']}"
    refused(server, "PUT", path, {"router": {"distributed": True}})


def ids_of_forwardings(server: LiveServer, shown: Shown) -> None:
    found = server.ask("GET", f"/v2.0/floatingips/{shown['floatingips']['id']}")["floatingip"]["port_forwardings"]
    wanted = {name: shown["port_forwardings"][name] for name in ("id", "internal_port_id")}
    assert [{name: one[name] for name in wanted} for one in found] == [wanted]


def firewall_revisions(server: LiveServer, shown: Shown) -> None:
    rule = shown["firewall_rules"]
    changed = server.ask("PUT", f"/v2.0/fwaas/firewall_rules/{rule['id']}", {"firewall_rule": {"description": "x"}})
    assert changed["firewall_rule"]["revision_number"] > rule["revision_number"]
    for collection in ("firewall_rules", "firewall_policies", "firewall_groups"):
        assert shown[collection].keys() >= {"description", "created_at", "updated_at", "revision_number", "tags"}


def speaker_with_peer_and_network(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/bgp-speakers/{shown['bgp_speakers']['id']}"
    peer, network = shown["bgp_peers"]["id"], shown["networks"]["id"]
    assert server.ask("PUT", f"{path}/add_bgp_peer", {"bgp_peer_id": peer}) == {"bgp_peer_id": peer}
    assert server.ask("PUT", f"{path}/add_gateway_network", {"network_id": network}) == {"network_id": network}
    found = server.ask("GET", path)["bgp_speaker"]
    assert (found["peers"], found["networks"]) == ([peer], [network])
    assert server.ask("GET", f"{path}/get_advertised_routes") == {"advertised_routes": []}
    refused(server, "PUT", f"{path}/add_bgp_peer", {"bgp_peer_id": peer}, status=409)
    server.ask("PUT", f"{path}/remove_bgp_peer", {"bgp_peer_id": peer})
    server.ask("PUT", f"{path}/remove_gateway_network", {"network_id": network})


def long_as_numbers(server: LiveServer, shown: Shown) -> None:
    given = {"local_as": 4294967295, "ip_version": 6}
    made = server.ask("POST", "/v2.0/bgp-speakers", {"bgp_speaker": given})["bgp_speaker"]
    assert made["local_as"] == 4294967295
    refused(server, "POST", "/v2.0/bgp-speakers", {"bgp_speaker": {**given, "local_as": 4294967296}})
    server.ask("DELETE", f"/v2.0/bgp-speakers/{made['id']}")


def speakers_of_agents(server: LiveServer, shown: Shown) -> None:
    server.report_agents([AgentState(BGP, "neutron-bgp-dragent", "host-b", "bgp_dragent", start_flag=True)])
    (agent,) = server.ask("GET", "/v2.0/agents?host=host-b")["agents"]
    speaker = shown["bgp_speakers"]["id"]
    path, hosting = f"/v2.0/agents/{agent['id']}/bgp-drinstances", f"/v2.0/bgp-speakers/{speaker}/bgp-dragents"
    server.ask("POST", path, {"bgp_speaker_id": speaker})
    assert [each["id"] for each in server.ask("GET", path)["bgp_speakers"]] == [speaker]
    assert [each["id"] for each in server.ask("GET", hosting)["agents"]] == [agent["id"]]
    refused(server, "POST", path, {"bgp_speaker_id": speaker}, status=409)
    server.ask("DELETE", f"{path}/{speaker}")
    assert server.ask("GET", hosting) == {"agents": []}


def chosen_router(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]["id"]
    server.ask("POST", "/v2.0/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.97.0.0/24"}})
    port = server.ask("POST", "/v2.0/ports", {"port": {"network_id": network}})["port"]["id"]
    values = {"floating_network_id": shown["floatingips"]["floating_network_id"], "port_id": port}
    refused(server, "POST", "/v2.0/floatingips", {"floatingip": values}, status=404)
    body = {"floatingip": {**values, "router_id": shown["routers"]["id"]}}
    made = server.ask("POST", "/v2.0/floatingips", body)["floatingip"]
    server.ask("DELETE", f"/v2.0/floatingips/{made['id']}")
    assert made["router_id"] == shown["routers"]["id"]


def fixed_router_addresses(server: LiveServer, shown: Shown) -> None:
    query = f"device_id={shown['routers']['id']}&device_owner=network:router_interface"
    port = server.ask("GET", f"/v2.0/ports?{query}")["ports"][0]
    refused(server, "PUT", f"/v2.0/ports/{port['id']}", {"port": {"fixed_ips": []}})
