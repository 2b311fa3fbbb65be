"""VPN services with the `openstack` command and openstacksdk."""

from __future__ import annotations

from openstack.connection import Connection

from tests.clients.shell import Shell


def test_the_command(shell: Shell) -> None:
    shell("network create vpn-out --external")
    shell("subnet create vpn-out --network vpn-out --subnet-range 198.51.100.0/24 --no-dhcp")
    shell("network create vpn-in")
    subnet = shell.json("subnet create vpn-in --network vpn-in --subnet-range 10.60.0.0/24")
    shell("router create vpn-router --external-gateway vpn-out")
    shell("router add subnet vpn-router vpn-in")
    ike = shell.json("vpn ike policy create ike --ike-version v2 --encryption-algorithm aes-256 --pfs group14")
    assert (ike["IKE Version"], ike["Authentication Algorithm"]) == ("v2", "sha256")
    shell("vpn ike policy set ike --pfs group19 --name phase1")
    assert shell.json("vpn ike policy show phase1")["Perfect Forward Secrecy (PFS)"] == "group19"
    shell("vpn ike policy set phase1 --name ike")
    shell("vpn ipsec policy create ipsec --encapsulation-mode tunnel")
    service = shell.json("vpn service create site --router vpn-router")
    assert (service["State"], service["Status"]) == (True, "PENDING_CREATE")
    shell("vpn endpoint group create here --type subnet --value vpn-in")
    there = shell.json("vpn endpoint group create there --type cidr --value 10.61.0.0/24 --value 10.62.0.0/24")
    assert there["Endpoints"] == ["10.61.0.0/24", "10.62.0.0/24"]
    assert shell.json("vpn endpoint group show here")["Endpoints"] == [subnet["id"]]
    made = shell.json(
        "vpn ipsec site connection create branch --vpnservice site --ikepolicy ike --ipsecpolicy ipsec "
        "--local-endpoint-group here --peer-endpoint-group there --peer-address 192.0.2.9 --peer-id 192.0.2.9 "
        "--psk s3cret --mtu 1400"
    )
    # Its options --dpd and --lifetime fail before they send a request, in this release of the client.
    assert made["DPD"] == {"action": "hold", "interval": 30, "timeout": 120}
    shell("vpn ipsec site connection set branch --peer-id other --disable")
    assert shell.json("vpn ipsec site connection show branch")["State"] is False
    assert [row["Name"] for row in shell.json("vpn ipsec site connection list")] == ["branch"]
    assert "still in use" in shell.refused("vpn service delete site")
    shell("vpn ipsec site connection delete branch")
    for kind, names in (("service", "site"), ("endpoint group", "here there"), ("ike policy", "ike")):
        shell(f"vpn {kind} delete {names}")
    shell("vpn ipsec policy delete ipsec")
    assert shell.json("vpn service list") == shell.json("vpn ike policy list") == []
    shell("router remove subnet vpn-router vpn-in")
    shell("router delete vpn-router")
    shell("network delete vpn-in vpn-out")


def test_the_sdk(conn: Connection) -> None:
    network = conn.network
    out = network.create_network(name="sdk-vpn-out", is_router_external=True)
    network.create_subnet(network_id=out.id, ip_version=4, cidr="198.51.100.0/24", enable_dhcp=False)
    inside = network.create_network(name="sdk-vpn-in")
    subnet = network.create_subnet(network_id=inside.id, ip_version=4, cidr="10.63.0.0/24")
    router = network.create_router(name="sdk-vpn", external_gateway_info={"network_id": out.id})
    network.add_interface_to_router(router, subnet_id=subnet.id)
    service = network.create_vpn_service(router_id=router.id, subnet_id=subnet.id, name="s")
    assert service.external_v4_ip.startswith("198.51.100.")
    ike = network.create_vpn_ike_policy(name="i", ike_version="v2")
    ipsec = network.create_vpn_ipsec_policy(name="p")
    connection = network.create_vpn_ipsec_site_connection(
        vpnservice_id=service.id,
        ikepolicy_id=ike.id,
        ipsecpolicy_id=ipsec.id,
        peer_address="192.0.2.9",
        peer_id="192.0.2.9",
        peer_cidrs=["10.64.0.0/24"],
        psk="key",
    )
    assert network.find_vpn_service("s").id == service.id
    assert [each.id for each in network.vpn_ipsec_site_connections(vpnservice_id=service.id)] == [connection.id]
    assert network.update_vpn_ipsec_site_connection(connection, name="c").name == "c"
    network.delete_vpn_ipsec_site_connection(connection)
    for delete, made in (
        (network.delete_vpn_service, service),
        (network.delete_vpn_ike_policy, ike),
        (network.delete_vpn_ipsec_policy, ipsec),
    ):
        delete(made)
    network.remove_interface_from_router(router, subnet_id=subnet.id)
    network.delete_router(router)
    for each in (inside, out):
        network.delete_network(each)
