"""Attributes of ports for the hypervisor and its hardware, and networks with VLAN tags, with `openstack` and the SDK."""

from __future__ import annotations

from openstack.connection import Connection

from tests.clients.shell import Shell

STEERING = {"openvswitch": {"other_config": {"tx-steering": "hash"}}}


def test_the_command_for_ports(shell: Shell) -> None:
    shell("network create hardware")
    shell("subnet create hardware4 --network hardware --subnet-range 10.77.0.0/24")
    made = shell.json(
        "port create hw1 --network hardware --hint ovs-tx-steering=hash --numa-policy-socket --device-profile fpga"
        " --trusted --hardware-offload-type switchdev --vnic-type direct"
    )
    assert (made["hints"], made["numa_affinity_policy"], made["device_profile"]) == (STEERING, "socket", "fpga")
    assert (made["trusted"], made["hardware_offload_type"]) == (True, "switchdev")
    assert made["binding_profile"] == {"capabilities": ["switchdev"], "trusted": True}
    for policy in ("required", "preferred", "legacy"):
        shell(f"port set hw1 --numa-policy-{policy}")
        assert shell.json("port show hw1")["numa_affinity_policy"] == policy
    shell("port set hw1 --not-trusted --hint ovs-tx-steering=thread --disable-uplink-status-propagation")
    shown = shell.json("port show hw1")
    assert shown["hints"] == {"openvswitch": {"other_config": {"tx-steering": "thread"}}}
    assert (shown["trusted"], shown["binding_profile"]["trusted"]) == (False, False)
    assert shown["propagate_uplink_status"] is False
    shell("port unset hw1 --numa-policy --hints")
    shown = shell.json("port show hw1")
    assert (shown["numa_affinity_policy"], shown["hints"]) == (None, None)
    shell("port delete hw1")
    shell("network delete hardware")


def test_the_command_for_networks(shell: Shell) -> None:
    made = shell.json("network create tags --transparent-vlan")
    assert made["is_vlan_transparent"] is True
    plain = shell.json("network create plain --no-transparent-vlan")
    assert plain["is_vlan_transparent"] is False
    flat = "--provider-network-type flat --provider-physical-network dmz"
    assert "VLAN Transparency" in shell.refused(f"network create flat --transparent-vlan {flat}")
    vlan = "--provider-network-type vlan --provider-physical-network physnet1"
    shell(f"network create stacked {vlan} --extra-property type=bool,name=qinq,value=true")
    assert "vlan_qinq" in shell.refused(f"network create refused {vlan} --qinq-vlan")  # the API's name is qinq
    shell("network delete tags plain stacked")


def test_the_sdk(conn: Connection) -> None:
    network = conn.network.create_network(name="sdk-tags", is_vlan_transparent=True)
    assert [each.id for each in conn.network.networks(is_vlan_transparent=True)] == [network.id]
    port = conn.network.create_port(network_id=network.id, numa_affinity_policy="preferred", hints=STEERING)
    assert (port.numa_affinity_policy, port.hints) == ("preferred", STEERING)
    conn.network.delete_port(port)
    conn.network.delete_network(network)
