"""Clouds for the tests of the topology page, made through the API."""

from __future__ import annotations

import http
from typing import Any

from tests.support.neutrino import Caller

UNLIMITED = {"quotas": {f"quota_{kind}": -1 for kind in ("network", "subnet", "port", "router", "floatingip")}}


def attach(api: Caller, router: str, subnet: str) -> None:
    answer = api("PUT", f"/v2.0/routers/{router}/add_router_interface", {"subnet_id": subnet})
    assert answer.status_code == http.HTTPStatus.OK, answer.text


def small_cloud(api: Caller) -> dict[str, dict[str, Any]]:
    """public ── edge ── web (2 ports, one with a floating IP), db (8 ports); alone (1 port, without a router)."""
    found: dict[str, dict[str, Any]] = {}
    found["public"] = api.create("network", name="public", **{"router:external": True})
    outside = {"cidr": "203.0.113.0/24", "enable_dhcp": False, "ip_version": 4}
    api.create("subnet", network_id=found["public"]["id"], **outside)
    found["edge"] = api.create("router", name="edge", external_gateway_info={"network_id": found["public"]["id"]})
    for number, (name, ports) in enumerate((("web", 2), ("db", 8), ("alone", 1))):
        network = found[name] = api.create("network", name=name)
        values = {"cidr": f"10.0.{number}.0/24", "ip_version": 4, "enable_dhcp": False}
        subnet = found[f"{name}-v4"] = api.create("subnet", name=f"{name}-v4", network_id=network["id"], **values)
        if name != "alone":
            attach(api, found["edge"]["id"], subnet["id"])
        for each in range(ports):
            device = {"device_owner": "compute:nova", "device_id": f"{number}{each}000000-0000-4000-8000-000000000000"}
            found[f"{name}-{each}"] = api.create("port", name=f"{name}-{each}", network_id=network["id"], **device)
    found["floating"] = api.create(
        "floatingip", floating_network_id=found["public"]["id"], port_id=found["web-0"]["id"]
    )
    return found


def large_cloud(url: str, *, projects: int, networks: int) -> None:
    """So many projects, each with a router, and so many networks, of which five are attached, with a port each."""
    for number in range(projects):
        api = Caller(url, {"X-Project-Id": f"{number:032x}"})
        router = api.create("router", name=f"router-{number}")
        made = bulk(api, "networks", [{"name": f"net-{number}-{each}"} for each in range(networks)])
        wanted = [
            {"network_id": each["id"], "ip_version": 4, "cidr": f"10.{number}.{at}.0/24", "enable_dhcp": False}
            for at, each in enumerate(made)
        ]
        for subnet in bulk(api, "subnets", wanted)[:5]:
            attach(api, router["id"], subnet["id"])
        bulk(api, "ports", [{"network_id": each["id"], "name": f"vm-{at}"} for at, each in enumerate(made)])
        api.close()


def huge_cloud(url: str, *, projects: int, networks: int, ports: int) -> str:
    """So many projects, networks in each, and ports on all of them. The binding of one port fails, whose id it returns."""
    first = Caller(url)
    first.create("network", name="public", **{"router:external": True})
    device = {"device_owner": "compute:nova"}
    for number in range(projects):
        api = Caller(url, {"X-Project-Id": f"{number:032x}"})
        router = api.create("router", name=f"router-{number}")
        made = bulk(api, "networks", [{"name": f"net-{number}-{each}"} for each in range(networks)])
        wanted = [
            {"network_id": each["id"], "ip_version": 4, "cidr": f"10.{number}.{at}.0/24", "enable_dhcp": False}
            for at, each in enumerate(made)
        ]
        for subnet in bulk(api, "subnets", wanted)[:3]:
            attach(api, router["id"], subnet["id"])
        share = ports // projects + (1 if number < ports % projects else 0)
        names = [
            {
                "network_id": made[at % networks]["id"],
                "name": f"vm-{number}-{at}",
                **device,
                "device_id": f"d-{number}-{at}",
            }
            for at in range(share)
        ]
        for start in range(0, share, 200):
            bulk(api, "ports", names[start : start + 200])
        api.close()
    network = first.create("network", name="net-failing", project_id=f"{0:032x}")
    failing = {"name": "vm-failing", "binding:host_id": "nowhere", "project_id": f"{0:032x}"}
    return str(first.create("port", network_id=network["id"], **device, **failing)["id"])


def bulk(api: Caller, collection: str, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = api("POST", f"/v2.0/{collection}", {collection: values})
    assert answer.status_code == http.HTTPStatus.CREATED, answer.text
    made: list[dict[str, Any]] = answer.json()[collection]
    return made
