"""Tap services, flows and mirrors with the `openstack` command and openstacksdk."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.clients.shell import Shell


def test_the_command(shell: Shell) -> None:
    shell("network create tapped")
    for name in ("monitor", "source"):
        shell(f"port create {name} --network tapped")
    service = shell.json("tap service create --name ids --port monitor")
    assert service["status"] == "DOWN"
    flow = shell.json(
        "tap flow create --name web --port source --tap-service ids --direction both --vlan-filter 9,18-20"
    )
    assert (flow["direction"], flow["tap_service_id"]) == ("BOTH", service["id"])
    shell("tap flow update web --name www")
    assert [row["Name"] for row in shell.json("tap flow list")] == ["www"]
    assert shell.json("tap service show ids")["port_id"] == service["port_id"]
    tunnels = "--directions IN=101 --directions OUT=102 --remote-ip 192.0.2.9 --mirror-type gre"
    mirror = shell.json(f"tap mirror create --name lab --port source {tunnels}")
    assert mirror["directions"] == {"IN": 101, "OUT": 102}
    assert "101" in shell.refused(f"tap mirror create --port source {tunnels}")
    assert [row["Remote IP"] for row in shell.json("tap mirror list")] == ["192.0.2.9"]
    shell("tap mirror delete lab")
    shell("tap service delete ids")
    assert shell.json("tap flow list") == []
    shell("port delete monitor source")
    shell("network delete tapped")


def test_the_sdk(conn: Connection) -> None:
    network = conn.network
    net = network.create_network(name="sdk-tapped")
    sink, source = (network.create_port(network_id=net.id) for _ in range(2))
    service = network.create_tap_service(port_id=sink.id, name="s")
    flow = network.create_tap_flow(tap_service_id=service.id, source_port=source.id, direction="IN")
    assert network.find_tap_service("s").id == service.id
    assert [each.id for each in network.tap_flows(name=flow.name)] == [flow.id]
    mirror = network.create_tap_mirror(
        port_id=source.id, directions={"BOTH": 7}, remote_ip="192.0.2.9", mirror_type="erspanv1"
    )
    assert network.update_tap_mirror(mirror, description="d").description == "d"
    for port in (source, sink):
        network.delete_port(port)
    with pytest.raises(exceptions.NotFoundException):
        network.get_tap_mirror(mirror.id)
    with pytest.raises(exceptions.NotFoundException):
        network.get_tap_flow(flow.id)
    network.delete_network(net)
