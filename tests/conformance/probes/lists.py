"""Lists, tags, quotas, sharing and agents."""

from __future__ import annotations

from tests.conformance.probes.asking import Probe, Shown, ids, refused
from tests.conformance.server import PROJECT, LiveServer


def both_names(server: LiveServer, shown: Shown) -> None:
    assert shown["networks"]["project_id"] == shown["networks"]["tenant_id"] == PROJECT


def if_match(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/security-groups/{shown['security_groups']['id']}"
    body = {"security_group": {"description": "x"}}
    assert server.exchange("PUT", path, body, {"If-Match": "revision_number=9999"})[0] == 412


def pages(server: LiveServer, shown: Shown) -> None:
    answer = server.ask("GET", "/v2.0/networks?limit=1&sort_key=id&sort_dir=asc")
    assert len(answer["networks"]) == 1
    assert {link["rel"] for link in answer["networks_links"]} >= {"next"}


def order(server: LiveServer, shown: Shown) -> None:
    up, down = (ids(server, f"networks?sort_key=id&sort_dir={direction}") for direction in ("asc", "desc"))
    assert up == sorted(up) == down[::-1]


def empty_name(server: LiveServer, shown: Shown) -> None:
    assert shown["subnets"]["id"] in ids(server, "subnets?name=")
    assert shown["networks"]["id"] not in ids(server, "networks?name=")


def by_group(server: LiveServer, shown: Shown) -> None:
    assert ids(server, f"ports?security_groups={shown['security_groups']['id']}") == [shown["ports"]["id"]]


def by_part_of_address(server: LiveServer, shown: Shown) -> None:
    address = shown["ports"]["fixed_ips"][0]["ip_address"]
    assert shown["ports"]["id"] in ids(server, f"ports?fixed_ips=ip_address_substr%3D{address[:-1]}")


def quotas(server: LiveServer, shown: Shown) -> None:
    assert server.ask("PUT", f"/v2.0/quotas/{'cc' * 16}", {"quota": {"port": 7}})["quota"]["port"] == 7
    assert server.ask("GET", f"/v2.0/quotas/{'cc' * 16}/default")["quota"]["port"] == 500
    server.ask("DELETE", f"/v2.0/quotas/{'cc' * 16}")


def quota_details(server: LiveServer, shown: Shown) -> None:
    details = server.ask("GET", f"/v2.0/quotas/{PROJECT}/details.json")["quota"]
    assert details["port"]["used"] >= 1
    assert details["port"]["limit"] == 500


def quota_below_use(server: LiveServer, shown: Shown) -> None:
    body = {"quota": {"port": 0, "check_limit": True}}
    refused(server, "PUT", f"/v2.0/quotas/{PROJECT}", body, status=400)


def sharing(kind: str, collection: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        body = {
            "object_type": kind,
            "object_id": shown[collection]["id"],
            "action": "access_as_shared",
            "target_tenant": "bb" * 16,
        }
        policy = server.ask("POST", "/v2.0/rbac-policies", {"rbac_policy": body})["rbac_policy"]
        path = f"/v2.0/{collection.replace('_', '-')}/{shown[collection]['id']}"
        assert server.exchange("GET", path, headers={"X-Project-Id": "bb" * 16, "X-Roles": "member,reader"})[0] == 200
        server.ask("DELETE", f"/v2.0/rbac-policies/{policy['id']}")

    return probe


def zones(server: LiveServer, shown: Shown) -> None:
    assert server.ask("GET", "/v2.0/availability_zones?name=zone-1")["availability_zones"]
    assert server.ask("GET", "/v2.0/availability_zones?name=zone-2")["availability_zones"] == []


def scheduling(server: LiveServer, shown: Shown) -> None:
    network, agent = shown["networks"]["id"], shown["agents"]["id"]
    server.ask("DELETE", f"/v2.0/agents/{agent}/dhcp-networks/{network}")
    assert server.ask("GET", f"/v2.0/networks/{network}/dhcp-agents")["agents"] == []
    server.ask("POST", f"/v2.0/agents/{agent}/dhcp-networks", {"network_id": network})
    assert network in ids(server, f"agents/{agent}/dhcp-networks")


def tags(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}/tags"
    server.ask("PUT", path, {"tags": ["red"]})
    assert ids(server, "networks?tags=red") == [shown["networks"]["id"]]
    server.ask("DELETE", f"{path}/red")


def several_tags(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/subnets/{shown['subnets']['id']}/tags"
    server.ask("POST", path, {"tags": ["a", "b"]})
    assert server.ask("GET", path)["tags"] == ["a", "b"]


def tagged_from_the_start(server: LiveServer, shown: Shown) -> None:
    network = shown["networks"]["id"]
    body = {"ports": [{"network_id": network, "tags": ["t2", "t1"]}, {"network_id": network}]}
    first, second = server.ask("POST", "/v2.0/ports", body)["ports"]
    assert (first["tags"], second["tags"]) == (["t1", "t2"], [])
    assert ids(server, "ports?tags=t1,t2") == [first["id"]]
    refused(server, "POST", "/v2.0/ports", {"port": {"network_id": network, "tags": ["x", "x"]}})


def sorted_agents(server: LiveServer, shown: Shown) -> None:
    up, down = (ids(server, f"agents?sort_key=id&sort_dir={direction}") for direction in ("asc", "desc"))
    assert up == sorted(up) == down[::-1]


def marked_default(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/networks/{shown['networks']['id']}"
    assert server.ask("PUT", path, {"network": {"project_default": True}})["network"]["project_default"] is True


def quota_checked_unasked(server: LiveServer, shown: Shown) -> None:
    refused(server, "PUT", f"/v2.0/quotas/{PROJECT}", {"quota": {"port": 0}})
