"""Routers and floating IPs, if the server has them."""

from __future__ import annotations

from qa.bench.client import Client
from qa.bench.timing import one_by_one, repeated
from qa.bench.workbench import Bench, identity


def offered(client: Client) -> bool:
    """Whether the server lists the router extension."""
    return any(extension["alias"] == "router" for extension in client.get("/extensions").items())


def run(bench: Bench) -> None:
    client, count, times = bench.client, bench.sizes.routers, bench.sizes.list_repeats
    outside = identity(bench.create_network("outside", **{"router:external": True}))
    bench.create_subnet(outside, "172.24.0.0/16", enable_dhcp=False)
    networks = [identity(bench.create_network(f"inside{i}")) for i in range(count)]
    subnets = [identity(bench.create_subnet(networks[i], f"10.100.{i}.0/24")) for i in range(count)]

    measured, replies = one_by_one(
        range(count), lambda i: client.post("/routers", {"router": {"name": f"bench-router{i}"}})
    )
    bench.record("create_router", measured)
    routers = [identity(reply) for reply in replies]
    pairs = list(zip(routers, subnets, strict=True))
    measured, _ = one_by_one(
        pairs, lambda pair: client.put(f"/routers/{pair[0]}/add_router_interface", {"subnet_id": pair[1]})
    )
    bench.record("add_interface", measured)
    gateway = {"router": {"external_gateway_info": {"network_id": outside}}}
    measured, _ = one_by_one(routers, lambda router: client.put(f"/routers/{router}", gateway))
    bench.record("set_gateway", measured)

    ports = [identity(bench.create_port(network)) for network in networks]
    address = {"floatingip": {"floating_network_id": outside}}
    measured, replies = one_by_one(range(count), lambda _: client.post("/floatingips", address))
    bench.record("create_floatingip", measured)
    floating = [identity(reply) for reply in replies]
    measured, _ = one_by_one(
        zip(floating, ports, strict=True),
        lambda pair: client.put(f"/floatingips/{pair[0]}", {"floatingip": {"port_id": pair[1]}}),
    )
    bench.record("associate_floatingip", measured)

    measured, _ = one_by_one(routers, lambda router: client.get(f"/routers/{router}"))
    bench.record("show_router", measured)
    bench.record("list_routers", repeated(client, "/routers", times))
    bench.record("list_floatingips", repeated(client, "/floatingips", times))

    measured, _ = one_by_one(floating, lambda item: client.delete(f"/floatingips/{item}"))
    bench.record("delete_floatingip", measured)
    no_gateway = {"router": {"external_gateway_info": None}}
    measured, _ = one_by_one(routers, lambda router: client.put(f"/routers/{router}", no_gateway))
    bench.record("clear_gateway", measured)
    measured, _ = one_by_one(
        pairs, lambda pair: client.put(f"/routers/{pair[0]}/remove_router_interface", {"subnet_id": pair[1]})
    )
    bench.record("remove_interface", measured)
    measured, _ = one_by_one(routers, lambda router: client.delete(f"/routers/{router}"))
    bench.record("delete_router", measured)
    bench.delete_all("ports", ports)
    bench.delete_all("networks", [*networks, outside])
