"""Single resources: create, show, update and delete; first with one client, then ports with several concurrently."""

from __future__ import annotations

from qa.bench.timing import at_once, dealt, one_by_one
from qa.bench.workbench import Bench, identity


def one_client(bench: Bench) -> None:
    client, count = bench.client, bench.sizes.repeats
    measured, replies = one_by_one(range(count), lambda i: bench.create_network(f"crud{i}"))
    bench.record("create_network", measured)
    networks = [identity(reply) for reply in replies]

    measured, _ = one_by_one(enumerate(networks), lambda at: bench.create_subnet(at[1], f"10.{at[0] % 200}.0.0/16"))
    bench.record("create_subnet", measured)

    measured, replies = one_by_one(range(count), lambda i: bench.create_port(networks[0], f"p{i}"))
    bench.record("create_port", measured)
    ports = [identity(reply) for reply in replies]

    measured, _ = one_by_one(ports, lambda port: client.get(f"/ports/{port}"))
    bench.record("show_port", measured)
    measured, _ = one_by_one(ports, lambda port: client.put(f"/ports/{port}", {"port": {"name": f"new-{port}"}}))
    bench.record("update_port", measured)
    measured, _ = one_by_one(networks, lambda network: client.get(f"/networks/{network}"))
    bench.record("show_network", measured)
    measured, _ = one_by_one(ports, lambda port: client.delete(f"/ports/{port}"))
    bench.record("delete_port", measured)
    measured, _ = one_by_one(networks, lambda network: client.delete(f"/networks/{network}"))
    bench.record("delete_network", measured)


def several_clients(bench: Bench) -> None:
    network = bench.network_with_subnet("together", "10.1.0.0/16")
    clients = bench.sizes.clients
    each = max(1, bench.sizes.repeats * 2)
    body = {"port": {"network_id": network, "name": "together"}}
    measured, replies = at_once(bench.target, [range(each)] * clients, lambda client, _: client.post("/ports", body))
    bench.record("create_port_together", measured)
    ports = [identity(reply) for reply in replies]
    measured, _ = at_once(bench.target, dealt(ports, clients), lambda client, port: client.get(f"/ports/{port}"))
    bench.record("show_port_together", measured)
    bench.delete_all("ports", ports)
    bench.client.delete(f"/networks/{network}")
