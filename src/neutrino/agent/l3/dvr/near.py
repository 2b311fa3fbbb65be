"""Which distributed routers have to know of a port: those with an interface on its network. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.dvr.neighbours import is_somewhere
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object

PORT = "dhcp_port"


def routers_near(change: StateChange, routers: Iterable[Object]) -> Iterator[str]:
    """The routers whose knowledge of who is where a port's change makes another."""
    old, new = (_place(each) for each in (change.old, change.new))
    if change.kind != PORT or old == new:
        return
    networks = {each.network_id for each in (change.old, change.new) if isinstance(each, DhcpPort)}
    for router in routers:
        if not isinstance(router, Router) or not router.distributed:
            continue
        if any(interface.network_id in networks for interface in router.interfaces):
            yield router.id


def ports_of(networks: frozenset[str], known: Mapping[str, Object]) -> list[DhcpPort]:
    return [each for each in list(known.values()) if isinstance(each, DhcpPort) and each.network_id in networks]


def _place(port: Object | None) -> object:
    if not isinstance(port, DhcpPort):
        return None
    return port.network_id, port.mac_address, port.fixed_ips, port.allowed_address_pairs, is_somewhere(port)
