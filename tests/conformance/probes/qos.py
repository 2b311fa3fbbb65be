"""QoS policies and rules."""

from __future__ import annotations

from typing import Any

from tests.conformance.probes.asking import Probe, Shown
from tests.conformance.probes.samples import QOS_RULES
from tests.conformance.server import LiveServer


def both_directions(type_: str) -> Probe:
    def probe(server: LiveServer, shown: Shown) -> None:
        path = f"/v2.0/qos/policies/{shown['policies']['id']}/{type_}_rules"
        body = {f"{type_}_rule": {**QOS_RULES[type_], "direction": "ingress"}}
        made = server.ask("POST", path, body)[f"{type_}_rule"]
        assert (shown[f"{type_}_rules"]["direction"], made["direction"]) == ("egress", "ingress")
        server.ask("DELETE", f"{path}/{made['id']}")

    return probe


def default_policy(server: LiveServer, shown: Shown) -> None:
    policy = server.ask("POST", "/v2.0/qos/policies", {"policy": {"is_default": True}})["policy"]
    network = server.ask("POST", "/v2.0/networks", {"network": {}})["network"]
    server.ask("DELETE", f"/v2.0/networks/{network['id']}")
    server.ask("DELETE", f"/v2.0/qos/policies/{policy['id']}")
    assert network["qos_policy_id"] == policy["id"]


def gateway_policy(server: LiveServer, shown: Shown) -> None:
    path, policy = f"/v2.0/routers/{shown['routers']['id']}", shown["policies"]["id"]
    network = shown["routers"]["external_gateway_info"]["network_id"]

    def policy_after(value: str | None) -> Any:
        info = {"network_id": network, "qos_policy_id": value}
        changed = server.ask("PUT", path, {"router": {"external_gateway_info": info}})["router"]
        return changed["external_gateway_info"].get("qos_policy_id")

    assert policy_after(policy) == policy
    assert policy_after(None) is None


def all_rule_types(server: LiveServer, shown: Shown) -> None:
    for query in ("all_rules=true", "all_supported=true"):
        found = server.ask("GET", f"/v2.0/qos/rule-types?{query}")["rule_types"]
        assert {one["type"] for one in found} == set(QOS_RULES)


def request_groups(server: LiveServer, shown: Shown) -> None:
    body = {"port": {"network_id": shown["networks"]["id"], "qos_policy_id": shown["policies"]["id"]}}
    port = server.ask("POST", "/v2.0/ports", body)["port"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    groups = port["resource_request"]["request_groups"]
    assert len(groups) == 2
    assert port["resource_request"]["same_subtree"] == [group["id"] for group in groups]
