"""Where metadata should be served on this host, and for whom: from what the feed told. Pure."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import ServedNetwork, serves_metadata
from neutrino.agent.l3.names import INTERNAL, device, router_namespace
from neutrino.agent.metadata.messages import (
    ANY_DEVICE,
    METADATA_IPV4,
    WELL_KNOWN_PORT,
    Instance,
    Listening,
    Sources,
)
from neutrino.model.dhcp import DhcpPort, is_metadata_network, networks_behind, routers_on
from neutrino.model.routing import Router

INFRASTRUCTURE = "network:"  # such device owners are no instances


@dataclasses.dataclass(frozen=True)
class Place:
    """A namespace to listen in. Its name is the place's key."""

    namespace: str
    sources: Sources
    port: int
    address: str = ""  # of IPv4; empty: any
    ipv6: bool = False


class Refused(Exception):
    """Metadata cannot be served there, and why."""


def render_router_place(router: Router, metadata_port: int) -> Place | None:
    """A router's namespace, where its table leads packets for the metadata address to our port."""
    if not router.admin_state_up or not metadata_port:
        return None
    links = {device(INTERNAL, interface.id): interface.network_id for interface in router.interfaces}
    ipv6 = any(address.version == 6 for interface in router.interfaces for address in interface.addresses)
    return Place(router_namespace(router.id), Sources(links), metadata_port, ipv6=ipv6) if links else None


def render_network_place(this: ServedNetwork, settings: DhcpSettings, known: Iterable[DhcpPort]) -> Place | None:
    """A network's DHCP namespace, which has the metadata address as its own. `known`: ports of routers on any network.

    A network of 169.254.0.0/16 is there for a router whose other networks cannot have it: their ports ask through it.
    Whoever owns it can send there under any address, so of the other networks only instances of its project may ask.
    """
    if not serves_metadata(this, settings):
        return None
    sources = Sources({ANY_DEVICE: this.id})
    if settings.enable_metadata_network and is_metadata_network(this.network):
        routers = routers_on(this.id, this.ports)
        if len(routers) > 1:
            names = ", ".join(sorted(routers))
            raise Refused(f"metadata network {this.id} has {len(routers)} routers, and may have one: {names}")
        routed = tuple(sorted(networks_behind(routers, known) - {this.id}))
        sources = Sources(sources.links, routed, this.network.project_id)
    ipv6 = any(subnet.ip_version == 6 for subnet in this.network.subnets)
    return Place(this.namespace, sources, WELL_KNOWN_PORT, METADATA_IPV4, ipv6)


def render_instance(port: DhcpPort) -> Instance | None:
    """A port that may ask, if it is an instance's."""
    if not port.device_id or port.device_owner.startswith(INFRASTRUCTURE):
        return None
    addresses = tuple(str(ipaddress.ip_address(fixed.ip_address)) for fixed in port.fixed_ips)
    return Instance(port.id, port.network_id, port.mac_address.lower(), addresses, port.device_id, port.project_id)


@dataclasses.dataclass(frozen=True)
class ListeningPlan:
    open: tuple[Place, ...] = ()
    sources: tuple[Place, ...] = ()
    """Whose sockets are right, but other sources are to be answered."""
    close: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Namespaces that are not there yet."""

    def text(self) -> str:
        lines = [f"metadata: listen in {place.namespace}" for place in self.open]
        lines += [f"metadata: other sources at {place.namespace}" for place in self.sources]
        lines += [f"metadata: close {key}" for key in self.close]
        lines += [f"metadata: namespace {name} is missing" for name in self.missing]
        return "\n".join(lines)


def plan_listening(
    wanted: Iterable[Place],
    has: Mapping[str, Listening],
    inodes: Mapping[str, int | None],
    *,
    complete: bool = True,
) -> ListeningPlan:
    """`inodes` say which namespace has a name now: a socket goes on listening in one that was deleted.

    Not `complete`: what is wanted is from the cache, and what the process has may be newer. Nothing is taken from it.
    """
    places = {place.namespace: place if complete else _joined(place, has.get(place.namespace)) for place in wanted}
    missing = tuple(sorted(key for key in places if inodes.get(key) is None))
    there = [place for key, place in sorted(places.items()) if key not in missing]
    opened = tuple(place for place in there if not _is_right(place, has.get(place.namespace), inodes))
    return ListeningPlan(
        open=opened,
        sources=tuple(p for p in there if p not in opened and has[p.namespace].sources != p.sources),
        close=tuple(sorted(key for key in has if key not in places or key in missing)) if complete else (),
        missing=missing,
    )


def _joined(place: Place, found: Listening | None) -> Place:
    if found is None:
        return place
    before = found.sources
    sources = Sources(
        {**place.sources.links, **before.links},
        tuple(sorted({*place.sources.routed, *before.routed})),
        before.project_id or place.sources.project_id,
    )
    return dataclasses.replace(place, sources=sources, ipv6=place.ipv6 or found.ipv6)


def _is_right(place: Place, found: Listening | None, inodes: Mapping[str, int | None]) -> bool:
    wanted = inodes[place.namespace], place.port, place.ipv6
    return found is not None and (found.inode, found.port, found.ipv6) == wanted
