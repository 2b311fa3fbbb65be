"""Firewalls through openstacksdk and the `openstack` command."""

from __future__ import annotations

import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.clients.conftest import HOSTS
from tests.clients.shell import Shell


def test_the_sdk(conn: Connection) -> None:
    net = conn.network
    web = net.create_firewall_rule(name="web", action="allow", protocol="tcp", destination_port="80:90")
    ping = net.create_firewall_rule(name="ping", action="reject", protocol="icmp", enabled=False)
    assert (web.destination_port, ping.enabled) == ("80:90", False)
    assert net.find_firewall_rule("web", ignore_missing=False).id == web.id
    assert [rule.id for rule in net.firewall_rules(action="reject", name="ping")] == [ping.id]
    policy = net.create_firewall_policy(name="policy", firewall_rules=[web.id], audited=True)
    net.insert_rule_into_policy(policy.id, firewall_rule_id=ping.id, insert_after=web.id)
    shown = net.get_firewall_policy(policy.id)
    assert (shown.firewall_rules, shown.audited) == ([web.id, ping.id], False)
    with pytest.raises(exceptions.HttpException):
        net.insert_rule_into_policy(policy.id, firewall_rule_id=ping.id)
    network = net.create_network(name="filtered")
    port = net.create_port(network_id=network.id, device_owner="compute:nova", binding_host_id=HOSTS[0])
    group = net.create_firewall_group(name="group", ingress_firewall_policy_id=policy.id, ports=[port.id])
    assert (group.status, group.ports) == ("PENDING_CREATE", [port.id])
    assert {each.name for each in net.firewall_groups()} == {"default", "group"}
    with pytest.raises(exceptions.ConflictException):
        net.delete_firewall_group(group, ignore_missing=False)
    assert net.update_firewall_group(group, ports=[], admin_state_up=False).status == "INACTIVE"
    net.delete_firewall_group(group, ignore_missing=False)
    net.remove_rule_from_policy(policy.id, firewall_rule_id=web.id)
    net.delete_firewall_policy(policy, ignore_missing=False)
    for rule in (web, ping):
        net.delete_firewall_rule(rule, ignore_missing=False)
    net.delete_port(port)
    net.delete_network(network)


def test_the_command(shell: Shell) -> None:
    shell("firewall group rule create web --protocol tcp --destination-port 80:90 --action allow")
    shell("firewall group rule create rest --protocol any --ip-version 6 --action reject")
    shell("firewall group policy create policy --firewall-rule web")
    shell("firewall group policy add rule policy rest --insert-after web")
    rules = [shell.json(f"firewall group rule show {name}")["ID"] for name in ("web", "rest")]
    assert shell.json("firewall group policy show policy")["Firewall Rules"] == rules
    shell("network create filtered")
    shell("subnet create filtered4 --network filtered --subnet-range 10.42.0.0/24")
    shell("router create way")
    shell("router add subnet way filtered4")
    (port,) = shell.json("port list --router way")
    made = shell.json(f"firewall group create group --ingress-firewall-policy policy --disable --port {port['ID']}")
    assert (made["Status"], made["Ports"]) == ("DOWN", [port["ID"]])
    shell("firewall group set group --enable --egress-firewall-policy policy")
    assert shell.json("firewall group show group")["Status"].startswith("PENDING")
    assert {row["Name"] for row in shell.json("firewall group list")} >= {"default", "group"}
    assert "active" in shell.refused("firewall group delete group")
    shell(f"firewall group unset group --port {port['ID']} --ingress-firewall-policy --egress-firewall-policy")
    shell("firewall group policy remove rule policy web")
    shell("firewall group policy set policy --no-firewall-rule")
    shell("firewall group delete group")
    shell("firewall group policy delete policy")
    shell("firewall group rule delete web rest")
    shell("router remove subnet way filtered4")
    shell("router delete way")
    shell("network delete filtered")
