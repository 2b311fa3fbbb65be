"""Requests of QoS tests."""

from __future__ import annotations

from typing import Any

from neutrino.model.objects import Object
from tests.api.client import Api, Response

DEAD = "00000000-0000-0000-0000-00000000dead"
# A rule of each type that may be together with the others in one policy.
RULES: dict[str, Object] = {
    "bandwidth_limit": {"max_kbps": 10_000, "max_burst_kbps": 800, "direction": "egress"},
    "dscp_marking": {"dscp_mark": 26},
    "minimum_bandwidth": {"min_kbps": 500, "direction": "egress"},
    "packet_rate_limit": {"max_kpps": 10, "max_burst_kpps": 5, "direction": "egress"},
    "minimum_packet_rate": {"min_kpps": 1, "direction": "egress"},
}


def policy(admin: Api, **values: Any) -> Object:
    return admin.make("policy", **{"name": "gold", **values})


def post_rule(admin: Api, policy_id: str, type_: str, **values: Any) -> Response:
    return admin.post(f"/qos/policies/{policy_id}/{type_}_rules", {f"{type_}_rule": {**RULES[type_], **values}})


def rule(admin: Api, policy_id: str, type_: str, **values: Any) -> Object:
    made: Object = post_rule(admin, policy_id, type_, **values).expect(201).body[f"{type_}_rule"]
    return made


def put_rule(admin: Api, policy_id: str, type_: str, key: str, **values: Any) -> Response:
    return admin.put(f"/qos/policies/{policy_id}/{type_}_rules/{key}", {f"{type_}_rule": values})


def delete_rule(admin: Api, policy_id: str, type_: str, key: str) -> Response:
    return admin.delete(f"/qos/policies/{policy_id}/{type_}_rules/{key}")
