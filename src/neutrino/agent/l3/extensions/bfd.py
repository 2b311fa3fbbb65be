"""BFD of a router's next hops: which sessions it has on this host, and what their packets need. Pure.

    next hop ◀── UDP 3784, TTL 255 ──▶ qg-… in qrouter-… or snat-…: `services/bfd`, one process for the host

A session is between the gateway's own address and the next hop. What is made of its state: `gateways.routes_over_all`.
"""

import ipaddress
from collections.abc import Iterator

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.extensions.gateways import next_hops, numbered
from neutrino.agent.l3.names import EXTERNAL, device, gateway_namespace
from neutrino.agent.l3.services.bfd.files import WantedSession, WantedSessions
from neutrino.dataplane.netlink.values import NextHop, Route, route
from neutrino.dataplane.nft.api import Chain, Hook, Table
from neutrino.model.link_local import link_local
from neutrino.model.routing import Router, RouterInterface

_RAW = -300  # before conntrack sees a packet


def is_supervised(router: Router) -> bool:
    """Whether this host has the default routes of a router that asks for BFD."""
    return router.enable_default_route_bfd and (router.centralized or not router.distributed)


def wanted_sessions(router: Router, options: L3Options) -> WantedSessions | None:
    """The router's sessions where it is active; None if it has none on this host."""
    found = tuple(session for session, _ in _sessions(router, options)) if is_supervised(router) else ()
    if not found:
        return None
    return WantedSessions(
        namespace=gateway_namespace(router),
        interval=1000 * options.bfd_interval,
        multiplier=options.bfd_multiplier,
        fails_over=router.ha is not None,
        sessions=found,
    )


class BfdPackets(L3Extension):
    name = "bfd"

    def render(self, namespace: RouterNamespace) -> Contribution:
        router = namespace.router
        if not namespace.gateways or not is_supervised(namespace.whole):
            return Contribution()
        found = list(_sessions(router, namespace.options))
        four = [session for session, _ in found if ":" not in session.local]
        # Untracked: source NAT would change the source port, which has to be above 49151.
        ends = (
            Chain("output_bfd", tuple(map(_outgoing, four)), Hook("filter", "output", _RAW)),
            Chain("prerouting_bfd", tuple(map(_incoming, four)), Hook("filter", "prerouting", _RAW)),
        )
        return Contribution(tables=(Table(ends, family="ip"),) if four else (), routes=tuple(_routes(found)))


def _sessions(router: Router, options: L3Options) -> Iterator[tuple[WantedSession, NextHop]]:
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
    return next((each.ip_address for each in gateway.addresses if each.gateway_ip == next_hop), None)


def _routes(found: list[tuple[WantedSession, NextHop]]) -> Iterator[Route]:
    """To next hops outside of their subnet, which must be reached also while no default route has them."""
    for session, hop in found:
        if hop.onlink:
            yield route(f"{session.peer}/{128 if ':' in session.peer else 32}", hop.device)


def _outgoing(session: WantedSession) -> str:
    ends = f"ip saddr {session.local} ip daddr {session.peer}"
    return f'oifname "{session.device}" {ends} udp dport 3784 notrack'


def _incoming(session: WantedSession) -> str:
    ends = f"ip saddr {session.peer} ip daddr {session.local}"
    return f'iifname "{session.device}" {ends} udp dport 3784 notrack'
