"""Networks, segments, subnets and their pools."""

from __future__ import annotations

from neutrino.model.objects import Object
from tests.conformance.probes.asking import Probe, Shown, ids, refused
from tests.conformance.server import LiveServer


def from_pool(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["subnetpool_id"] == shown["subnetpools"]["id"]
    assert shown["subnets"]["cidr"].startswith("10.64.")


def prefixes(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnetpools/{shown['subnetpools']['id']}"
    assert "10.80.0.0/16" in server.ask("PUT", f"{path}/add_prefixes", {"prefixes": ["10.80.0.0/16"]})["prefixes"]
    assert (
        "10.80.0.0/16" not in server.ask("PUT", f"{path}/remove_prefixes", {"prefixes": ["10.80.0.0/16"]})["prefixes"]
    )


def no_second_default(server: LiveServer, shown: Shown) -> None:
    refused(server, "POST", "/v2.0/security-groups", {"security_group": {"name": "default"}}, status=409)


def writable_mtu(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}"
    assert server.ask("PUT", path, {"network": {"mtu": 1400}})["network"]["mtu"] == 1400


def network_with_all_on_it(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {"name": "full"}})["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.91.0.0/24"}
    subnet = server.ask("POST", "/v2.0/subnets", {"subnet": subnet})["subnet"]["id"]
    router = server.ask("POST", "/v2.0/routers", {"router": {"name": "full"}})["router"]["id"]
    server.ask("PUT", f"/v2.0/routers/{router}/add_router_interface", {"subnet_id": subnet})
    port = server.ask("POST", "/v2.0/ports", {"port": {"network_id": network}})["port"]["id"]
    refused(server, "DELETE", f"/v2.0/networks/{network}", status=409)
    refused(server, "DELETE", f"/v2.0/networks/{network}?cascade=maybe")
    server.ask("DELETE", f"/v2.0/networks/{network}?cascade=true")
    for key, collection in ((network, "networks"), (subnet, "subnets"), (port, "ports")):
        assert key not in ids(server, collection)
    assert router in ids(server, "routers")
    server.ask("DELETE", f"/v2.0/routers/{router}")


def external_subnets(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["id"] in ids(server, "subnets?router:external=false")
    assert shown["subnets"]["id"] not in ids(server, "subnets?router:external=true")


def unused_go(server: LiveServer, shown: Shown) -> None:
    body = {"network": {"name": "turned", "router:external": True}}
    network = server.ask("POST", "/v2.0/networks", body)["network"]["id"]
    server.ask("POST", "/v2.0/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}})
    floating = server.ask("POST", "/v2.0/floatingips", {"floatingip": {"floating_network_id": network}})["floatingip"]
    server.ask("PUT", f"/v2.0/networks/{network}", {"network": {"router:external": False}})
    assert floating["id"] not in ids(server, "floatingips")


def ha_networks(server: LiveServer, shown: Shown) -> None:
    body = {"network": {"name": "meeting", "ha": True, "project_id": "dd" * 16}}
    assert "ha" not in server.ask("POST", "/v2.0/networks", body)["network"]
    refused(server, "POST", "/v2.0/networks", body, status=409)


def segment_revisions(server: LiveServer, shown: Shown) -> None:
    segment = shown["segments"]
    changed = server.ask("PUT", f"/v2.0/segments/{segment['id']}", {"segment": {"name": "x"}})["segment"]
    assert changed["revision_number"] == segment["revision_number"] + 1
    assert set(changed) >= {"created_at", "updated_at", "description"}


def routed_network(server: LiveServer) -> tuple[list[Object], list[Object]]:
    """The segments and subnets of a network whose two subnets are on two segments."""
    provider = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    network = server.ask("POST", "/v2.0/networks", {"network": provider})["network"]
    more = {"network_id": network["id"], "network_type": "vlan", "physical_network": "physnet1"}
    server.ask("POST", "/v2.0/segments", {"segment": more})
    found = server.ask("GET", f"/v2.0/segments?network_id={network['id']}&sort_key=created_at")["segments"]
    subnets = []
    for number, segment in enumerate(found):
        values = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
        values |= {"segment_id": segment["id"], "gateway_ip": f"10.{number}.0.1"}
        subnets.append(server.ask("POST", "/v2.0/subnets", {"subnet": values})["subnet"])
    return found, subnets


def peer_routes(server: LiveServer, shown: Shown) -> None:
    _, (first, second) = routed_network(server)
    routes = server.ask("GET", f"/v2.0/subnets/{first['id']}")["subnet"]["host_routes"]
    assert routes == [{"destination": second["cidr"], "nexthop": first["gateway_ip"]}]


def set_segment(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]
    values = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
    subnet = server.ask("POST", "/v2.0/subnets", {"subnet": values})["subnet"]
    (segment,) = server.ask("GET", f"/v2.0/segments?network_id={network['id']}")["segments"]
    body = {"subnet": {"segment_id": segment["id"]}}
    status, _ = server.exchange("PUT", f"/v2.0/subnets/{subnet['id']}", body, headers={"X-Roles": "member,reader"})
    assert status == 403
    changed = server.ask("PUT", f"/v2.0/subnets/{subnet['id']}", body)["subnet"]
    assert changed["segment_id"] == segment["id"]


def tagging_network(name: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        made = server.ask("POST", "/v2.0/networks", {"network": {name: True}})["network"]
        assert ids(server, f"networks?{name}=true") == [made["id"]]
        server.ask("DELETE", f"/v2.0/networks/{made['id']}")
        refused(server, "POST", "/v2.0/networks", {"network": {name: True, "provider:network_type": "flat"}})

    return probe


def onboarding(server: LiveServer, shown: Shown) -> None:
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]["id"]
    body = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.99.0.0/24"}}
    subnet = server.ask("POST", "/v2.0/subnets", body)["subnet"]["id"]
    pool = server.ask("POST", "/v2.0/subnetpools", {"subnetpool": {"name": "p", "prefixes": ["10.98.0.0/24"]}})
    path = f"/v2.0/subnetpools/{pool['subnetpool']['id']}/onboard_network_subnets"
    assert server.ask("PUT", path, {"network_id": network}) == [{"id": subnet, "cidr": "10.99.0.0/24"}]
    assert server.ask("GET", f"/v2.0/subnets/{subnet}")["subnet"]["subnetpool_id"] == pool["subnetpool"]["id"]


def published_subnet(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnets/{shown['subnets']['id']}"
    assert server.ask("PUT", path, {"subnet": {"dns_publish_fixed_ip": True}})["subnet"]["dns_publish_fixed_ip"] is True


def domain_keywords(server: LiveServer, shown: Shown) -> None:
    domain = "<user_name>.<project_id>.example.org."
    network = server.ask("POST", "/v2.0/networks", {"network": {"dns_domain": domain}})["network"]
    server.ask("DELETE", f"/v2.0/networks/{network['id']}")
    assert network["dns_domain"] == domain
    refused(server, "POST", "/v2.0/networks", {"network": {"dns_domain": "<nobody>.example.org."}})
