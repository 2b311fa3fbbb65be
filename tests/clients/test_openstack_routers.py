"""The `openstack` command on routers and floating IPs, as an operator types it."""

from __future__ import annotations

from tests.clients.conftest import Cloud
from tests.clients.shell import Shell


def names(rows: list[dict[str, object]]) -> list[object]:
    return [row["Name"] for row in rows]


def test_a_way_out(shell: Shell, cloud: Cloud) -> None:
    shell("network create out --external")
    shell("subnet create out4 --network out --subnet-range 203.0.113.0/24 --no-dhcp")
    shell("network create in")
    shell("subnet create in4 --network in --subnet-range 10.40.0.0/24")
    made = shell.json("router create way --description d --tag red")
    assert (made["name"], made["status"], made["tags"]) == ("way", "ACTIVE", ["red"])
    shell("router add subnet way in4")
    shell("router set way --external-gateway out --fixed-ip ip-address=203.0.113.9 --disable-snat")
    info = shell.json("router show way")
    assert info["external_gateway_info"]["external_fixed_ips"][0]["ip_address"] == "203.0.113.9"
    assert info["external_gateway_info"]["enable_snat"] is False
    assert [one["ip_address"] for one in info["interfaces_info"]] == ["10.40.0.1"]
    shell("router set way --route destination=192.0.2.0/24,gateway=10.40.0.7")
    shell("router add route way --route destination=198.51.100.0/24,gateway=10.40.0.8")
    assert len(shell.json("router show way")["routes"]) == 2
    assert "nexthop" in shell.refused("router remove subnet way in4")
    shell("router remove route way --route destination=198.51.100.0/24,gateway=10.40.0.8")
    shell("router unset way --route destination=192.0.2.0/24,gateway=10.40.0.7")
    assert names(shell.json("router list --name way --long")) == ["way"]
    shell("port create server --network in --fixed-ip ip-address=10.40.0.50")
    floating = shell.json("floating ip create out --description x")
    shell(f"floating ip set {floating['floating_ip_address']} --port server")
    shown = shell.json(f"floating ip show {floating['floating_ip_address']}")
    assert (shown["fixed_ip_address"], shown["port_details"]["name"]) == ("10.40.0.50", "server")
    listed = shell.json("floating ip list --port server")
    assert [row["Floating IP Address"] for row in listed] == [floating["floating_ip_address"]]
    assert "floating" in shell.refused("router unset way --external-gateway").lower()
    shell(f"floating ip unset {floating['floating_ip_address']} --port")
    shell(
        "floating ip port forwarding create --internal-ip-address 10.40.0.50 --port server --internal-protocol-port 80"
        f" --external-protocol-port 8080 --protocol tcp {floating['id']}"
    )
    (forwarded,) = shell.json(f"floating ip port forwarding list {floating['id']}")
    assert (forwarded["External Port"], forwarded["Internal Port"]) == (8080, 80)
    shell(f"floating ip port forwarding set {floating['id']} {forwarded['ID']} --internal-protocol-port 81")
    shell(f"floating ip port forwarding delete {floating['id']} {forwarded['ID']}")
    shell("network l3 conntrack helper create way --helper tftp --protocol udp --port 69")
    (helper,) = shell.json("network l3 conntrack helper list way")
    shell(f"network l3 conntrack helper delete way {helper['ID']}")
    shell(f"floating ip delete {floating['id']}")
    shell("router unset way --external-gateway")
    shell("port create leg --network in")
    shell("network create other")
    shell("subnet create other4 --network other --subnet-range 10.41.0.0/24")
    shell("port create interface1 --network other")
    shell("router add port way interface1")
    shell("router remove port way interface1")
    shell("router remove subnet way in4")
    shell("router delete way")
    shell("port delete server leg")
    shell("network delete in other out")


def networks_of(router: dict[str, object]) -> list[object]:
    return [each["network_id"] for each in router["external_gateways"]]  # type: ignore[attr-defined]


def test_several_gateways(shell: Shell) -> None:
    ids = []
    for i in (1, 2):
        ids.append(shell.json(f"network create out{i} --external")["id"])
        shell(f"subnet create out{i}4 --network out{i} --subnet-range 198.18.{i}.0/24 --no-dhcp")
    shell("router create multi --enable-default-route-ecmp --enable-default-route-bfd --external-gateway out1")
    shown = shell.json("router show multi")
    assert (networks_of(shown), shown["enable_default_route_ecmp"]) == (ids[:1], True)
    assert shown["enable_default_route_bfd"] is True
    shell("router add gateway multi out2 --fixed-ip subnet=out24,ip-address=198.18.2.9")
    shown = shell.json("router show multi")
    assert networks_of(shown) == ids
    assert shown["external_gateways"][1]["external_fixed_ips"][0]["ip_address"] == "198.18.2.9"
    assert shown["external_gateway_info"]["network_id"] == ids[0]
    off = "--disable-default-route-ecmp --disable-default-route-bfd"
    shell(f"router set multi --external-gateway out2 --external-gateway out1 {off}")
    shown = shell.json("router show multi")
    assert (networks_of(shown), shown["enable_default_route_ecmp"]) == (ids[::-1], False)
    assert shown["enable_default_route_bfd"] is False
    shell("router remove gateway multi out2")
    assert networks_of(shell.json("router show multi")) == ids[:1]
    shell("router add gateway multi out2")
    shell("router unset multi --external-gateway")  # the first one
    assert networks_of(shell.json("router show multi")) == ids[1:]
    shell("router unset multi --external-gateway")
    assert networks_of(shell.json("router show multi")) == []
    shell("router delete multi")
    shell("router create both --external-gateway out1 --external-gateway out2")
    assert networks_of(shell.json("router show both")) == ids
    shell("router delete both")
    shell("network delete out1 out2")


def test_kinds_flavors_and_topology(shell: Shell) -> None:
    made = shell.json("router create spread --distributed --disable")
    assert (made["distributed"], made["admin_state_up"]) == (True, False)
    shell("router set spread --centralized")
    assert shell.json("router show spread")["distributed"] is False
    shell("router delete spread")
    profile = shell.json("network flavor profile create --metainfo none")
    flavor = shell.json("network flavor create plain --service-type L3_ROUTER_NAT")
    shell(f"network flavor add profile {flavor['id']} {profile['id']}")
    assert names(shell.json("network flavor list")) == ["plain"]
    shell(f"network flavor remove profile {flavor['id']} {profile['id']}")
    shell("network flavor delete plain")
    shell(f"network flavor profile delete {profile['id']}")
    assert "single_node" in {row["Name"] for row in shell.json("network service provider list")}
    assert "external" in shell.refused("network auto allocated topology create --check-resources")
