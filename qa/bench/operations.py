"""The operations that `compare` and `statements` send, each a request that uses objects of earlier ones."""

from __future__ import annotations

from collections.abc import Callable

from qa.bench.client import Client, Reply

HEADERS = {"X-Project-Id": "bench", "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
Ids = dict[str, list[str]]  # ids of created objects, by operation
Request = Callable[[Client, Ids, int], Reply]


def _interface(action: str) -> Request:
    def request(client: Client, ids: Ids, number: int) -> Reply:
        path = f"/routers/{ids['create_router'][number]}/{action}_router_interface"
        return client.put(path, {"subnet_id": ids["create_subnet"][number]})

    return request


def _gateway(present: bool) -> Request:
    def request(client: Client, ids: Ids, number: int) -> Reply:
        information = {"network_id": ids["outside"][0]} if present else None
        path = f"/routers/{ids['create_router'][number]}"
        return client.put(path, {"router": {"external_gateway_info": information}})

    return request


def prepare(client: Client, ids: Ids) -> None:
    """Create what the operations share: an external network with a subnet."""
    outside = client.post("/networks", {"network": {"name": "bench-outside", "router:external": True}}).item()["id"]
    subnet = {"network_id": outside, "ip_version": 4, "cidr": "172.24.0.0/16", "enable_dhcp": False}
    client.post("/subnets", {"subnet": subnet})
    ids["outside"].append(str(outside))


# In this order: later operations use the objects of earlier ones.
OPERATIONS: dict[str, Request] = {
    "create_network": lambda client, ids, number: client.post("/networks", {"network": {"name": f"bench-{number}"}}),
    "create_subnet": lambda client, ids, number: client.post(
        "/subnets", {"subnet": {"network_id": ids["create_network"][number], "ip_version": 4, "cidr": "10.0.0.0/24"}}
    ),
    "create_port": lambda client, ids, number: client.post(
        "/ports", {"port": {"network_id": ids["create_network"][number]}}
    ),
    "show_port": lambda client, ids, number: client.get(f"/ports/{ids['create_port'][number]}"),
    "list_ports": lambda client, ids, number: client.get("/ports"),
    "update_port": lambda client, ids, number: client.put(
        f"/ports/{ids['create_port'][number]}", {"port": {"name": "renamed"}}
    ),
    "create_router": lambda client, ids, number: client.post("/routers", {"router": {"name": f"bench-{number}"}}),
    "add_interface": _interface("add"),
    "set_gateway": _gateway(True),
    "create_floatingip": lambda client, ids, number: client.post(
        "/floatingips", {"floatingip": {"floating_network_id": ids["outside"][0]}}
    ),
    "associate_floatingip": lambda client, ids, number: client.put(
        f"/floatingips/{ids['create_floatingip'][number]}", {"floatingip": {"port_id": ids["create_port"][number]}}
    ),
    "show_router": lambda client, ids, number: client.get(f"/routers/{ids['create_router'][number]}"),
    "delete_floatingip": lambda client, ids, number: client.delete(f"/floatingips/{ids['create_floatingip'][number]}"),
    "clear_gateway": _gateway(False),
    "remove_interface": _interface("remove"),
    "create_group": lambda client, ids, number: client.post("/security-groups", {"security_group": {"name": "bench"}}),
    "create_rule": lambda client, ids, number: client.post(
        "/security-group-rules",
        {
            "security_group_rule": {
                "security_group_id": ids["create_group"][number],
                "direction": "ingress",
                "protocol": "tcp",
                "port_range_min": 80,
                "port_range_max": 80,
            }
        },
    ),
    "delete_group": lambda client, ids, number: client.delete(f"/security-groups/{ids['create_group'][number]}"),
    "delete_router": lambda client, ids, number: client.delete(f"/routers/{ids['create_router'][number]}"),
    "delete_port": lambda client, ids, number: client.delete(f"/ports/{ids['create_port'][number]}"),
    "delete_subnet": lambda client, ids, number: client.delete(f"/subnets/{ids['create_subnet'][number]}"),
    "delete_network": lambda client, ids, number: client.delete(f"/networks/{ids['create_network'][number]}"),
}
