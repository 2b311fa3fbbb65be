"""What tests of firewalls need: a policy with a rule, ports of instances and interfaces of routers."""

from __future__ import annotations

from typing import Any

from neutrino.model.objects import Object
from tests.api.client import Api
from tests.api.l3 import attach, inside


def policy_with(api: Api, *rules: Object, **values: Any) -> Object:
    """A policy with new rules of these attributes."""
    made = [api.make("firewall_rule", **rule)["id"] for rule in rules]
    return api.make("firewall_policy", firewall_rules=made, **values)


def interface(api: Api, cidr: str = "10.0.0.0/24", **router: Any) -> str:
    """The port of a new router on a new subnet."""
    _, subnet = inside(api, cidr)
    made = api.make("router", **router)
    port: str = attach(api, made, subnet_id=subnet["id"]).expect(200).body["port_id"]
    return port


def instance(api: Api, **values: Any) -> Object:
    """A port of an instance on a new network."""
    network, _ = inside(api)
    return api.port(network, **{"device_owner": "compute:nova", "device_id": "server", **values})
