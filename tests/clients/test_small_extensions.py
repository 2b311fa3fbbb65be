"""Default rules and statefulness of security groups, chosen routers, onboarding: the `openstack` command and the SDK."""

from __future__ import annotations

from openstack.connection import Connection

from tests.clients.shell import Shell


def test_default_security_group_rules(shell: Shell) -> None:
    initial = shell.json("default security group rule list")
    assert len(initial) == 4
    assert {row["Remote Security Group"] for row in initial} == {None, "PARENT"}
    made = shell.json(
        "default security group rule create --ingress --protocol tcp --dst-port 8000:8080 --description web "
        "--for-custom-sg --remote-ip 192.0.2.0/24"
    )
    assert (made["used_in_default_sg"], made["used_in_non_default_sg"]) == (False, True)
    assert (made["port_range_min"], made["port_range_max"], made["remote_ip_prefix"]) == (8000, 8080, "192.0.2.0/24")
    shown = shell.json(f"default security group rule show {made['id']}")
    assert (shown["description"], shown["protocol"], shown["direction"]) == ("web", "tcp", "ingress")
    found = shell.json("default security group rule list --protocol tcp --ingress")
    assert [(row["ID"], row["Port Range"]) for row in found] == [(made["id"], "8000:8080")]
    parent = shell.json(
        "default security group rule create --ingress --protocol icmp --remote-group PARENT --for-custom-sg"
    )
    group = shell.json("security group create templated")
    rules = shell.json("security group rule list templated")
    assert {(row["IP Protocol"], row["Remote Security Group"]) for row in rules if row["Direction"] == "ingress"} == {
        ("tcp", None),
        ("icmp", group["id"]),
    }
    assert "already" in shell.refused(
        "default security group rule create --ingress --protocol tcp --dst-port 8000:8080 --for-custom-sg "
        "--remote-ip 192.0.2.0/24"
    )
    shell(f"default security group rule delete {made['id']} {parent['id']}")
    shell("security group delete templated")
    assert len(shell.json("default security group rule list")) == 4


def test_default_statefulness(shell: Shell) -> None:
    made = shell.json("security group default statefulness create --stateless")
    assert (made["project_id"], made["stateful"]) == (None, False)
    assert shell.json("security group create fast")["stateful"] is False
    shell(f"security group default statefulness set --stateful {made['id']}")
    assert shell.json(f"security group default statefulness show {made['id']}")["stateful"] is True
    assert [row["ID"] for row in shell.json("security group default statefulness list")] == [made["id"]]
    shell(f"security group default statefulness delete {made['id']}")
    shell("security group delete fast")
    assert shell.json("security group default statefulness list") == []


def test_a_chosen_router(shell: Shell) -> None:
    shell("network create far-out --external")
    shell("subnet create far-out4 --network far-out --subnet-range 198.51.100.0/24 --no-dhcp")
    shell("network create behind")
    shell("subnet create behind4 --network behind --subnet-range 10.77.0.0/24")
    shell("port create behind --network behind")
    shell("router create outermost --external-gateway far-out")
    router = shell.json("router show outermost")["id"]
    made = shell.json("floating ip create far-out --port behind --router outermost")
    assert made["router_id"] == router
    shell(f"floating ip unset --port {made['id']}")
    shell(f"floating ip set --port behind --router outermost {made['id']}")
    assert shell.json(f"floating ip show {made['id']}")["router_id"] == router
    shell(f"floating ip delete {made['id']}")
    shell("port delete behind")
    shell("router delete outermost")
    shell("network delete behind far-out")


def test_onboarding(conn: Connection) -> None:
    network = conn.network.create_network(name="onboarded")
    subnet = conn.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.78.0.0/24")
    pool = conn.network.create_subnet_pool(name="pool", prefixes=["10.79.0.0/24"])
    conn.network.onboard_network_subnets(pool, network)
    assert conn.network.get_subnet(subnet).subnet_pool_id == pool.id
    conn.network.delete_network(network)
    conn.network.delete_subnet_pool(pool)


def test_a_network_with_all_that_is_on_it(conn: Connection) -> None:
    """Neither the command nor a method of the SDK has the parameter: the SDK passes it on."""
    net = conn.network
    network = net.create_network(name="full")
    port = net.create_port(network_id=network.id)
    assert net.find_extension("network-cascade-delete") is not None
    assert net.delete(f"/networks/{network.id}").status_code == 409
    assert net.delete(f"/networks/{network.id}", params={"cascade": "true"}).status_code == 204
    assert net.find_port(port.id) is None
