"""Rules for a router's interfaces and routes. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neutrino.features.router.errors import InvalidRoutes
from neutrino.features.router.routers.port_layout import RouterPort
from neutrino.model.device_owners import DVR_INTERFACE, INTERFACES, SNAT
from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api.types import Uuid, comparable
from neutrino.server.ipam.delegated import is_provisional

_UUID = Uuid()
DEVICE_OWNERS = ("compute:", "baremetal:", "manila:", "network:", "trunk:")


def refuse(message: str) -> errors.BadRequest:
    return errors.BadRequest(resource="router", msg=message)


def interface_of(body: object, *, removal: bool = False) -> tuple[str | None, str | None]:
    """The port id and the subnet id of a request body: one of them, or both to remove an interface."""
    named = body if isinstance(body, dict) else {}
    if "port_id" not in named and "subnet_id" not in named:
        raise refuse("a subnet_id or a port_id is needed")
    for name in ("port_id", "subnet_id"):
        if name in named:
            try:
                _UUID.parse(named[name])
            except ValueError as error:
                raise refuse(f"{name}: {str(error)[:200]}") from None
    if not removal and "port_id" in named and "subnet_id" in named:
        raise refuse("subnet_id and port_id exclude each other")
    return named.get("port_id"), named.get("subnet_id")


def check_adoptable(port: Values, *, in_use: bool) -> None:
    """Refuse a port of a device as interface: the firewall trusts interfaces, so an instance could send anything.

    device_id alone does not show it: a project may clear it while the port stays plugged into an instance on a host.
    `in_use`: by a router or a floating IP.
    """
    owner, host = port["device_owner"], port["binding:host_id"]
    if port["device_id"]:
        raise errors.PortInUse(port_id=port["id"], device_id=port["device_id"])
    if in_use:
        raise errors.PortInUse(port_id=port["id"], device_id="of a router or a floating IP")
    if host:
        raise errors.PortInUse(port_id=port["id"], device_id=f"on host {host}")
    if owner.startswith(DEVICE_OWNERS) and owner not in INTERFACES:
        raise errors.PortInUse(port_id=port["id"], device_id=owner)


def check_modes(subnet: Values) -> None:
    """Refuse a subnet whose router advertisements come from a router outside of the service."""
    if subnet["ip_version"] == 6 and subnet["ipv6_ra_mode"] is None and subnet["ipv6_address_mode"] is not None:
        raise refuse(f"subnet {subnet['id']} gets its router advertisements from elsewhere (ipv6_ra_mode is not set)")


def check_overlap(ports: Sequence[RouterPort], new: Sequence[Values], others: Iterable[Values] = ()) -> None:
    """Refuse subnets that overlap with those of the router's ports or with `others`, as of its external network."""
    taken = {address.subnet_id: address.cidr for port in ports for address in port.addresses}
    for subnet in new:
        if subnet["id"] in taken:
            raise refuse(f"the router has a port on subnet {subnet['id']} already")
    taken |= {subnet["id"]: subnet["cidr"] for subnet in others}
    # All subnets that wait for a delegated prefix have the same provisional one, which is never routed.
    taken = {key: cidr for key, cidr in taken.items() if not is_provisional(cidr)}
    for subnet in new:
        prefix = ipaddress.ip_network(subnet["cidr"])
        for other_id, cidr in taken.items():
            if prefix.version == ipaddress.ip_network(cidr).version and prefix.overlaps(ipaddress.ip_network(cidr)):
                raise refuse(f"{prefix} of subnet {subnet['id']} overlaps with {cidr} of subnet {other_id}")


def check_one_ipv6_port(ports: Sequence[RouterPort], port: Values) -> None:
    """Refuse a second IPv6 port on a network: one port announces all its prefixes."""
    if not any(":" in fixed["ip_address"] for fixed in port["fixed_ips"]):
        return
    for other in ports:
        if other.network_id == port["network_id"] and has_ipv6(other) and other.type not in (SNAT, DVR_INTERFACE):
            raise refuse(f"the router has IPv6 port {other.id} on network {other.network_id} already")


def has_ipv6(port: RouterPort) -> bool:
    return any(":" in address.ip_address for address in port.addresses)


def check_within_pools(port: Values, subnets: Sequence[Values], project_id: str | None) -> None:
    """Refuse an address outside of the allocation pools of another project's subnet: its owner reserved it."""
    by_id = {subnet["id"]: subnet for subnet in subnets}
    for fixed in port["fixed_ips"]:
        subnet = by_id[fixed["subnet_id"]]
        if subnet["project_id"] != project_id and not _in_pools(fixed["ip_address"], subnet["allocation_pools"]):
            raise refuse(f"{fixed['ip_address']} of port {port['id']} is outside of the allocation pools of a subnet "
                         f"({subnet['id']}) that belongs to another project")  # fmt: skip


def _in_pools(address: str, pools: Sequence[Mapping[str, str]]) -> bool:
    ip = int(ipaddress.ip_address(address))
    return any(int(ipaddress.ip_address(p["start"])) <= ip <= int(ipaddress.ip_address(p["end"])) for p in pools)


def check_routes(routes: Sequence[Mapping[str, str]], cidrs: Iterable[str], own: Iterable[str]) -> None:
    """Refuse nexthops that are not on a subnet of the router, and those that are the router itself."""
    networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
    addresses = set(own)
    for route in routes:
        hop = ipaddress.ip_address(route["nexthop"])
        if not any(hop in network for network in networks):
            raise InvalidRoutes(reason=f"nexthop {hop} is on no network of the router")
        if str(hop) in addresses:
            raise InvalidRoutes(reason=f"nexthop {hop} is an address of the router")


def has_nexthop_in(routes: Sequence[Mapping[str, str]], cidr: str) -> bool:
    network = ipaddress.ip_network(cidr)
    return any(ipaddress.ip_address(route["nexthop"]) in network for route in routes)


def routes_added(old: Sequence[Mapping[str, str]], new: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The union, in order; linear, as a router may have thousands of routes."""
    both: dict[Any, dict[str, str]] = {}
    for route in [*old, *new]:
        both.setdefault(comparable(route), dict(route))
    return list(both.values())


def routes_removed(old: Sequence[Mapping[str, str]], gone: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The difference; removing a route that does not exist is no error."""
    going = {comparable(route) for route in gone}
    return [dict(route) for route in old if comparable(route) not in going]
