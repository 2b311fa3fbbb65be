"""Booting: the port is plugged, Nova is notified, the guest has its lease and metadata, a floating IP reaches it."""

from __future__ import annotations

import time

from qa.openstack.checks.expect import expect, until
from qa.openstack.checks.servers import create, figures, ping
from qa.openstack.cloud import Cloud


def check_boot(cloud: Cloud) -> str:
    """A server plugged directly: ACTIVE through network-vif-plugged, lease, metadata, floating IP."""
    began = time.monotonic()
    server = create(cloud, "boot")
    try:
        times = {"ACTIVE": server.wait_for("ACTIVE")}
        port = server.port
        expect(port.status == "ACTIVE", f"the server is ACTIVE, its port is {port.status}")
        floating = server.floating_ip()
        server.wait_for_line("lease eth0")
        times["lease"] = time.monotonic() - began
        expect(server.leases() == {"eth0": server.address}, f"leases {server.leases()}, address {server.address}")
        server.wait_for_line("READY")
        times["metadata"] = time.monotonic() - began
        _, hostname, address = server.identity()
        name = hostname.partition(".")[0]
        expect((name, address) == ("boot", server.address), f"metadata: {hostname} {address}")
        until(lambda: ping(cloud, floating), f"{floating} answers", 30)
        times["floating IP"] = time.monotonic() - began
    finally:
        server.delete()
    return figures(times)
