"""BFD of a router's next hops: what packets of its sessions need. Pure.

    next hop ◀── UDP 3784, TTL 255 ──▶ qg-… in qrouter-… or snat-…: `services/bfd`, one process for the host

A session is between the gateway's own address and the next hop. What is made of its state: `gateways.routes_over_all`.
"""

from collections.abc import Iterator

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.services.bfd.files import WantedSession
from neutrino.agent.l3.services.bfd.wanted import is_supervised, sessions
from neutrino.dataplane.netlink.values import NextHop, Route, route
from neutrino.dataplane.nft.api import Chain, Hook, Table

_RAW = -300  # before conntrack sees a packet


class BfdPackets(L3Extension):
    name = "bfd"

    def render(self, namespace: RouterNamespace) -> Contribution:
        router = namespace.router
        if not namespace.gateways or not is_supervised(namespace.whole):
            return Contribution()
        found = list(sessions(router, namespace.options))
        four = [session for session, _ in found if ":" not in session.local]
        # Untracked: source NAT would change the source port, which has to be above 49151.
        ends = (
            Chain("output_bfd", tuple(map(_outgoing, four)), Hook("filter", "output", _RAW)),
            Chain("prerouting_bfd", tuple(map(_incoming, four)), Hook("filter", "prerouting", _RAW)),
        )
        return Contribution(tables=(Table(ends, family="ip"),) if four else (), routes=tuple(_routes(found)))


def _routes(found: list[tuple[WantedSession, NextHop]]) -> Iterator[Route]:
    """Yield routes to next hops outside of their subnet, which must be reached also while no default route has them."""
    for session, hop in found:
        if hop.onlink:
            yield route(f"{session.peer}/{128 if ':' in session.peer else 32}", hop.device)


def _outgoing(session: WantedSession) -> str:
    ends = f"ip saddr {session.local} ip daddr {session.peer}"
    return f'oifname "{session.device}" {ends} udp dport 3784 notrack'


def _incoming(session: WantedSession) -> str:
    ends = f"ip saddr {session.peer} ip daddr {session.local}"
    return f'iifname "{session.device}" {ends} udp dport 3784 notrack'
