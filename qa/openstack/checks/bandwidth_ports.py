"""Guaranteed rates of servers with several ports, of ports that come and go, and of servers that migrate live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from openstack.exceptions import HttpException

from qa.openstack.checks.bandwidth import (
    EGRESS,
    PACKETS,
    SWITCH,
    TUNNELS,
    allocations,
    at_least,
    expect_allocations,
    port_with,
    server_with,
    wait_for_placement,
)
from qa.openstack.checks.expect import CheckError, expect, until
from qa.openstack.checks.migration import migrate
from qa.openstack.checks.servers import Server, figures, running
from qa.openstack.cloud import Cloud
from qa.openstack.services.neutrino import KPPS, PROVIDER_BRIDGE, PROVIDER_KBPS, PROVIDER_NETWORK, TUNNEL_KBPS
from qa.openstack.services.resources import DEMO, NETWORK

VLAN, VLAN_CIDR = "guaranteed-vlan", "10.2.0.0/24"
# A host has room for one of each.
OF_TUNNELS, OF_UPLINK, OF_SWITCH = TUNNEL_KBPS * 6 // 10, PROVIDER_KBPS * 6 // 10, KPPS * 6 // 10


def check_bandwidth_ports(cloud: Cloud) -> str:
    """Two ports on different physical networks; a port that is attached and detached; the policy of a network."""
    times = {"in Placement": wait_for_placement(cloud)}
    admin = cloud.connect().network
    with ExitStack() as stack:
        add = stack.enter_context
        both, uplink = add(at_least(cloud, OF_TUNNELS, OF_SWITCH)), add(at_least(cloud, OF_UPLINK))
        less = add(at_least(cloud, OF_UPLINK // 2))
        network = add(_vlan(cloud, uplink))
        tunnelled, on_vlan, later = (add(port_with(cloud, *each)) for each in ((NETWORK, both), (VLAN,), (VLAN,)))
        server = add(server_with(cloud, "two-uplinks", tunnelled, on_vlan))
        times["ACTIVE"] = server.wait_for("ACTIVE")
        wanted = {
            TUNNELS: {EGRESS: OF_TUNNELS},
            SWITCH: {PACKETS: OF_SWITCH},
            PROVIDER_BRIDGE: {EGRESS: OF_UPLINK},
        }
        expect_allocations(server, wanted, "ports on two uplinks")
        here, there = server.host, next(host for host in cloud.hosts if host != server.host)
        with server_with(cloud, "no-room", host=here) as full:
            full.wait_for("ACTIVE")
            _expect_refused(full, later)
        with running(cloud, "room", host=there) as other:
            cloud.connect(*DEMO).compute.create_server_interface(other.id, port_id=later)
            times["attached"] = other.wait_for_port(later)
            expect_allocations(other, {PROVIDER_BRIDGE: {EGRESS: OF_UPLINK}}, "an attached port")
            admin.update_network(network, qos_policy_id=less)
            expect_allocations(other, {PROVIDER_BRIDGE: {EGRESS: OF_UPLINK // 2}}, "another policy of the network")
            wanted[PROVIDER_BRIDGE] = {EGRESS: OF_UPLINK // 2}
            expect_allocations(server, wanted, "another policy of the network")
            times["detached"] = _detach(other, later)
            expect_allocations(other, {}, "a detached port")
        _detach(server, on_vlan)
        del wanted[PROVIDER_BRIDGE]
        expect_allocations(server, wanted, "one of two ports detached")
    expect(allocations(server) == {}, "the deleted server still has an allocation")
    return figures(times)


def check_bandwidth_migration(cloud: Cloud) -> str:
    """A live migration takes the allocation along, and is refused where it does not fit."""
    times = {"in Placement": wait_for_placement(cloud)}
    source, target = cloud.hosts[:2]
    wanted = {TUNNELS: {EGRESS: OF_TUNNELS}, SWITCH: {PACKETS: OF_SWITCH}}
    with ExitStack() as stack:
        both = stack.enter_context(at_least(cloud, OF_TUNNELS, OF_SWITCH))
        ports = [stack.enter_context(port_with(cloud, NETWORK, both)) for _ in range(2)]
        server = stack.enter_context(server_with(cloud, "moving", ports[0], host=source))
        server.wait_for("ACTIVE")
        server.wait_for_line("READY")
        expect_allocations(server, wanted, "before the migration")
        with server_with(cloud, "in-the-way", ports[1], host=target) as other:
            other.wait_for("ACTIVE")
            try:
                migrate(server, target)
            except (CheckError, HttpException) as refusal:
                cloud.say(f"without room: {refusal}")
            server.wait_for("ACTIVE")
            expect(server.host == source, f"it has migrated to {target}, which has no room")
            expect_allocations(server, wanted, "a migration that was refused")
        times["migrated"] = migrate(server, target)
        expect_allocations(server, wanted, "after the migration")
        port = server.port
        expect(port.binding_host_id == target, f"the port is bound to {port.binding_host_id}")
        server.wait_for_port(port.id)
    return figures(times)


@contextmanager
def _vlan(cloud: Cloud, policy: str) -> Iterator[str]:
    """A VLAN of the provider network for `demo`, with a policy; its id."""
    admin, demo = cloud.connect().network, cloud.connect(*DEMO)
    made = admin.create_network(
        name=VLAN,
        project_id=demo.current_project_id,
        provider_network_type="vlan",
        provider_physical_network=PROVIDER_NETWORK,
        provider_segmentation_id=1202,
        qos_policy_id=policy,
    )
    try:
        admin.create_subnet(network_id=made.id, name=VLAN, ip_version=4, cidr=VLAN_CIDR, gateway_ip=None)
        yield str(made.id)
    finally:
        admin.delete_network(made.id)


def _expect_refused(server: Server, port: str) -> None:
    """The port does not fit on the host of this server: it is not attached, and stays free."""
    try:
        server.demo.compute.create_server_interface(server.id, port_id=port)
    except HttpException as refusal:
        expect((refusal.status_code or 0) < 500, f"Nova fails: {refusal}")
    else:
        expect(False, "a port without room on the host is attached")
    found = server.admin.network.get_port(port)
    expect(not found.device_id and not found.binding_host_id, f"the port is on {found.binding_host_id}")
    expect_allocations(server, {}, "a port that was not attached")


def _detach(server: Server, port: str) -> float:
    server.demo.compute.delete_server_interface(port, server=server.id)
    return until(lambda: not server.admin.network.get_port(port).device_id, "the port is free", 90)
