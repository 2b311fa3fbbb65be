"""What happens to a running server: interfaces, security groups, reboot, stop, rebuild, resize."""

from __future__ import annotations

from typing import Any

from qa.openstack.checks.expect import expect, until
from qa.openstack.checks.servers import GUEST_SECONDS, Server, figures, ping, running, web
from qa.openstack.cloud import Cloud
from qa.openstack.services.resources import (
    DEMO,
    LARGER_FLAVOR,
    OTHER_IMAGE,
    OTHER_NETWORK,
    PING_GROUP,
    WEB_GROUP,
)

CHANGE_SECONDS = 30.0


def check_interfaces(cloud: Cloud) -> str:
    """Attach an interface on another network and detach it; the same with a port that was made before, which stays."""
    network = cloud.connect(*DEMO).network
    other = network.find_network(OTHER_NETWORK)
    kept = network.create_port(network_id=other.id, name="kept")
    times: dict[str, float] = {}
    try:
        with running(cloud, "interfaces") as server:
            compute = cloud.connect(*DEMO).compute
            added = compute.create_server_interface(server.id, net_id=other.id)
            times["attach"] = server.wait_for_port(added.port_id)
            server.wait_for_line("lease eth1")
            address = added.fixed_ips[0]["ip_address"]
            expect(server.leases().get("eth1") == address, f"lease of eth1: {server.leases()}, port: {address}")
            compute.delete_server_interface(added.port_id, server=server.id)
            times["detach"] = until(lambda: network.find_port(added.port_id) is None, "the port is gone", 90)
            server.wait_for_line("detached eth1")
            compute.create_server_interface(server.id, port_id=kept.id)
            server.wait_for_port(kept.id)
            server.wait_for_line("lease eth1", count=2)
            compute.delete_server_interface(kept.id, server=server.id)

            def is_free() -> bool:
                port = network.get_port(kept.id)
                return not port.device_id and port.status == "DOWN"

            until(is_free, "the port that was made before is unbound and kept", 90)
    finally:
        network.delete_port(kept.id)
    return figures(times)


def check_security_groups(cloud: Cloud) -> str:
    """Add and remove groups of a running server: traffic is admitted and cut, open connections included."""
    demo = cloud.connect(*DEMO)
    times: dict[str, float] = {}
    with running(cloud, "groups") as server:
        floating = server.floating_ip()
        until(lambda: ping(cloud, floating), "ping is admitted", CHANGE_SECONDS)
        expect(web(cloud, floating) is None, "the web server answers before its group is added")
        demo.compute.add_security_group_to_server(server.id, WEB_GROUP)
        times["admitted"] = until(lambda: web(cloud, floating), "the web server answers", CHANGE_SECONDS)
        instance = web(cloud, floating, 5)
        expect(instance == server.identity()[0], f"the page is {instance!r}, the instance {server.identity()[0]}")
        demo.compute.remove_security_group_from_server(server.id, WEB_GROUP)
        times["cut"] = until(lambda: web(cloud, floating) is None, "the web server is cut", CHANGE_SECONDS)
        demo.compute.remove_security_group_from_server(server.id, PING_GROUP)
        until(lambda: not ping(cloud, floating), "ping is cut", CHANGE_SECONDS)
    return figures(times)


def check_power(cloud: Cloud) -> str:
    """Hard reboot, stop and start: the port is plugged again with the same address."""
    times: dict[str, float] = {}
    with running(cloud, "power") as server:
        compute = cloud.connect(*DEMO).compute
        floating, address, port = server.floating_ip(), server.address, server.port.id
        until(lambda: ping(cloud, floating), "ping before", CHANGE_SECONDS)
        compute.reboot_server(server.id, "HARD")
        times["reboot"] = _back(server, floating)
        compute.stop_server(server.id)
        server.wait_for("SHUTOFF")
        until(lambda: not ping(cloud, floating), "a stopped server does not answer", CHANGE_SECONDS)
        compute.start_server(server.id)
        times["start"] = _back(server, floating)
        _same(server, address, port)
    return figures(times)


def check_rebuild(cloud: Cloud) -> str:
    """Rebuild from another image: the same port, address and floating IP."""
    with running(cloud, "rebuild") as server:
        demo = cloud.connect(*DEMO)
        floating, address, port = server.floating_ip(), server.address, server.port.id
        demo.compute.rebuild_server(server.id, demo.image.find_image(OTHER_IMAGE).id)
        seconds = _back(server, floating)
        _same(server, address, port)
    return figures({"rebuilt": seconds})


def check_resize(cloud: Cloud) -> str:
    """Resize to another host and revert it, then resize and confirm: the binding follows, the address stays."""
    times: dict[str, float] = {}
    with running(cloud, "resize") as server:
        demo = cloud.connect(*DEMO)
        floating, address, port = server.floating_ip(), server.address, server.port.id
        for end in ("revert", "confirm"):
            demo.compute.resize_server(server.id, demo.compute.find_flavor(LARGER_FLAVOR).id)
            server.wait_for("VERIFY_RESIZE")
            server.wait_for_line("READY")
            times[f"before {end}"] = until(lambda: ping(cloud, floating), "ping after the resize", GUEST_SECONDS)
            _check_binding(server, port)
            getattr(demo.compute, f"{end}_server_resize")(server.id)
            server.wait_for("ACTIVE")
            until(lambda: ping(cloud, floating), f"ping after {end}", GUEST_SECONDS)
            _check_binding(server, port)
        _same(server, address, port)
    return figures(times)


def _back(server: Server, floating: str) -> float:
    """The seconds until a server that starts again is ACTIVE and answers at its floating IP."""
    until(lambda: server.show().task_state is not None or server.show().status == "ACTIVE", "Nova begins", 30)
    seconds = server.wait_for("ACTIVE")
    seconds += until(lambda: ping(server.cloud, floating), f"{floating} answers", 240)
    expect(server.port.status == "ACTIVE", f"the port is {server.port.status}")
    return seconds


def _same(server: Server, address: str, port: str) -> None:
    now: tuple[Any, Any] = server.address, server.port.id
    expect(now == (address, port), f"address and port were {(address, port)}, and are {now}")


def _check_binding(server: Server, port_id: str) -> None:
    port = server.admin.network.get_port(port_id)
    expect(port.binding_host_id == server.host, f"bound to {port.binding_host_id}, the server is on {server.host}")
    expect(port.status == "ACTIVE", f"the port is {port.status} on {port.binding_host_id}")
