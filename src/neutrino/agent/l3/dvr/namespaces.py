"""The namespaces of a distributed router on a host, as input of extensions. Pure.

`qrouter-…`, on every host, has the router's own ports: packets between its subnets are routed on the sender's host.
`snat-…`, on one host, has a port on each subnet (`sg-…`), with an address of its own because the router's is on every
host, and the gateway port (`qg-…`). Instances without a floating IP reach the outside by it; replies go from it to the
instance directly. Floating IPs of ports whose host does not reach the outside itself, and port forwardings, are
translated there too.

With HA, several hosts have `snat-…`, and keepalived sets its addresses on the active one; `qrouter-…` is not affected.
"""

import ipaddress
from collections.abc import Iterator

import msgspec

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import Objects, RouterNamespace
from neutrino.agent.l3.names import (
    EXTERNAL,
    INTERNAL,
    SNAT_PORT,
    TO_FIP,
    device,
    router_namespace,
    snat_namespace,
)
from neutrino.model.routing import FloatingIp, Router, RouterInterface, RouterRoute


def local_namespace(
    router: Router, options: L3Options, objects: Objects, link: tuple[str, str] | None
) -> RouterNamespace:
    """`qrouter-…`. `link` joins it with `fip-…`, where it has floating IPs on this host."""
    inside = {device(INTERNAL, each.id): each for each in router.interfaces if each.admin_state_up}
    # Before the link is allocated floating IPs have no way out: they are rendered in the round that allocates it.
    floating = local_floating_ips(router) if link is not None else ()
    local = msgspec.structs.replace(
        router,
        gateway=None,
        floating_ips=floating,
        port_forwardings=(),
        ha=None,
        routes=tuple(_reachable(router, router.interfaces)),
    )
    link = link if floating else None
    outside = device(TO_FIP, router.id) if link is not None else ""
    return RouterNamespace(
        router_namespace(router.id), "router", local, router, inside, outside, options, objects, link
    )


def snat_part(router: Router, options: L3Options, objects: Objects) -> RouterNamespace | None:
    """`snat-…`; None where this host does not have it."""
    if not router.centralized or router.gateway is None:
        return None
    inside = {device(SNAT_PORT, each.id): each for each in router.snat_interfaces if each.admin_state_up}
    outer = msgspec.structs.replace(
        router,
        interfaces=(),
        floating_ips=tuple(each for each in router.floating_ips if not each.host),
        routes=tuple(_reachable(router, (*router.snat_interfaces, router.gateway))),
        conntrack_helpers=(),  # they follow connections where instances send them, in `qrouter-…`
    )
    outside = device(EXTERNAL, router.gateway.id)
    return RouterNamespace(snat_namespace(router.id), "snat", outer, router, inside, outside, options, objects)


def local_floating_ips(router: Router) -> tuple[FloatingIp, ...]:
    """Those whose port is on this host; others are translated in `snat-…`."""
    if not router.distributed or router.gateway is None or router.agent_gateway is None:
        return ()
    return tuple(each for each in router.floating_ips if each.host)


def _reachable(router: Router, ports: tuple[RouterInterface, ...]) -> Iterator[RouterRoute]:
    """The extra routes whose next hop is on a subnet of these ports."""
    subnets = [ipaddress.ip_network(each.cidr) for port in ports for each in port.addresses]
    for each in router.routes:
        if any(ipaddress.ip_address(each.nexthop) in subnet for subnet in subnets):
            yield each
