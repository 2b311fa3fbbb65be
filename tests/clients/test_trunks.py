"""Trunks with the `openstack` command and openstacksdk."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.clients.shell import Shell


def test_the_command(shell: Shell) -> None:
    for name in ("parent", "red", "green"):
        shell(f"network create {name}")
        shell(f"port create {name} --network {name}")
    ids = {name: shell.json(f"port show {name}")["id"] for name in ("parent", "red", "green")}
    made = shell.json(
        "network trunk create t --parent-port parent --description d "
        "--subport port=red,segmentation-type=vlan,segmentation-id=10"
    )
    red = {"port_id": ids["red"], "segmentation_type": "vlan", "segmentation_id": 10}
    green = {"port_id": ids["green"], "segmentation_type": "vlan", "segmentation_id": 20}
    assert (made["status"], made["sub_ports"], made["is_admin_state_up"]) == ("DOWN", [red], True)
    shell("network trunk set t --name trunk --subport port=green,segmentation-type=vlan,segmentation-id=20")
    shown = shell.json("network trunk show trunk")
    assert (shown["port_id"], shown["sub_ports"]) == (ids["parent"], [red, green])
    rows = shell.json("network subport list --trunk trunk")
    assert {(row["Port"], row["Segmentation ID"]) for row in rows} == {(ids["red"], 10), (ids["green"], 20)}
    assert shell.json("port show parent")["trunk_details"]["trunk_id"] == made["id"]
    shell("network trunk unset trunk --subport red")
    assert shell.json("network trunk show trunk")["sub_ports"] == [green]
    assert [row["Name"] for row in shell.json("network trunk list")] == ["trunk"]
    assert "subport" in shell.refused("port delete green")
    shell("network trunk set trunk --disable")
    assert "disabled" in shell.refused("network trunk delete trunk")
    shell("network trunk set trunk --enable")
    shell("network trunk delete trunk")
    shell("port delete parent red green")
    shell("network delete parent red green")


def test_the_sdk(conn: Connection) -> None:
    net = conn.network
    network = net.create_network(name="trunked")
    parent, subport = (net.create_port(network_id=network.id) for _ in range(2))
    trunk = net.create_trunk(name="sdk", port_id=parent.id)
    one = [{"port_id": subport.id, "segmentation_type": "vlan", "segmentation_id": 10}]
    net.add_trunk_subports(trunk, one)
    assert net.get_trunk_subports(trunk)["sub_ports"] == one
    assert net.get_port(parent.id).trunk_details["sub_ports"][0]["mac_address"] == subport.mac_address
    with pytest.raises(exceptions.ConflictException):
        net.add_trunk_subports(trunk, [{"port_id": parent.id, "segmentation_type": "vlan", "segmentation_id": 11}])
    assert net.update_trunk(trunk, name="other").name == "other"
    net.delete_trunk_subports(trunk, one)
    assert net.find_trunk("other").sub_ports == []
    net.delete_trunk(trunk, ignore_missing=False)
    for port in (parent, subport):
        net.delete_port(port, ignore_missing=False)
    net.delete_network(network)
