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
EGRESS, PACKETS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"
TUNNELS = "rp_tunnelled"
SWITCH = ""  # the provider of packets is the agent itself
Allocations = dict[str, dict[str, dict[str, int]]]  # by host, then device and resource class
_AGENT = ":Open vSwitch agent"
_VERSION = {"OpenStack-API-Version": "placement 1.28"}


def check_bandwidth(cloud: Cloud) -> str:
    """One server with a minimum fits on each host; resize, another policy and deletion change allocations."""
    network = cloud.connect().network
    times = {"in Placement": wait_for_placement(cloud)}
    with ExitStack() as stack:
        policy, less = (stack.enter_context(at_least(cloud, kbps)) for kbps in (SHARE, SHARE // 2))
        port = stack.enter_context(port_with(cloud, NETWORK, policy))
        first = stack.enter_context(server_with(cloud, "guaranteed", port))
        times["ACTIVE"] = first.wait_for("ACTIVE")
        expect_allocated(first, SHARE)
        times["resized"] = _resize(cloud, first)
        expect_allocated(first, SHARE)
        with _server_of(cloud, "guaranteed-too", policy) as second:
            second.wait_for("ACTIVE")
            expect(second.host != first.host, f"both servers are on {first.host}, which has room for one")
            with _server_of(cloud, "guaranteed-no-more", policy) as third:
                third.wait_for("ERROR")
                fault = (third.show().fault or {}).get("message", "")
                expect("No valid host" in fault, f"the third server is refused with {fault!r}")
        network.update_port(port, qos_policy_id=less)
        expect_allocated(first, SHARE // 2)
        network.update_port(port, qos_policy_id=policy)
        expect_allocated(first, SHARE)
    expect(allocations(first) == {}, "the deleted server still has an allocation")
    return figures(times)


def wait_for_placement(cloud: Cloud) -> float:
    """Until Placement has what all hosts guarantee: the agents started before Nova had registered the hosts."""
    network = cloud.connect().network
    agents = {"agent_type": "Open vSwitch agent"}
    return until(
        lambda: all(agent.resources_synced for agent in network.agents(**agents)),
        "Placement has what the hosts guarantee",
        120,
    )


@contextmanager
def at_least(cloud: Cloud, kbps: int, kpps: int = 0) -> Iterator[str]:
    """A QoS policy with minimums; its id."""
    network = cloud.connect().network
    made = network.create_qos_policy(name=f"at-least-{kbps}", is_shared=True)
    try:
        network.create_qos_minimum_bandwidth_rule(made, min_kbps=kbps, direction="egress")
        if kpps:
            network.create_qos_minimum_packet_rate_rule(made, min_kpps=kpps, direction="any")
        yield str(made.id)
    finally:
        network.delete_qos_policy(made.id)


@contextmanager
def port_with(cloud: Cloud, network: str, policy: str = "") -> Iterator[str]:
    """A port of `demo`, with a policy of its own if one is given; its id."""
    admin, demo = cloud.connect().network, cloud.connect(*DEMO).network
    port = demo.create_port(network_id=demo.find_network(network).id, name=f"port-{network}")
    try:
        if policy:
            admin.update_port(port.id, qos_policy_id=policy)
        yield port.id
    finally:
        admin.delete_port(port.id)


@contextmanager
def server_with(cloud: Cloud, name: str, *ports: str, host: str = "") -> Iterator[Server]:
    """A server with these ports, or one without minimums, which may be still in BUILD."""
    networks = {"networks": [{"port": port} for port in ports]} if ports else {}
    server = create(cloud, name, host=host, **networks)
    try:
        yield server
    finally:
        server.delete()


@contextmanager
def _server_of(cloud: Cloud, name: str, policy: str) -> Iterator[Server]:
    with port_with(cloud, NETWORK, policy) as port, server_with(cloud, name, port) as server:
        yield server


def _resize(cloud: Cloud, server: Server) -> float:
    compute = cloud.connect(*DEMO).compute
    compute.resize_server(server.id, compute.find_flavor(LARGER_FLAVOR).id)
    seconds = server.wait_for("VERIFY_RESIZE")
    compute.confirm_server_resize(server.id)
    return seconds + server.wait_for("ACTIVE")


def allocations(server: Server) -> Allocations:
    """What a server has allocated of bandwidth and packets."""
    placement: Any = server.cloud.connect().placement
    rows = placement.get(f"/allocations/{server.id}", headers=_VERSION).json()["allocations"]
    found: Allocations = {}
    for provider, row in rows.items():
        resources = {name: amount for name, amount in row["resources"].items() if name.startswith("NET_")}
        if resources:
            name = str(placement.get(f"/resource_providers/{provider}", headers=_VERSION).json()["name"])
            host, _, device = name.partition(_AGENT)
            found.setdefault(host, {})[device.lstrip(":")] = resources
    return found


def expect_allocated(server: Server, kbps: int) -> None:
    """The server has so much of its host's tunnels, and nothing else."""
    expect_allocations(server, {TUNNELS: {EGRESS: kbps}})


def expect_allocations(server: Server, wanted: dict[str, dict[str, int]], what: str = "allocations") -> None:
    """The server has these resources of its host, and the profiles of its ports name their providers."""
    on_host = {server.host: wanted} if wanted else {}
    found: Allocations = {}

    def is_so() -> bool:
        found.clear()
        found.update(allocations(server))
        return found == on_host

    try:
        until(is_so, "", 30)
    except Exception:
        expect(False, f"{what}: the server has allocated {found}, and not {on_host}")
    groups = [
        group["id"] for port in server.ports() for group in (port.resource_request or {}).get("request_groups", ())
    ]
    named = [key for port in server.ports() for key in port.binding_profile.get("allocation", {})]
    expect(sorted(groups) == sorted(named), f"{what}: ports ask for the groups {groups}, and have {named}")
