"""Hosts: the hybrid firewall, many instances at once, a restart of nova-compute, and what deletion leaves."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from qa.openstack.checks.expect import expect, until
from qa.openstack.checks.migration import migrate
from qa.openstack.checks.remains import nothing_remains
from qa.openstack.checks.servers import create, figures, ping, running, web
from qa.openstack.cloud import Cloud
from qa.openstack.services import neutrino, nova
from qa.openstack.services.resources import DEMO, NETWORK, OFFLOADING_IMAGE, OTHER_NETWORK, WEB_GROUP

MANY = 10


@contextmanager
def hybrid_firewall(cloud: Cloud, host: str) -> Iterator[None]:
    """Within the block the agent of the host plugs new ports through bridges that iptables filters."""
    try:
        neutrino.set_firewall_driver(cloud, host, "iptables_hybrid")
        neutrino.restart_agent(cloud, host)
        yield
    finally:
        neutrino.set_firewall_driver(cloud, host, "openvswitch")
        neutrino.restart_agent(cloud, host)


def check_hybrid(cloud: Cloud) -> str:
    """A server plugged through a bridge (iptables_hybrid): lease, metadata, filtering; it migrates to the native one."""
    native, host = cloud.hosts[0], cloud.hosts[1]
    image = cloud.connect(*DEMO).image.find_image(OFFLOADING_IMAGE).id
    with hybrid_firewall(cloud, host), running(cloud, "hybrid", host=host, image_id=image) as server:
        port = server.port
        details = port.binding_vif_details
        expect(details["ovs_hybrid_plug"] is True, f"the port is bound with {details}")
        devices = cloud.run(["ls", "/sys/class/net"], host=host).stdout.split()
        expect(f"qbr{port.id}"[:14] in devices, f"{host} has no bridge of the port: {devices}")
        floating = server.floating_ip()
        until(lambda: ping(cloud, floating), "ping is admitted", 60)
        expect(web(cloud, floating) is None, "the web server answers before its group is added")
        compute = cloud.connect(*DEMO).compute
        compute.add_security_group_to_server(server.id, WEB_GROUP)
        times = {"admitted": until(lambda: web(cloud, floating), "the web server answers", 30)}
        compute.remove_security_group_from_server(server.id, WEB_GROUP)
        times["cut"] = until(lambda: web(cloud, floating) is None, "the web server is cut", 30)
        times["migrated to the native firewall"] = migrate(server, native)
        until(lambda: ping(cloud, floating), "ping after the migration", 60)
        expect(server.port.binding_vif_details["ovs_hybrid_plug"] is False, "the port is still behind a bridge")
    return figures(times)


def check_many(cloud: Cloud) -> str:
    """Ten servers at once: each is ACTIVE, with its own address."""
    began = time.monotonic()
    with ExitStack() as stack:
        servers = []
        for number in range(MANY):
            servers.append(create(cloud, f"many-{number}"))
            stack.callback(servers[-1].delete)
        times = {}
        for server in servers:
            server.wait_for("ACTIVE", 900)
        times[f"{MANY} ACTIVE"] = time.monotonic() - began
        for server in servers:
            server.wait_for_line("lease eth0", seconds=900)
        times["leases"] = time.monotonic() - began
        addresses = {server.address for server in servers}
        expect(len(addresses) == MANY, f"{len(addresses)} addresses: {sorted(addresses)}")
        wrong = [server.id for server in servers if server.leases().get("eth0") != server.address]
        expect(not wrong, f"leases of other addresses than the ports': {wrong}")
        spread = {host: sum(server.host == host for server in servers) for host in cloud.hosts}
        # All at once: one after the other is what the calls of the stack would do.
        for server in servers:
            cloud.connect(*DEMO).compute.delete_server(server.id)
    return figures(times) + f"; by host {spread}"


def check_compute_restart(cloud: Cloud) -> str:
    """nova-compute is killed and started: the instance keeps its network meanwhile, and can be changed afterwards."""
    host = cloud.hosts[0]
    with running(cloud, "restart", host=host) as server:
        floating = server.floating_ip()
        until(lambda: ping(cloud, floating), "ping before", 60)
        since = cloud.run(["date", "-u", "+%Y-%m-%dT%H:%M:%S"]).stdout.strip()
        cloud.stop(f"{host}-nova-compute", signal.SIGKILL)
        expect(ping(cloud, floating), "no ping without nova-compute")
        nova.start_compute(cloud, host)
        began = time.monotonic()
        nova.wait_for_compute(cloud, host, since)
        seconds = time.monotonic() - began
        expect(ping(cloud, floating), "no ping after the restart")
        expect(server.port.status == "ACTIVE", f"the port is {server.port.status}")
        compute = cloud.connect(*DEMO).compute
        compute.reboot_server(server.id, "HARD")
        time.sleep(1)
        server.wait_for("ACTIVE")
        until(lambda: ping(cloud, floating), "ping after a reboot", 240)
    return figures({"up again": seconds})


def check_nothing_remains(cloud: Cloud) -> str:
    """A server with two interfaces and a floating IP is deleted: database, switches, namespaces are as before."""
    network = cloud.connect(*DEMO).network
    networks = [{"uuid": network.find_network(name).id} for name in (NETWORK, OTHER_NETWORK)]
    with nothing_remains(cloud), ExitStack() as stack:
        servers = []
        for host in cloud.hosts:
            servers.append(create(cloud, f"remains-{host}", host=host, networks=networks))
            stack.callback(servers[-1].delete)
        for server in servers:
            server.wait_for("ACTIVE")
            server.wait_for_line("lease eth0")
            server.floating_ip()
    return "rows, ports, flows, devices, namespaces, addresses, iptables and instances are as before"
