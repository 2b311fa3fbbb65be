"""Routers as values, for tests: a gateway at 203.0.113.5 and internal subnets 10.0.N.0/24."""

from __future__ import annotations

from neutrino.model.routing import FloatingIp, HaMembership, Router, RouterAddress, RouterInterface


def address(ip: str, cidr: str, gateway: str | None = None, **values: object) -> RouterAddress:
    return RouterAddress(ip_address=ip, subnet_id=f"subnet-{cidr}", cidr=cidr, gateway_ip=gateway, **values)  # type: ignore[arg-type]


def interface(number: int, *addresses: RouterAddress, **values: object) -> RouterInterface:
    own = addresses or (address(f"10.0.{number}.1", f"10.0.{number}.0/24", f"10.0.{number}.1"),)
    whole = {"network_id": f"net-{number}", "mac_address": f"fa:16:3e:00:01:{number:02x}", "addresses": own, **values}
    return RouterInterface(id=f"{number:08x}-aaaa-bbbb-cccc-dddddddddddd", **whole)  # type: ignore[arg-type]


GATEWAY = RouterInterface(
    id="eeeeeeee-aaaa-bbbb-cccc-dddddddddddd",
    network_id="outside",
    mac_address="fa:16:3e:00:02:01",
    addresses=(address("203.0.113.5", "203.0.113.0/24", "203.0.113.1"),),
)
QG = "qg-eeeeeeee-aa"


def router(*interfaces: RouterInterface, **values: object) -> Router:
    whole = {"id": "r1", "gateway": GATEWAY, "interfaces": interfaces or (interface(1), interface(2)), **values}
    return Router(**whole)  # type: ignore[arg-type]


def floating(number: int, fixed: str) -> FloatingIp:
    return FloatingIp(id=f"fip-{number}", floating_ip_address=f"203.0.113.{number}", fixed_ip_address=fixed)


def membership(priority: int = 50) -> HaMembership:
    port = RouterInterface(
        id="ffffffff-aaaa-bbbb-cccc-dddddddddddd",
        network_id="ha-network",
        mac_address="fa:16:3e:00:03:01",
        addresses=(address("169.254.192.7", "169.254.192.0/18"),),
    )
    return HaMembership(interface=port, vr_id=7, priority=priority)
