"""The `openstack` command: every resource made, listed, shown, changed and deleted as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.conftest import HOSTS, Cloud
from tests.clients.shell import Shell, run_program


def names(rows: list[dict[str, object]]) -> list[object]:
    return [row["Name"] for row in rows]


def test_as_a_program(cloud: Cloud, shell: Shell, tmp_path: Path) -> None:
    """Once: a start takes two seconds of CPU time. `shell` runs the same code in one process."""
    made = json.loads(run_program("network create typed --tag by-hand -f json", cloud.environment(tmp_path)))
    assert made["tags"] == ["by-hand"]
    assert names(shell.json("network list --tags by-hand")) == ["typed"]
    shell("network delete typed")


def test_networks(shell: Shell) -> None:
    made = shell.json(
        "network create blue --description first --mtu 1400 --disable --disable-port-security --tag a --tag b"
        " --availability-zone-hint nova --dns-domain example.org."
    )
    assert (made["name"], made["description"], made["mtu"]) == ("blue", "first", 1400)
    assert (made["admin_state_up"], made["port_security_enabled"]) == (False, False)
    assert (made["tags"], made["availability_zone_hints"]) == (["a", "b"], ["nova"])
    assert shell.json("network show blue")["id"] == made["id"]
    shell("network set blue --name azure --enable --enable-port-security --description second --mtu 1300 --tag c")
    seen = shell.json(f"network show {made['id']}")
    assert (seen["name"], seen["description"], seen["mtu"]) == ("azure", "second", 1300)
    assert (seen["admin_state_up"], seen["port_security_enabled"], sorted(seen["tags"])) == (True, True, list("abc"))
    shell("network unset azure --tag a")
    assert names(shell.json("network list --tags b,c --not-tags a --long")) == ["azure"]
    assert names(shell.json("network list --name azure --enable --internal --no-share --status ACTIVE")) == ["azure"]
    shell("network set azure --share --external")
    assert names(shell.json("network list --share --external")) == ["azure"]
    shell("network set azure --no-share --internal")
    shell("network unset azure --all-tag")
    assert shell.json("network show azure")["tags"] == []
    shell("network delete azure")
    assert "azure" in shell.refused("network show azure")


def test_provider_networks(shell: Shell) -> None:
    made = shell.json(
        "network create vlan150 --provider-network-type vlan --provider-physical-network physnet1 --provider-segment 150"
        " --external --default --share"
    )
    assert made["provider:network_type"] == "vlan"
    assert (made["provider:physical_network"], made["provider:segmentation_id"]) == ("physnet1", 150)
    assert (made["router:external"], made["is_default"], made["shared"]) == (True, True, True)
    listed = "network list --provider-network-type vlan --provider-physical-network physnet1 --provider-segment 150"
    assert names(shell.json(listed)) == ["vlan150"]
    assert "150" in shell.refused(
        "network create twice --provider-network-type vlan --provider-physical-network physnet1 --provider-segment 150"
    )
    shell("network set vlan150 --provider-segment 151 --no-default")
    assert shell.json("network show vlan150")["provider:segmentation_id"] == 151
    shell("network create flat --provider-network-type flat --provider-physical-network physnet2")
    shell("network delete vlan150 flat")


def test_subnets(shell: Shell) -> None:
    shell("network create subnetted")
    made = shell.json(
        "subnet create v4 --network subnetted --subnet-range 10.1.0.0/24 --gateway 10.1.0.254 --no-dhcp"
        " --allocation-pool start=10.1.0.10,end=10.1.0.99 --allocation-pool start=10.1.0.120,end=10.1.0.130"
        " --dns-nameserver 9.9.9.9 --dns-nameserver 1.1.1.1 --description d --tag red"
        " --host-route destination=10.9.0.0/16,gateway=10.1.0.2 --service-type compute:nova"
    )
    assert (made["cidr"], made["gateway_ip"], made["enable_dhcp"]) == ("10.1.0.0/24", "10.1.0.254", False)
    assert {"start": "10.1.0.10", "end": "10.1.0.99"} in made["allocation_pools"]
    assert made["dns_nameservers"] == ["9.9.9.9", "1.1.1.1"]
    assert made["host_routes"] == [{"destination": "10.9.0.0/16", "nexthop": "10.1.0.2"}]
    assert (made["service_types"], made["tags"]) == (["compute:nova"], ["red"])
    shell(
        "subnet set v4 --name four --dhcp --gateway 10.1.0.253 --dns-nameserver 8.8.8.8 --service-type network:dhcp"
        " --host-route destination=10.8.0.0/16,gateway=10.1.0.3 --allocation-pool start=10.1.0.140,end=10.1.0.150"
        " --description e"
    )
    seen = shell.json("subnet show four")
    assert (seen["gateway_ip"], seen["enable_dhcp"], seen["description"]) == ("10.1.0.253", True, "e")
    assert (len(seen["allocation_pools"]), len(seen["host_routes"]), len(seen["dns_nameservers"])) == (3, 2, 3)
    assert sorted(seen["service_types"]) == ["compute:nova", "network:dhcp"]
    shell(
        "subnet unset four --dns-nameserver 8.8.8.8 --host-route destination=10.8.0.0/16,gateway=10.1.0.3"
        " --service-type network:dhcp --allocation-pool start=10.1.0.140,end=10.1.0.150 --tag red --gateway"
    )
    seen = shell.json("subnet show four")
    assert (len(seen["allocation_pools"]), len(seen["host_routes"]), len(seen["dns_nameservers"])) == (2, 1, 2)
    assert (seen["service_types"], seen["tags"], seen["gateway_ip"]) == (["compute:nova"], [], None)
    shell("subnet set four --no-allocation-pool --no-dns-nameservers --no-host-route")
    seen = shell.json("subnet show four")
    assert (seen["dns_nameservers"], seen["host_routes"]) == ([], [])
    shell(
        "subnet create v6 --network subnetted --ip-version 6 --subnet-range 2001:db8::/64 --ipv6-ra-mode slaac"
        " --ipv6-address-mode slaac"
    )
    assert names(shell.json("subnet list --network subnetted --ip-version 6")) == ["v6"]
    assert names(shell.json("subnet list --dhcp --subnet-range 10.1.0.0/24 --long")) == ["four"]
    shell("subnet delete four v6")
    shell("network delete subnetted")


def test_ports(shell: Shell, cloud: Cloud) -> None:
    shell("network create lan")
    subnet = shell.json("subnet create lan4 --network lan --subnet-range 10.2.0.0/24")["id"]
    group = shell.json("security group create web")["id"]
    made = shell.json(
        "port create p1 --network lan --fixed-ip subnet=lan4,ip-address=10.2.0.50 --mac-address fa:16:3e:aa:bb:cc"
        " --device 6f4a1c43-6d4e-4b5a-9d0c-1a2b3c4d5e6f --device-owner compute:nova --security-group web --description d"
        " --allowed-address ip-address=10.2.0.77,mac-address=fa:16:3e:00:00:01 --vnic-type normal --disable"
        " --extra-dhcp-option name=mtu,value=1400,ip-version=4 --dns-name vm1 --binding-profile foo=bar --tag x"
        f" --host {HOSTS[0]} --disable-uplink-status-propagation"
    )
    assert made["fixed_ips"] == [{"subnet_id": subnet, "ip_address": "10.2.0.50"}]
    assert (made["mac_address"], made["security_group_ids"]) == ("fa:16:3e:aa:bb:cc", [group])
    assert made["allowed_address_pairs"] == [{"ip_address": "10.2.0.77", "mac_address": "fa:16:3e:00:00:01"}]
    assert made["extra_dhcp_opts"] == [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}]
    assert (made["binding_host_id"], made["binding_vif_type"]) == (HOSTS[0], "ovs")
    assert (made["binding_profile"], made["dns_name"], made["tags"]) == ({"foo": "bar"}, "vm1", ["x"])
    assert (made["admin_state_up"], made["propagate_uplink_status"]) == (False, False)
    shell(
        "port set p1 --name p2 --enable --fixed-ip subnet=lan4,ip-address=10.2.0.51 --description e --tag y"
        " --allowed-address ip-address=10.2.0.78 --binding-profile baz=1 --dns-name vm2 --data-plane-status DOWN"
    )
    seen = shell.json("port show p2")
    assert {ip["ip_address"] for ip in seen["fixed_ips"]} == {"10.2.0.50", "10.2.0.51"}
    assert (len(seen["allowed_address_pairs"]), seen["data_plane_status"]) == (2, "DOWN")
    assert sorted(seen["binding_profile"]) == ["baz", "foo"]
    assert seen["dns_assignment"][0]["hostname"] == "vm2"
    shell(
        "port unset p2 --fixed-ip subnet=lan4,ip-address=10.2.0.51 --binding-profile baz --tag y --data-plane-status"
        " --allowed-address ip-address=10.2.0.77,mac-address=fa:16:3e:00:00:01 --security-group web --host"
        " --device --device-owner"
    )
    seen = shell.json("port show p2")
    assert [ip["ip_address"] for ip in seen["fixed_ips"]] == ["10.2.0.50"]
    assert ([pair["ip_address"] for pair in seen["allowed_address_pairs"]]) == ["10.2.0.78"]
    assert (seen["security_group_ids"], seen["binding_host_id"], seen["binding_vif_type"]) == ([], "", "unbound")
    assert (seen["device_id"], seen["device_owner"], seen["data_plane_status"]) == ("", "", None)
    assert "security" in shell.refused("port set p2 --disable-port-security").lower()  # it has address pairs
    shell("port set p2 --no-security-group --no-allowed-address --no-fixed-ip --no-binding-profile")
    shell("port set p2 --disable-port-security")
    assert shell.json("port show p2")["port_security_enabled"] is False
    shell("port create p3 --network lan --no-security-group")
    shell("port create p4 --network lan --no-fixed-ip --disable-port-security")
    assert len(shell.json("port list --network lan")) == 3
    assert names(shell.json("port list --mac-address fa:16:3e:aa:bb:cc --long")) == ["p2"]
    assert names(shell.json("port list --fixed-ip ip-substring=10.2.0. --fixed-ip subnet=lan4")) == ["p3"]
    assert names(shell.json("port list --any-tags x,z")) == ["p2"]
    assert len(shell.json("port list --limit 1 --max-items 2")) == 2
    assert "409" in shell.refused("network delete lan")
    shell("port delete p2 p3 p4")
    shell("security group delete web")
    shell("network delete lan")


def test_security_groups(shell: Shell) -> None:
    made = shell.json("security group create app --description d --stateless --tag t")
    assert (made["name"], made["stateful"], len(made["rules"]), made["tags"]) == ("app", False, 2, ["t"])
    shell("security group set app --name apps --description e --stateful --tag u")
    seen = shell.json("security group show apps")
    assert (seen["description"], seen["stateful"], sorted(seen["tags"])) == ("e", True, ["t", "u"])
    shell("security group unset apps --all-tag")
    group = shell.json("address group create offices --address 192.0.2.0/24 --description d")["id"]
    rules = [
        shell.json(f"security group rule create apps {options}")
        for options in (
            "--protocol tcp --dst-port 22:23 --remote-ip 10.0.0.0/8 --description ssh",
            "--protocol icmp --icmp-type 8 --icmp-code 0 --ingress",
            "--protocol ipv6-icmp --ethertype IPv6 --egress",
            "--protocol udp --dst-port 53 --remote-group apps",
            "--protocol tcp --dst-port 80 --remote-address-group offices",
            "--protocol any --ethertype IPv6 --remote-ip 2001:db8::/32",
            "--protocol 132",
        )
    ]
    assert (rules[0]["port_range_min"], rules[0]["port_range_max"], rules[0]["description"]) == (22, 23, "ssh")
    assert (rules[1]["port_range_min"], rules[1]["port_range_max"]) == (8, 0)
    assert rules[4]["remote_address_group_id"] == group
    assert len(shell.json("security group rule list apps")) == 9
    assert len(shell.json("security group rule list apps --protocol tcp --ingress --long")) == 2
    assert shell.json(f"security group rule show {rules[3]['id']}")["remote_group_id"] == seen["id"]
    assert "409" in shell.refused(
        "security group rule create apps --protocol tcp --dst-port 22:23 --remote-ip 10.0.0.0/8"
    )
    shell(f"security group rule delete {' '.join(rule['id'] for rule in rules)}")
    assert "default" in names(shell.json("security group list"))
    shell("security group delete apps")
    shell("address group delete offices")


def test_address_groups(shell: Shell) -> None:
    made = shell.json("address group create dcs --address 10.0.0.0/8 --address 2001:db8::/32")
    assert sorted(made["addresses"]) == ["10.0.0.0/8", "2001:db8::/32"]
    shell("address group set dcs --name sites --description e --address 192.0.2.7")
    shell("address group unset sites --address 10.0.0.0/8")
    seen = shell.json("address group show sites")
    assert (sorted(seen["addresses"]), seen["description"]) == (["192.0.2.7/32", "2001:db8::/32"], "e")
    assert "sites" in names(shell.json("address group list"))
    shell("address group delete sites")


def test_subnet_pools_and_address_scopes(shell: Shell) -> None:
    scope = shell.json("address scope create wan --ip-version 4 --share")
    assert scope["shared"] is True
    assert names(shell.json("address scope list --ip-version 4 --share")) == ["wan"]
    shell("address scope create lan --ip-version 4")
    shell("address scope set lan --name lans --share")
    made = shell.json(
        "subnet pool create pool --pool-prefix 10.10.0.0/16 --default-prefix-length 26 --min-prefix-length 24"
        " --max-prefix-length 28 --address-scope wan --default-quota 4096 --description d --default --tag p"
    )
    assert (made["address_scope_id"], made["default_prefixlen"], made["default_quota"]) == (scope["id"], 26, 4096)
    assert (made["is_default"], made["ip_version"], made["tags"]) == (True, 4, ["p"])
    shell("subnet pool set pool --name pools --pool-prefix 10.11.0.0/16 --default-prefix-length 25 --no-default")
    shell("subnet pool set pools --min-prefix-length 20 --max-prefix-length 30 --default-quota 8192 --description e")
    seen = shell.json("subnet pool show pools")
    # Adjacent prefixes become one.
    assert (seen["prefixes"], seen["default_prefixlen"], seen["is_default"]) == (["10.10.0.0/15"], 25, False)
    assert (seen["min_prefixlen"], seen["max_prefixlen"], seen["default_quota"]) == (20, 30, 8192)
    shell("network create pooled")
    subnet = shell.json("subnet create of-pool --network pooled --subnet-pool pools --prefix-length 27")
    assert subnet["cidr"].startswith("10.1")
    assert subnet["cidr"].endswith("/27")
    assert shell.json("network show pooled")["ipv4_address_scope"] == scope["id"]
    assert names(shell.json("subnet list --subnet-pool pools")) == ["of-pool"]
    assert names(shell.json("subnet pool list --address-scope wan --no-default --long")) == ["pools"]
    assert shell.refused("subnet pool delete pools")  # a subnet is of it
    shell("subnet pool unset pools --all-tag")
    shell("subnet pool set pools --no-address-scope")
    shell("network delete pooled")
    shell("subnet pool delete pools")
    shell("address scope delete wan lans")


def test_rbac(shell: Shell, cloud: Cloud) -> None:
    shell("network create offered")
    shell("security group create offered")
    shell("address scope create offered --ip-version 4")
    shell("subnet pool create offered --pool-prefix 10.20.0.0/16")
    shell("address group create offered --address 10.0.0.1")
    target = f"--target-project {cloud.other}" if cloud.keystone else "--target-all-projects"
    made = []
    for kind in ("network", "security_group", "address_scope", "subnetpool", "address_group"):
        policy = shell.json(f"network rbac create offered --type {kind} --action access_as_shared {target}")
        assert policy["target_project_id"] == (cloud.other if cloud.keystone else "*")
        made.append(policy["id"])
    assert shell.json(f"network rbac show {made[0]}")["object_type"] == "network"
    listed = shell.json("network rbac list --type subnetpool --action access_as_shared --long")
    assert made[3] in [row["ID"] for row in listed]
    if cloud.keystone:
        shell(f"network rbac set {made[0]} --target-project {cloud.project}")
        assert shell.json(f"network rbac show {made[0]}")["target_project_id"] == cloud.project
    else:
        assert shell.json("network show offered")["shared"] is True
    shell(f"network rbac delete {' '.join(made)}")
    for kind in ("network", "security group", "address scope", "subnet pool", "address group"):
        shell(f"{kind} delete offered")


def test_agents(shell: Shell) -> None:
    rows = shell.json("network agent list --agent-type dhcp")
    assert {row["Host"] for row in rows} >= set(HOSTS)
    assert all(row["Alive"] for row in rows)
    [switch] = shell.json(f"network agent list --agent-type open-vswitch --host {HOSTS[0]} --long")
    shown = shell.json(f"network agent show {switch['ID']}")
    assert shown["configuration"]["tunnel_types"] == ["vxlan"]
    shell(f"network agent set {switch['ID']} --disable --description moving")
    shown = shell.json(f"network agent show {switch['ID']}")
    assert (shown["admin_state_up"], shown["description"]) == (False, "moving")
    shell(f"network agent set {switch['ID']} --enable")
    shell("network create served")
    shell("subnet create served --network served --subnet-range 10.30.0.0/24")
    [serving] = shell.json("network agent list --network served")
    assert names(shell.json(f"network list --agent {serving['ID']}")).count("served") == 1
    shell(f"network agent remove network --dhcp {serving['ID']} served")
    assert shell.json("network agent list --network served") == []
    shell(f"network agent add network --dhcp {serving['ID']} served")
    assert len(shell.json("network agent list --network served")) == 1
    shell("network delete served")


def test_what_there_is(shell: Shell) -> None:
    aliases = {row["Alias"] for row in shell.json("extension list --network")}
    assert {"provider", "security-group", "rbac-policies", "quotas", "standard-attr-tag"} <= aliases
    assert shell.json("extension show provider")["alias"] == "provider"
    zones = shell.json("availability zone list --network")
    assert {"nova"} == {row["Zone Name"] for row in zones}
    shell("network create counted")
    shell("subnet create counted --network counted --subnet-range 10.40.0.0/29")
    shell("port create counted --network counted")
    used = shell.json("ip availability show counted")
    assert (used["total_ips"], used["used_ips"]) == (5, 1)
    assert "counted" in [row["Network Name"] for row in shell.json("ip availability list --ip-version 4")]
    shell("port delete counted")
    shell("network delete counted")


# The command reads the project's name from Keystone, so it needs one.
@pytest.mark.parametrize("cloud", [pytest.param("keystone", marks=pytest.mark.keystone)], indirect=True)
def test_quotas(shell: Shell, cloud: Cloud) -> None:
    limits = "--networks 7 --subnets 8 --ports 9 --secgroups 3 --secgroup-rules 33 --rbac-policies 2"
    shell(f"quota set {limits} {cloud.other}")
    seen = {row["Resource"]: row["Limit"] for row in shell.json(f"quota show --network {cloud.other}")}
    assert (seen["networks"], seen["ports"], seen["rbac_policies"]) == (7, 9, 2)
    usage = {row["Resource"]: row["In Use"] for row in shell.json(f"quota show --network --usage {cloud.other}")}
    assert usage["networks"] == 0
    assert shell.json(f"quota show --network --default {cloud.other}")
    assert cloud.other in [row["Project ID"] for row in shell.json("quota list --network")]
    shell(f"quota delete --network {cloud.other}")
    assert cloud.other not in [row["Project ID"] for row in shell.json("quota list --network")]
