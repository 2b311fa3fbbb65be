"""The routes that a BGP speaker advertises. Pure.

    route                next hop
    tenant subnet        the router's gateway address on a network of the speaker, if both are in one address scope:
                         only then is traffic routed without NAT
    floating IP          the same; of a distributed router the address of the agent gateway on the host that translates
    instance's address   behind a distributed router: the agent gateway on its host, if the subnet is in the address
                         scope; without one there, the subnet's route leads to it

A destination has one next hop, since a speaker announces one path: of several routers with the subnet that with the
smallest id.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Route(NamedTuple):
    destination: str
    next_hop: str


class GatewayAddress(NamedTuple):
    """An address of a router on a network of the speaker, of the speaker's IP version."""

    network_id: str
    ip_address: str
    address_scope_id: str | None


class TenantSubnet(NamedTuple):
    """A subnet behind a router, of the speaker's IP version and in an address scope."""

    network_id: str
    cidr: str
    address_scope_id: str


@dataclass(frozen=True)
class AdvertisedRouter:
    """A router with a gateway on a network of the speaker, administratively up."""

    id: str
    distributed: bool
    gateways: Sequence[GatewayAddress]
    subnets: Sequence[TenantSubnet] = ()


class AdvertisedFloatingIp(NamedTuple):
    ip_address: str
    network_id: str
    router_id: str
    host: str = ""  # of its port, if it has one


class InstanceAddress(NamedTuple):
    """An IPv4 address of an instance behind a distributed router, on a subnet in an address scope."""

    ip_address: str
    router_id: str
    network_id: str  # of the router's first gateway, the only one that hosts reach by themselves
    host: str
    address_scope_id: str


AgentGateways = Mapping[tuple[str, str], str]  # external network and host → the host's address there


def tenant_routes(routers: Iterable[AdvertisedRouter]) -> Iterator[Route]:
    for router in routers:
        bound = {gateway.network_id for gateway in router.gateways}
        for subnet in router.subnets:
            in_scope = (g for g in router.gateways if g.address_scope_id == subnet.address_scope_id)
            gateway = next(in_scope, None)
            if gateway is not None and subnet.network_id not in bound:
                yield Route(subnet.cidr, gateway.ip_address)


def floating_routes(
    routers: Mapping[str, AdvertisedRouter], floating_ips: Iterable[AdvertisedFloatingIp], hosts: AgentGateways
) -> Iterator[Route]:
    for floating_ip in floating_ips:
        router = routers.get(floating_ip.router_id)
        gateway = next((g for g in router.gateways if g.network_id == floating_ip.network_id), None) if router else None
        if router is None or gateway is None:
            continue
        # Without an agent gateway on the port's host, the floating IP is translated where the router's SNAT is.
        local = hosts.get((floating_ip.network_id, floating_ip.host)) if router.distributed else None
        yield Route(f"{floating_ip.ip_address}/32", local or gateway.ip_address)


def instance_routes(
    routers: Mapping[str, AdvertisedRouter], instances: Iterable[InstanceAddress], hosts: AgentGateways
) -> Iterator[Route]:
    for instance in instances:
        gateways = routers[instance.router_id].gateways if instance.router_id in routers else ()
        in_scope = any(
            (g.network_id, g.address_scope_id) == (instance.network_id, instance.address_scope_id) for g in gateways
        )
        if in_scope and (hop := hosts.get((instance.network_id, instance.host))):
            yield Route(f"{instance.ip_address}/32", hop)


def advertised_routes(
    routers: Iterable[AdvertisedRouter],
    floating_ips: Iterable[AdvertisedFloatingIp] = (),
    hosts: AgentGateways | None = None,
    instances: Iterable[InstanceAddress] = (),
    *,
    tenant_networks: bool = True,
) -> tuple[Route, ...]:
    """All routes in the order of their destinations, each destination once."""
    in_order = sorted(routers, key=lambda router: router.id)
    found: dict[str, Route] = {}
    by_id = {router.id: router for router in in_order}
    floating = floating_routes(by_id, floating_ips, hosts or {})
    tenants = (*tenant_routes(in_order), *instance_routes(by_id, instances, hosts or {})) if tenant_networks else ()
    for route in (*floating, *tenants):
        found.setdefault(route.destination, route)
    return tuple(sorted(found.values(), key=_order))


def _order(route: Route) -> tuple[int, int, int]:
    network = ipaddress.ip_network(route.destination)
    return network.version, int(network.network_address), network.prefixlen
