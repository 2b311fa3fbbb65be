"""VPN services, policies and endpoint groups."""

from __future__ import annotations

from tests.conformance.probes.asking import Probe, Shown, refused
from tests.conformance.server import LiveServer

IKE, CONNECTIONS = "/v2.0/vpn/ikepolicies", "/v2.0/vpn/ipsec-site-connections"


def site_connection(server: LiveServer, shown: Shown) -> None:
    service, found = shown["vpnservices"], shown["ipsec_site_connections"]
    assert service["status"] == found["status"] == "PENDING_CREATE"
    assert service["external_v4_ip"] is not None
    assert found["dpd"] == {"action": "hold", "interval": 30, "timeout": 120}
    refused(server, "DELETE", f"/v2.0/vpn/vpnservices/{service['id']}", status=409)
    refused(server, "DELETE", f"{IKE}/{found['ikepolicy_id']}", status=409)
    refused(
        server, "PUT", f"/v2.0/routers/{service['router_id']}", {"router": {"external_gateway_info": {}}}, status=409
    )
    path = f"{CONNECTIONS}/{found['id']}"
    refused(server, "PUT", path, {"ipsec_site_connection": {"dpd": {"timeout": 30}}})
    changed = server.ask("PUT", path, {"ipsec_site_connection": {"dpd": {"timeout": 90}}})["ipsec_site_connection"]
    assert changed["dpd"]["timeout"] == 90


def endpoints(server: LiveServer, shown: Shown) -> None:
    group = shown["endpoint_groups"]
    assert (group["type"], group["endpoints"]) == ("cidr", ["10.99.0.0/24"])
    refused(server, "POST", "/v2.0/vpn/endpoint-groups", {"endpoint_group": {"type": "cidr", "endpoints": ["x"]}})
    refused(server, "PUT", f"/v2.0/vpn/endpoint-groups/{group['id']}", {"endpoint_group": {"endpoints": []}})


def ciphers(*modes: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        for mode in modes:
            given = {"ikepolicy": {"encryption_algorithm": f"aes-256-{mode}"}}
            made = server.ask("POST", IKE, given)["ikepolicy"]
            assert made["encryption_algorithm"] == f"aes-256-{mode}"
            server.ask("DELETE", f"{IKE}/{made['id']}")

    return probe


def no_weak_algorithms(server: LiveServer, shown: Shown) -> None:
    assert shown["ikepolicies"]["auth_algorithm"] == shown["ipsecpolicies"]["auth_algorithm"] == "sha256"
    refused(server, "POST", IKE, {"ikepolicy": {"auth_algorithm": "sha1"}})
    refused(server, "POST", IKE, {"ikepolicy": {"encryption_algorithm": "3des"}})


def flavored_service(server: LiveServer, shown: Shown) -> None:
    flavor = server.ask("POST", "/v2.0/flavors", {"flavor": {"name": "vpn", "service_type": "VPN"}})["flavor"]["id"]
    given = {"vpnservice": {"router_id": shown["vpnservices"]["router_id"], "flavor_id": flavor}}
    made = server.ask("POST", "/v2.0/vpn/vpnservices", given)["vpnservice"]
    assert made["flavor_id"] == flavor
    refused(server, "DELETE", f"/v2.0/flavors/{flavor}", status=409)
    server.ask("DELETE", f"/v2.0/vpn/vpnservices/{made['id']}")
    server.ask("DELETE", f"/v2.0/flavors/{flavor}")
