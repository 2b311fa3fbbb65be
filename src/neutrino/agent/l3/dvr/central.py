"""The part of a distributed router that one host has for all: `snat-…`, by which addresses without a floating IP go out.

It has a port on each of the router's subnets (sg-…), with an address of its own, as the router's is everywhere, and the
router's gateway (qg-…). Answers go from here to the instance directly. Floating IPs of ports whose host does not reach the
outside itself, and forwarded ports, are translated here too.

Several hosts may hold this part ready, as they do with a whole router: then keepalived says which of them has its
addresses, and the rest of the router, which is on every host, knows nothing of it. Pure.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterator

import msgspec

from neutrino.agent.l3.names import SNAT_PORT, device, snat_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import render_device, silent
from neutrino.agent.l3.parts.ha import Moving, moving_router
from neutrino.agent.l3.parts.ipv6 import render_ipv6
from neutrino.agent.l3.parts.nat import render_nat
from neutrino.agent.l3.router import DesiredRouter, render_plug, render_router
from neutrino.dataplane.netlink.values import Address, address
from neutrino.model.routing import Router, RouterInterface, RouterRoute


def render_central(router: Router, options: L3Options) -> DesiredRouter | None:
    """None where this host has no such part of the router."""
    if not has_central(router):
        return None
    outer = _outer(router)
    base = render_router(outer, options)
    ports = _ports(router)
    held_ready = router.ha is not None
    namespace = dataclasses.replace(
        base.namespace,
        name=snat_namespace(router.id),
        devices=(*base.namespace.devices, *(render_device(name, port, options) for name, port in ports.items())),
        addresses=base.namespace.addresses | frozenset(() if held_ready else _addresses(ports)),
        sysctls={
            **base.namespace.sysctls,
            **{f"net/ipv4/conf/{name}/rp_filter": "0" for name in ("all", "default", *ports)},
            **(silent(ports) if held_ready else {}),
        },
        device_prefixes=(*base.namespace.device_prefixes, SNAT_PORT),
        others_addresses=base.namespace.others_addresses | frozenset(ports if held_ready else ()),
    )
    plugs = (*base.plugs, *(render_plug(name, port, options) for name, port in sorted(ports.items())))
    return DesiredRouter(namespace, render_nat(outer, inside=ports), plugs, render_ipv6(outer, inside=ports))


def moving_central(router: Router, options: L3Options) -> Moving | None:
    """What of it only the active host has, where several hold it ready."""
    whole = moving_router(_outer(router), options) if has_central(router) else None
    if whole is None:
        return None
    ports = _ports(router)
    return dataclasses.replace(
        whole,
        namespace=snat_namespace(router.id),
        ports={**whole.ports, **ports},
        addresses=(*whole.addresses, *_addresses(ports)),
    )


def has_central(router: Router) -> bool:
    return router.centralized and router.gateway is not None


def _outer(router: Router) -> Router:
    """What it is towards the outside, as a router by itself."""
    central = tuple(each for each in router.floating_ips if not each.host)
    return msgspec.structs.replace(
        router, interfaces=(), floating_ips=central, routes=tuple(_reachable(router)), conntrack_helpers=()
    )


def _ports(router: Router) -> dict[str, RouterInterface]:
    return {device(SNAT_PORT, each.id): each for each in router.snat_interfaces if each.admin_state_up}


def _addresses(ports: dict[str, RouterInterface]) -> Iterator[Address]:
    for name, port in ports.items():
        yield from (address(name, each.prefixed, nodad=True) for each in port.addresses)


def _reachable(router: Router) -> Iterator[RouterRoute]:
    """The extra routes whose next hop is on a link of this part."""
    ports = (*router.snat_interfaces, *((router.gateway,) if router.gateway is not None else ()))
    links = [ipaddress.ip_network(each.cidr) for port in ports for each in port.addresses]
    for each in router.routes:
        if any(ipaddress.ip_address(each.nexthop) in link for link in links):
            yield each
