"""Metering and NDP proxies through the `openstack` command."""

from __future__ import annotations

from tests.clients.shell import Shell


def test_meters(shell: Shell) -> None:
    made = shell.json("network meter create out --description traffic --share")
    assert (made["name"], made["description"], made["shared"]) == ("out", "traffic", True)
    assert [row["Name"] for row in shell.json("network meter list")] == ["out"]
    assert shell.json("network meter show out")["id"] == made["id"]
    rule = shell.json("network meter rule create out --egress --remote-ip-prefix 10.0.0.0/24")
    assert (rule["direction"], rule["remote_ip_prefix"]) == ("egress", "10.0.0.0/24")
    assert "overlaps" in shell.refused("network meter rule create out --egress --remote-ip-prefix 10.0.0.0/25")
    other = shell.json(
        "network meter rule create out --ingress --exclude --source-ip-prefix 192.0.2.0/24 "
        "--destination-ip-prefix 10.0.0.0/24"
    )
    assert (other["source_ip_prefix"], other["destination_ip_prefix"]) == ("192.0.2.0/24", "10.0.0.0/24")
    # The command has no column for `excluded` that it fills.
    assert {row["ID"] for row in shell.json("network meter rule list")} == {rule["id"], other["id"]}
    assert shell.json(f"network meter rule show {rule['id']}")["metering_label_id"] == made["id"]
    shell(f"network meter rule delete {rule['id']}")
    shell("network meter delete out")
    assert shell.json("network meter list") == []
    assert shell.json("network meter rule list") == []


def test_ndp_proxies(shell: Shell) -> None:
    shell("address scope create six --ip-version 6")
    shell("subnet pool create six --pool-prefix 2001:db8::/48 --address-scope six")
    for network, option, prefix in (("out6", "--external", 1), ("in6", "--internal", 2)):
        shell(f"network create {network} {option}")
        cidr = f"2001:db8:0:{prefix}::/64"
        shell(f"subnet create {network} --network {network} --ip-version 6 --subnet-pool six --subnet-range {cidr}")
    shell("router create edge")
    assert "gateway" in shell.refused("router set edge --enable-ndp-proxy")
    # Two commands: the client sets the gateway last, by an action of its own.
    shell("router set edge --external-gateway out6")
    shell("router set edge --enable-ndp-proxy")
    shell("router add subnet edge in6")
    port = shell.json("port create --network in6 guest")
    made = shell.json("router ndp proxy create edge --name proxy --port guest")
    assert made["ip_address"] == port["fixed_ips"][0]["ip_address"]
    (row,) = shell.json("router ndp proxy list --router edge --port guest")
    assert (row["Name"], row["IP Address"]) == ("proxy", made["ip_address"])
    shell("router ndp proxy set proxy --name other --description d")
    shown = shell.json("router ndp proxy show other")
    assert (shown["description"], shown["router_id"], shown["port_id"]) == ("d", made["router_id"], port["id"])
    assert "NDP" in shell.refused("router unset edge --external-gateway")
    assert "NDP" in shell.refused("router remove subnet edge in6")
    shell("router ndp proxy delete other")
    shell("router set edge --disable-ndp-proxy")
    shell("router remove subnet edge in6")
    shell("router delete edge")
    shell("port delete guest")
    shell("network delete in6 out6")
    shell("subnet pool delete six")
    shell("address scope delete six")
