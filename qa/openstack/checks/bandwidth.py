"""Guaranteed bandwidth: Nova places servers by what hosts report to Placement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from qa.openstack.checks.expect import expect, until
from qa.openstack.checks.servers import Server, create, figures
from qa.openstack.cloud import Cloud
from qa.openstack.services.neutrino import TUNNEL_KBPS
from qa.openstack.services.resources import DEMO, LARGER_FLAVOR, NETWORK

SHARE = TUNNEL_KBPS * 6 // 10  # a host has room for one of them
CLASS = "NET_BW_EGR_KILOBIT_PER_SEC"
_VERSION = {"OpenStack-API-Version": "placement 1.28"}


def check_bandwidth(cloud: Cloud) -> str:
    """One server with a minimum fits on each host; resize, another policy and deletion change allocations."""
    network = cloud.connect().network

    def synced() -> bool:  # the agents started before Nova had registered the hosts
        return all(agent.resources_synced for agent in network.agents(agent_type="Open vSwitch agent"))

    times = {"in Placement": until(synced, "Placement has what the hosts guarantee", 120)}
    with ExitStack() as stack:
        policy, less = (stack.enter_context(_policy(cloud, kbps)) for kbps in (SHARE, SHARE // 2))
        first, port = stack.enter_context(_server(cloud, "guaranteed", policy))
        times["ACTIVE"] = first.wait_for("ACTIVE")
        _expect_allocated(cloud, first, SHARE)
        times["resized"] = _resize(cloud, first)
        _expect_allocated(cloud, first, SHARE)
        with _server(cloud, "guaranteed-too", policy) as (second, _):
            second.wait_for("ACTIVE")
            expect(second.host != first.host, f"both servers are on {first.host}, which has room for one")
            with _server(cloud, "guaranteed-no-more", policy) as (third, _):
                third.wait_for("ERROR")
                fault = (third.show().fault or {}).get("message", "")
                expect("No valid host" in fault, f"the third server is refused with {fault!r}")
        network.update_port(port, qos_policy_id=less)
        _expect_allocated(cloud, first, SHARE // 2)
        network.update_port(port, qos_policy_id=policy)
        _expect_allocated(cloud, first, SHARE)
    expect(_allocated(cloud, first) == 0, "the deleted server still has an allocation")
    return figures(times)


@contextmanager
def _policy(cloud: Cloud, kbps: int) -> Iterator[str]:
    network = cloud.connect().network
    made = network.create_qos_policy(name=f"at-least-{kbps}", is_shared=True)
    try:
        network.create_qos_minimum_bandwidth_rule(made, min_kbps=kbps, direction="egress")
        yield str(made.id)
    finally:
        network.delete_qos_policy(made.id)


@contextmanager
def _server(cloud: Cloud, name: str, policy: str) -> Iterator[tuple[Server, str]]:
    """A server with a port of this policy, and the port's id."""
    admin, demo = cloud.connect().network, cloud.connect(*DEMO).network
    port = demo.create_port(network_id=demo.find_network(NETWORK).id, name=name)
    try:
        admin.update_port(port.id, qos_policy_id=policy)
        server = create(cloud, name, networks=[{"port": port.id}])
        try:
            yield server, port.id
        finally:
            server.delete()
    finally:
        admin.delete_port(port.id)


def _resize(cloud: Cloud, server: Server) -> float:
    compute = cloud.connect(*DEMO).compute
    compute.resize_server(server.id, compute.find_flavor(LARGER_FLAVOR).id)
    seconds = server.wait_for("VERIFY_RESIZE")
    compute.confirm_server_resize(server.id)
    return seconds + server.wait_for("ACTIVE")


def _allocated(cloud: Cloud, server: Server) -> int:
    """The bandwidth that a server has allocated, on all providers."""
    placement: Any = cloud.connect().placement
    found = placement.get(f"/allocations/{server.id}", headers=_VERSION).json()["allocations"]
    return sum(each["resources"].get(CLASS, 0) for each in found.values())


def _expect_allocated(cloud: Cloud, server: Server, kbps: int) -> None:
    until(lambda: _allocated(cloud, server) == kbps, f"{kbps} kbit/s are allocated", 30)
