"""QoS with the `openstack` command and openstacksdk."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.clients.shell import Shell

RULES = {
    "bandwidth-limit": "--max-kbps 3000 --max-burst-kbits 300 --ingress",
    "dscp-marking": "--dscp-mark 26",
    "minimum-bandwidth": "--min-kbps 100 --egress",
    "minimum-packet-rate": "--min-kpps 1 --any",
}


def test_the_command(shell: Shell) -> None:
    made = shell.json("network qos policy create bw --share --description d")
    assert (made["name"], made["shared"], made["is_default"], made["rules"]) == ("bw", True, False, [])
    for type_, options in RULES.items():
        shell(f"network qos rule create --type {type_} {options} bw")
    rules = {row["Type"]: row["ID"] for row in shell.json("network qos rule list bw")}
    assert rules.keys() == {type_.replace("-", "_") for type_ in RULES}
    shell(f"network qos rule set bw {rules['bandwidth_limit']} --max-kbps 2000")
    shown = shell.json(f"network qos rule show bw {rules['bandwidth_limit']}")
    assert (shown["max_kbps"], shown["max_burst_kbps"], shown["direction"]) == (2000, 300, "ingress")
    types = {row["Type"] for row in shell.json("network qos rule type list --all-rules")}
    assert types > rules.keys()
    assert "openvswitch" in str(shell.json("network qos rule type show dscp_marking")["drivers"])
    shell("network create limited --qos-policy bw")
    assert shell.json("network show limited")["qos_policy_id"] == made["id"]
    shell("port create limited --network limited --qos-policy bw")
    shell("port unset limited --qos-policy")
    port = shell.json("port show limited")
    assert (port["qos_policy_id"], port["qos_network_policy_id"]) == (None, made["id"])
    assert "used by" in shell.refused("network qos policy delete bw")
    shell("network create way-out --external")
    shell("subnet create way-out4 --network way-out --subnet-range 203.0.113.0/24 --no-dhcp")
    floating = shell.json("floating ip create way-out --qos-policy bw")
    assert floating["qos_policy_id"] == made["id"]
    shell(f"floating ip unset {floating['id']} --qos-policy")
    shell("router create limited --external-gateway way-out --qos-policy bw")
    assert shell.json("router show limited")["external_gateway_info"]["qos_policy_id"] == made["id"]
    shell("router unset limited --qos-policy")
    assert "qos_policy_id" not in shell.json("router show limited")["external_gateway_info"]
    shell("network qos policy set bw --default")
    shell("router delete limited")
    shell(f"floating ip delete {floating['id']}")
    shell("port delete limited")
    shell("network delete limited way-out")
    shell("network qos policy set bw --no-default --no-share")
    shell(f"network qos rule delete bw {rules['dscp_marking']}")
    shell("network qos policy delete bw")


def test_the_sdk(conn: Connection) -> None:
    network = conn.network
    policy = network.create_qos_policy(name="sdk", is_default=True)
    limit = network.create_qos_bandwidth_limit_rule(policy, max_kbps=1000, direction="egress")
    network.create_qos_packet_rate_limit_rule(policy, max_kpps=10)
    minimum = network.create_qos_minimum_bandwidth_rule(policy, min_kbps=10)
    changed = network.update_qos_bandwidth_limit_rule(limit, policy, max_kbps=2000)
    assert changed.max_kbps == 2000
    assert [rule.id for rule in network.qos_bandwidth_limit_rules(policy)] == [limit.id]
    with pytest.raises(exceptions.ConflictException):
        network.update_qos_minimum_bandwidth_rule(minimum, policy, min_kbps=3000)
    made = network.create_network(name="sdk-qos")
    assert made.qos_policy_id == policy.id
    port = network.create_port(network_id=made.id)
    assert port.resource_request is not None
    with pytest.raises(exceptions.ConflictException):
        network.delete_qos_policy(policy, ignore_missing=False)
    network.delete_port(port)
    network.delete_network(made)
    network.delete_qos_policy(policy, ignore_missing=False)
    assert network.find_qos_policy("sdk") is None
