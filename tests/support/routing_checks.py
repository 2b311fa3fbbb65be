"""Checks for routers of every kind, on real packets. Each one cleans up after itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import Guest, Spec, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    MACHINE6,
    PATIENCE,
    SOON,
    can_connect,
    can_ping,
    connect,
    delete_router,
    devices_of,
    floating_ip,
    gateway_address,
    make_router,
    source_seen,
    tenant_network,
    udp_source_seen,
    wait_for_floating_ip,
    wait_until_reachable,
    wait_until_removed,
    wait_until_unreachable,
)


def check_forwarded_ports(lab: Lab, out: Object, guest: Guest, gateway: str) -> None:
    """TCP and UDP; other ports of the address are not forwarded, and a connection ends with its port forwarding."""
    fip = floating_ip(lab, out)
    address, path = fip["floating_ip_address"], f"/v2.0/floatingips/{fip['id']}/port_forwardings"
    inner = {"internal_port_id": guest.port_id, "internal_ip_address": guest.addresses[4]}
    rules = (("tcp", "2000:2001", "3000:3001"), ("udp", "2000:2001", "53:53"), ("tcp", "4000:65535", "4000:65535"))
    for protocol, outer, inward in rules:
        ports = {"external_port_range": outer, "internal_port_range": inward}
        lab.api.request("POST", path, {"port_forwarding": {"protocol": protocol, **ports, **inner}})
    wait_for_floating_ip(lab, fip["id"], "ACTIVE")
    for outside, inside in ((2001, 3001), (4000, 4000), (65535, 65535)):
        assert source_seen(lab, EXTERNAL, guest.name, address, outside, inside) == MACHINE
    wait_until(
        lambda: udp_source_seen(lab, EXTERNAL, guest.name, address, 2001, 53) == MACHINE, SOON, "UDP is not forwarded"
    )
    assert not can_connect(lab, EXTERNAL, guest.name, address, 2002, 3002)
    assert source_seen(lab, guest.name, EXTERNAL, MACHINE) == gateway
    with connect(lab, EXTERNAL, guest.name, address, 2000, 3000) as talk:
        assert talk.passes_data(PATIENCE)
        for each in lab.api.request("GET", path)["port_forwardings"]:
            lab.api.request("DELETE", f"{path}/{each['id']}")
        wait_until(lambda: not talk.passes_data(), SOON, "a connection goes on that is forwarded no more")
    wait_for_floating_ip(lab, fip["id"], "DOWN")
    lab.api.delete("floatingip", fip["id"])


def check_without_translation(lab: Lab, out: Object, router: Object, guest: Guest, gateway: str) -> None:
    """With enable_snat off, the source of an instance without floating IP is not translated."""
    info = {"network_id": out["id"]}
    network = guest.addresses[4].rpartition(".")[0] + ".0/24"
    lab.run(EXTERNAL, ["ip", "route", "add", network, "via", gateway])
    lab.api.update("router", router["id"], external_gateway_info={**info, "enable_snat": False})
    try:
        own = guest.addresses[4]
        wait_until(lambda: source_seen(lab, guest.name, EXTERNAL, MACHINE) == own, SOON, "it is still translated")
    finally:
        lab.api.update("router", router["id"], external_gateway_info={**info, "enable_snat": True})
        lab.run(EXTERNAL, ["ip", "route", "del", network])
    wait_until(lambda: source_seen(lab, guest.name, EXTERNAL, MACHINE) == gateway, SOON, "it is not translated again")


def check_ipv6_out(lab: Lab, router: Object, *guests: Guest) -> None:
    """It is routed and not translated; all guests are on one subnet."""
    network = guests[0].addresses[6].partition("::")[0] + "::/64"
    lab.run(EXTERNAL, ["ip", "-6", "route", "add", network, "via", gateway_address(lab, router, 6)])
    try:
        for guest in guests:
            assert source_seen(lab, guest.name, EXTERNAL, MACHINE6) == guest.addresses[6]
    finally:
        lab.run(EXTERNAL, ["ip", "-6", "route", "del", network])


def check_floating_ips(lab: Lab, out: Object, guests: Sequence[Guest], without: Guest, gateway: str) -> None:
    """In and out, and between floating IPs; an instance without one has the router's address as source."""
    made = {guest.name: floating_ip(lab, out, guest.port_id) for guest in guests}
    fips = {name: fip["floating_ip_address"] for name, fip in made.items()}
    for guest in guests:
        assert source_seen(lab, EXTERNAL, guest.name, fips[guest.name]) == MACHINE
        assert source_seen(lab, guest.name, EXTERNAL, MACHINE) == fips[guest.name]
    for source, target in zip(guests, [*guests[1:], guests[0]], strict=True):
        assert source_seen(lab, source.name, target.name, fips[target.name]) == fips[source.name]
        assert source_seen(lab, source.name, target.name, target.addresses[4]) == source.addresses[4]
    assert source_seen(lab, without.name, guests[0].name, fips[guests[0].name]) == gateway
    for fip in made.values():
        lab.api.delete("floatingip", fip["id"])


def check_route_through(lab: Lab, router: Object, through: Guest, *sources: Guest) -> None:
    """A route of the router's leads to addresses behind an instance."""
    beyond, prefix = "10.99.0.1", "10.99.0.0/24"
    through.update(allowed_address_pairs=[{"ip_address": prefix}])
    lab.run(through.name, ["ip", "address", "add", f"{beyond}/32", "dev", "lo"])
    assert not can_ping(lab, sources[0].name, beyond)
    route = {"destination": prefix, "nexthop": through.addresses[4]}
    lab.api.update("router", router["id"], routes=[route])
    for source in sources:
        wait_until_reachable(lab, source.name, beyond)
    lab.api.update("router", router["id"], routes=[])
    wait_until_unreachable(lab, sources[0].name, beyond)
    lab.run(through.name, ["ip", "address", "del", f"{beyond}/32", "dev", "lo"])
    through.update(allowed_address_pairs=[])


def check_same_addresses(lab: Lab, out: Object, guest: Guest, groups: Sequence[str], gateway: str, **kind: Any) -> None:
    """Another tenant has the same subnet, and on the same host an instance with the same address."""
    number = int(guest.addresses[4].split(".")[2])
    again = tenant_network(lab, "again", number, six=False)
    values = {"fixed_ips": [{"ip_address": guest.addresses[4], "subnet_id": again["by_version"][4]["id"]}]}
    # Before the router, whose SNAT port gets any free address.
    (twin,) = make_guests(lab, Spec("twin", again, guest.host, groups, values))
    router = make_router(lab, out, again, name="another", **kind)
    other = gateway_address(lab, router)
    assert source_seen(lab, "twin", EXTERNAL, MACHINE) == other != gateway
    assert source_seen(lab, guest.name, EXTERNAL, MACHINE) == gateway
    mine, its = (floating_ip(lab, out, each.port_id) for each in (guest, twin))
    for each, fip in ((guest, mine), (twin, its)):
        assert source_seen(lab, EXTERNAL, each.name, fip["floating_ip_address"]) == MACHINE
    assert source_seen(lab, "twin", guest.name, mine["floating_ip_address"]) == its["floating_ip_address"]
    for fip in (mine, its):
        lab.api.delete("floatingip", fip["id"])
    lab.delete_vm("twin")
    lab.api.delete("port", twin.port_id)
    devices = devices_of(lab, router)
    delete_router(lab, router["id"])
    lab.api.delete("network", again["id"])
    for host in lab.hosts:
        wait_until_removed(lab, router["id"], host, devices)
