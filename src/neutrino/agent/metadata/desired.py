"""Desired state of the metadata proxy: the namespaces to listen in, and the instances to serve. Pure.

`DesiredMetadata` follows the feed's changes. It only marks stale objects when they change, and renders them when there is a
proxy to send them to: a namespace that changes a hundred times meanwhile is rendered once.
"""

import dataclasses
import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX, ServedNetwork, served_network, serves_metadata
from neutrino.agent.l3.names import INTERNAL, device, router_namespace
from neutrino.agent.metadata.messages import (
    ANY_DEVICE,
    METADATA_IPV4,
    WELL_KNOWN_PORT,
    Instance,
    ListenerState,
    Sources,
)
from neutrino.feed.state import State, StateChange
from neutrino.model.dhcp import ROUTERS, DhcpNetwork, DhcpPort, is_metadata_network, networks_behind, routers_on
from neutrino.model.routing import Router

ROUTER, NETWORK, PORT = "router", "dhcp_network", "dhcp_port"
INFRASTRUCTURE = "network:"  # device owners of ports that are no instances


@dataclasses.dataclass(frozen=True)
class MetadataNamespace:
    """A namespace to listen in."""

    namespace: str
    sources: Sources
    port: int
    address: str = ""  # of IPv4; empty: any
    ipv6: bool = False


class NotServable(Exception):
    """Metadata cannot be served in a namespace; the message says why."""


def render_router(router: Router, metadata_port: int) -> MetadataNamespace | None:
    """A router's namespace, whose nft table redirects packets for the metadata address to `metadata_port`."""
    if not router.admin_state_up or not metadata_port:
        return None
    links = {device(INTERNAL, interface.id): interface.network_id for interface in router.interfaces}
    ipv6 = any(address.version == 6 for interface in router.interfaces for address in interface.addresses)
    return MetadataNamespace(router_namespace(router.id), Sources(links), metadata_port, ipv6=ipv6) if links else None


def render_network(
    network: ServedNetwork, settings: DhcpSettings, router_ports: Iterable[DhcpPort]
) -> MetadataNamespace | None:
    """A network's DHCP namespace, which has the metadata address itself. `router_ports` are of routers on any network.

    A network of 169.254.0.0/16 (metadata network) serves the other networks of its router. Its owner can send there from
    any address, so of the other networks only instances of its own project are served.
    """
    if not serves_metadata(network, settings):
        return None
    sources = Sources({ANY_DEVICE: network.id})
    if settings.enable_metadata_network and is_metadata_network(network.network):
        routers = routers_on(network.id, network.ports)
        if len(routers) > 1:
            names = ", ".join(sorted(routers))
            raise NotServable(f"metadata network {network.id} has {len(routers)} routers, and may have one: {names}")
        routed = tuple(sorted(networks_behind(routers, router_ports) - {network.id}))
        sources = Sources(sources.links, routed, network.network.project_id)
    ipv6 = any(subnet.ip_version == 6 for subnet in network.network.subnets)
    return MetadataNamespace(network.namespace, sources, WELL_KNOWN_PORT, METADATA_IPV4, ipv6)


def render_instance(port: DhcpPort) -> Instance | None:
    """None for a port that is no instance's."""
    if not port.device_id or port.device_owner.startswith(INFRASTRUCTURE):
        return None
    addresses = tuple(str(ipaddress.ip_address(fixed.ip_address)) for fixed in port.fixed_ips)
    return Instance(port.id, port.network_id, port.mac_address.lower(), addresses, port.device_id, port.project_id)


class DesiredMetadata:
    def __init__(self, state: State, host: str, metadata_port: int, dhcp: DhcpSettings) -> None:
        self.namespaces: dict[str, MetadataNamespace] = {}
        self.problems: dict[str, str] = {}  # by namespace or port
        self._state = state
        self._host = host
        self._metadata_port = metadata_port
        self._dhcp = dhcp
        self._stale_namespaces: set[str] = set()
        self._stale_ports: set[str] = set()
        # Ports of routers and DHCP, by network: they decide whether a network is isolated, and whether it is served here.
        self._service_ports: defaultdict[str, dict[str, DhcpPort]] = defaultdict(dict)

    def changed(self, change: StateChange) -> bool:
        """Mark what depends on the object as stale; whether anything does."""
        if change.kind == ROUTER:
            self._stale_namespaces.add(router_namespace(change.id))
        elif change.kind == NETWORK:
            self._stale_namespaces.add(f"{NAMESPACE_PREFIX}{change.id}")
        elif change.kind == PORT:
            self._stale_ports.add(change.id)
            self._index_service_port(change)
        else:
            return False
        return True

    def _index_service_port(self, change: StateChange) -> None:
        for port in (change.old, change.new):
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._service_ports[port.network_id].pop(port.id, None)
                if not self._service_ports[port.network_id]:
                    del self._service_ports[port.network_id]
                self._stale_namespaces.add(f"{NAMESPACE_PREFIX}{port.network_id}")
                self._stale_namespaces.update(self._networks_of_router(port))
        new = change.new
        if isinstance(new, DhcpPort) and new.device_owner.startswith(INFRASTRUCTURE):
            self._service_ports[new.network_id][new.id] = new

    def _networks_of_router(self, port: DhcpPort) -> Iterator[str]:
        """One of them may be a metadata network, whose sources follow from the router's other networks."""
        if self._dhcp.enable_metadata_network and port.device_owner in ROUTERS:
            for network_id, ports in self._service_ports.items():
                if any(each.device_id == port.device_id for each in ports.values()):
                    yield f"{NAMESPACE_PREFIX}{network_id}"

    def index(self) -> None:
        """Index the whole state, and mark everything as stale."""
        objects = self._state.objects
        self._service_ports.clear()
        for port in objects[PORT].values():
            if isinstance(port, DhcpPort) and port.device_owner.startswith(INFRASTRUCTURE):
                self._service_ports[port.network_id][port.id] = port
        self._stale_namespaces |= {router_namespace(key) for key in objects[ROUTER]}
        self._stale_namespaces |= {f"{NAMESPACE_PREFIX}{key}" for key in objects[NETWORK]}
        self._stale_namespaces |= self.namespaces.keys()

    def render_stale(self) -> dict[str, str]:
        """Render stale namespaces; gives new problems by namespace."""
        stale, self._stale_namespaces = self._stale_namespaces, set()
        new_problems: dict[str, str] = {}
        for key in stale:
            before, rendered = self.problems.pop(key, None), None
            try:
                rendered = self._render(key)
            except (NotServable, ValueError, LookupError) as error:
                self.problems[key] = str(error)
                if str(error) != before:
                    new_problems[key] = str(error)
            if rendered is not None:
                self.namespaces[key] = rendered
            else:
                self.namespaces.pop(key, None)
        return new_problems

    def _render(self, key: str) -> MetadataNamespace | None:
        objects = self._state.objects
        if key.startswith(NAMESPACE_PREFIX):
            network_id = key.removeprefix(NAMESPACE_PREFIX)
            network = objects[NETWORK].get(network_id)
            if not isinstance(network, DhcpNetwork):
                return None
            ports = self._service_ports.get(network_id, {}).values()
            served = served_network(network, ports, self._host, distributed=self._dhcp.dhcp_distributed)
            return render_network(
                served, self._dhcp, (p for each in self._service_ports.values() for p in each.values())
            )
        router = objects[ROUTER].get(key.removeprefix(router_namespace("")))
        return render_router(router, self._metadata_port) if isinstance(router, Router) else None

    def all_instances(self) -> list[Instance]:
        self._stale_ports.clear()
        return [found for port in self._state.objects[PORT].values() if (found := self._instance(port))]

    def changed_instances(self) -> tuple[list[Instance], list[str]]:
        """Since the last call: the instances, and the ids of ports that are none any more."""
        stale, self._stale_ports = self._stale_ports, set()
        found = {port_id: self._instance(self._state.get(PORT, port_id)) for port_id in stale}
        return [each for each in found.values() if each], [key for key, each in found.items() if each is None]

    def _instance(self, port: object) -> Instance | None:
        if not isinstance(port, DhcpPort):
            return None
        self.problems.pop(f"port {port.id}", None)
        try:
            return render_instance(port)
        except ValueError as error:  # a problem of this port alone
            self.problems[f"port {port.id}"] = str(error)
            return None


# --- planning ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ListenerPlan:
    open: tuple[MetadataNamespace, ...] = ()
    sources: tuple[MetadataNamespace, ...] = ()  # the sockets are right, the sources are not
    close: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # namespaces that do not exist yet

    def text(self) -> str:
        lines = [f"metadata: listen in {each.namespace}" for each in self.open]
        lines += [f"metadata: change the sources of {each.namespace}" for each in self.sources]
        lines += [f"metadata: close {key}" for key in self.close]
        lines += [f"metadata: namespace {name} is missing" for name in self.missing]
        return "\n".join(lines)


def plan_listeners(
    desired: Iterable[MetadataNamespace],
    actual: Mapping[str, ListenerState],
    inodes: Mapping[str, int | None],
    *,
    complete: bool = True,
) -> ListenerPlan:
    """`inodes` are of the existing namespaces: a socket keeps listening in a deleted one, whose name a new one may have.

    Not `complete`: `desired` is from the cache and `actual` may be newer. Nothing is removed.
    """
    spaces = {each.namespace: each if complete else _merged(each, actual.get(each.namespace)) for each in desired}
    missing = tuple(sorted(key for key in spaces if inodes.get(key) is None))
    existing = [each for key, each in sorted(spaces.items()) if key not in missing]
    opened = tuple(each for each in existing if not _is_met(each, actual.get(each.namespace), inodes))
    return ListenerPlan(
        open=opened,
        sources=tuple(e for e in existing if e not in opened and actual[e.namespace].sources != e.sources),
        close=tuple(sorted(key for key in actual if key not in spaces or key in missing)) if complete else (),
        missing=missing,
    )


def _merged(desired: MetadataNamespace, found: ListenerState | None) -> MetadataNamespace:
    if found is None:
        return desired
    before = found.sources
    sources = Sources(
        {**desired.sources.links, **before.links},
        tuple(sorted({*desired.sources.routed, *before.routed})),
        before.project_id or desired.sources.project_id,
    )
    return dataclasses.replace(desired, sources=sources, ipv6=desired.ipv6 or found.ipv6)


def _is_met(desired: MetadataNamespace, found: ListenerState | None, inodes: Mapping[str, int | None]) -> bool:
    wanted = inodes[desired.namespace], desired.port, desired.ipv6
    return found is not None and (found.inode, found.port, found.ipv6) == wanted
