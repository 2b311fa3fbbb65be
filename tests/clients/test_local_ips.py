"""Local IPs with the `openstack` command and openstacksdk."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.clients.shell import Shell


def test_the_command(shell: Shell) -> None:
    shell("network create near")
    shell("subnet create near4 --network near --subnet-range 10.3.0.0/24")
    made = shell.json("local ip create --name near --network near --local-ip-address 10.3.0.200")
    assert (made["local_ip_address"], made["ip_mode"]) == ("10.3.0.200", "translate")
    port = shell.json("port create near --network near")
    fixed = port["fixed_ips"][0]["ip_address"]
    association = shell.json(f"local ip association create near {port['id']}")
    assert (association["fixed_ip"], association["local_ip_address"]) == (fixed, "10.3.0.200")
    listed = shell.json("local ip association list near")
    assert [(row["Fixed port ID"], row["Fixed IP"]) for row in listed] == [(port["id"], fixed)]
    shell("local ip set near --name nearest --description d")
    assert shell.json("local ip show nearest")["description"] == "d"
    assert [row["Name"] for row in shell.json("local ip list --local-ip-address 10.3.0.200")] == ["nearest"]
    assert "associated" in shell.refused("local ip delete nearest")
    shell(f"local ip association delete nearest {port['id']}")
    shell("local ip delete nearest")
    shell("port delete near")
    shell("network delete near")


def test_the_sdk(conn: Connection) -> None:
    network = conn.network
    net = network.create_network(name="sdk-local")
    network.create_subnet(network_id=net.id, ip_version=4, cidr="10.4.0.0/24")
    owner, port = (network.create_port(network_id=net.id) for _ in range(2))
    local_ip = network.create_local_ip(local_port_id=owner.id, ip_mode="passthrough")
    assert local_ip.local_ip_address == owner.fixed_ips[0]["ip_address"]
    made = network.create_local_ip_association(local_ip, fixed_port_id=port.id)
    assert made.fixed_ip == port.fixed_ips[0]["ip_address"]
    assert [one.fixed_port_id for one in network.local_ip_associations(local_ip)] == [port.id]
    with pytest.raises(exceptions.ConflictException):
        network.delete_local_ip(local_ip, ignore_missing=False)
    network.delete_local_ip_association(local_ip, port.id, ignore_missing=False)
    network.delete_local_ip(local_ip, ignore_missing=False)
    network.delete_port(owner)
    network.delete_port(port)
    network.delete_network(net)
