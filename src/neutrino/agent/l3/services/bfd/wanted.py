"""Which BFD sessions a router has on this host. Pure."""

import ipaddress
from collections.abc import Iterator

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.devices import next_hops, numbered
from neutrino.agent.l3.names import EXTERNAL, device, gateway_namespace
from neutrino.agent.l3.services.bfd.files import WantedSession, WantedSessions
from neutrino.dataplane.netlink.values import NextHop
from neutrino.model.addresses import link_local
from neutrino.model.routing import Router, RouterInterface


def is_supervised(router: Router) -> bool:
    """Whether this host has the default routes of a router that asks for BFD."""
    return router.enable_default_route_bfd and (router.centralized or not router.distributed)


def wanted_sessions(router: Router, options: L3Options) -> WantedSessions | None:
    """The router's sessions where it is active; None if it has none on this host."""
    found = tuple(session for session, _ in sessions(router, options)) if is_supervised(router) else ()
    if not found:
        return None
    return WantedSessions(
        namespace=gateway_namespace(router),
        interval=1000 * options.bfd_interval,
        multiplier=options.bfd_multiplier,
        fails_over=router.ha is not None,
        sessions=found,
    )


def sessions(router: Router, options: L3Options) -> Iterator[tuple[WantedSession, NextHop]]:
    for gateway in numbered(router).values():
        if gateway.admin_state_up:
            name = device(EXTERNAL, gateway.id)
            for _, hop in next_hops(name, gateway, options.ipv6_gateway):
                local = _local(gateway, hop.via)
                if local is not None:
                    yield WantedSession(name, local, hop.via), hop


def _local(gateway: RouterInterface, next_hop: str) -> str | None:
    """The address of the gateway that the next hop knows it by."""
    if ":" in next_hop and ipaddress.ip_address(next_hop).is_link_local:
        return str(link_local(gateway.mac_address))
    return next((address.ip_address for address in gateway.addresses if address.gateway_ip == next_hop), None)
