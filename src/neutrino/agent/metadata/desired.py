"""Desired state of the metadata proxy: the namespaces to listen in, and the instances to serve. Pure.

`DesiredMetadata` follows the feed's changes. It only marks stale objects when they change, and renders them when there is a
proxy to send them to: a namespace that changes a hundred times meanwhile is rendered once.
"""

import dataclasses
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX, PortsByNetwork, ServedNetwork, served_network, serves_metadata
from neutrino.agent.l3.names import INTERNAL, device, router_namespace
from neutrino.agent.metadata.messages import ANY_DEVICE, METADATA_IPV4, WELL_KNOWN_PORT, Instance, Listener, Sources
from neutrino.feed.state import State, StateChange
from neutrino.model.dhcp import ROUTERS, DhcpPort, is_metadata_network, networks_behind, routers_on
from neutrino.model.routing import Router

ROUTER, NETWORK, PORT = "router", "dhcp_network", "dhcp_port"
T = TypeVar("T")
INFRASTRUCTURE = "network:"  # device owners of ports that are no instances


class NotServable(Exception):
    """Metadata cannot be served in a namespace; the message says why."""


def render_router(router: Router, metadata_port: int) -> Listener | None:
    """A router's namespace, whose nft table redirects packets for the metadata address to `metadata_port`."""
    if not router.admin_state_up or not metadata_port:
        return None
    links = {device(INTERNAL, interface.id): interface.network_id for interface in router.interfaces}
    ipv6 = any(address.version == 6 for interface in router.interfaces for address in interface.addresses)
    return Listener(Sources(links), metadata_port, ipv6=ipv6) if links else None


def render_network(network: ServedNetwork, settings: DhcpSettings, router_ports: Iterable[DhcpPort]) -> Listener | None:
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
    return Listener(sources, WELL_KNOWN_PORT, METADATA_IPV4, ipv6)


def render_instance(port: DhcpPort) -> Instance | None:
    """None for a port that is no instance's."""
    if not port.device_id or port.device_owner.startswith(INFRASTRUCTURE):
        return None
    # In the canonical form, in which the proxy gets the addresses of sources from the kernel.
    addresses = tuple(str(ipaddress.ip_address(fixed.ip_address)) for fixed in port.fixed_ips)
    return Instance(port.id, port.network_id, port.mac_address.lower(), addresses, port.device_id, port.project_id)


@dataclasses.dataclass
class DesiredMetadata:
    state: State
    metadata_port: int
    dhcp: DhcpSettings
    listeners: dict[str, Listener] = dataclasses.field(default_factory=dict)  # by namespace
    problems: dict[str, str] = dataclasses.field(default_factory=dict)  # by namespace or port

    def __post_init__(self) -> None:
        self._stale_namespaces: set[str] = set()
        self._stale_ports: set[str] = set()
        # Ports of routers and DHCP: they decide whether a network is isolated, and whether it is served here.
        self._service_ports = PortsByNetwork(lambda port: port.device_owner.startswith(INFRASTRUCTURE))

    def changed(self, change: StateChange) -> bool:
        """Mark what depends on the object as stale; whether anything does."""
        if change.kind == ROUTER:
            self._stale_namespaces.add(router_namespace(change.id))
        elif change.kind == NETWORK:
            self._stale_namespaces.add(f"{NAMESPACE_PREFIX}{change.id}")
        elif change.kind == PORT:
            self._stale_ports.add(change.id)
            for port in self._service_ports.changed(change):
                self._stale_namespaces.add(f"{NAMESPACE_PREFIX}{port.network_id}")
                if self.dhcp.enable_metadata_network and port.device_owner in ROUTERS:
                    # One of the router's networks may be a metadata network, whose sources are its other networks.
                    of_router = (
                        service_port for service_port in self._service_ports if service_port.device_id == port.device_id
                    )
                    self._stale_namespaces |= {f"{NAMESPACE_PREFIX}{each.network_id}" for each in of_router}
        else:
            return False
        return True

    def index(self) -> None:
        """Index the whole state, and mark everything as stale."""
        objects = self.state.objects
        self._service_ports.index(objects[PORT].values())
        self._stale_namespaces |= {router_namespace(key) for key in objects[ROUTER]}
        self._stale_namespaces |= {f"{NAMESPACE_PREFIX}{key}" for key in objects[NETWORK]}
        self._stale_namespaces |= self.listeners.keys()  # of objects that are gone: they render to nothing

    def render_stale(self) -> dict[str, str]:
        """Render the listeners of stale namespaces; gives new problems by namespace."""
        stale, self._stale_namespaces = self._stale_namespaces, set()
        before = {key: self.problems.get(key) for key in stale}
        for key in stale:
            rendered = self._attempt(key, lambda key=key: self._render(key))  # type: ignore[misc]
            if rendered is not None:
                self.listeners[key] = rendered
            else:
                self.listeners.pop(key, None)
        return {key: self.problems[key] for key in stale if self.problems.get(key) not in (None, before[key])}

    def _render(self, key: str) -> Listener | None:
        if not key.startswith(NAMESPACE_PREFIX):
            router = self.state.get(ROUTER, key.removeprefix(router_namespace("")))
            return render_router(router, self.metadata_port) if router is not None else None
        network = self.state.get(NETWORK, key.removeprefix(NAMESPACE_PREFIX))
        if network is None:
            return None
        ports = self._service_ports.of(network.id)
        served = served_network(network, ports, self.dhcp.host, distributed=self.dhcp.dhcp_distributed)
        return render_network(served, self.dhcp, self._service_ports)

    def all_instances(self) -> list[Instance]:
        self._stale_ports = set(self.state.objects[PORT])
        return self.changed_instances()[0]

    def changed_instances(self) -> tuple[list[Instance], list[str]]:
        """Since the last call: the instances, and the ids of ports that are none any more."""
        stale, self._stale_ports = self._stale_ports, set()
        found = {port_id: self._instance(port_id) for port_id in stale}
        return [each for each in found.values() if each], [key for key, each in found.items() if each is None]

    def _instance(self, port_id: str) -> Instance | None:
        port = self.state.get(PORT, port_id)
        return self._attempt(f"port {port_id}", lambda: render_instance(port) if port is not None else None)

    def _attempt(self, key: str, render: Callable[[], T]) -> T | None:
        """Render one object. A failure is a problem of this object alone."""
        self.problems.pop(key, None)
        try:
            return render()
        except (NotServable, ValueError, LookupError) as error:
            self.problems[key] = str(error)
            return None


# --- planning ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ListenerPlan:
    """Listeners by namespace."""

    open: Mapping[str, Listener]
    sources: Mapping[str, Listener]  # the sockets are right, the sources are not
    close: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # namespaces that do not exist yet

    def text(self) -> str:
        lines = [f"metadata: listen in {key}" for key in self.open]
        lines += [f"metadata: change the sources of {key}" for key in self.sources]
        lines += [f"metadata: close {key}" for key in self.close]
        lines += [f"metadata: namespace {name} is missing" for name in self.missing]
        return "\n".join(lines)


def plan_listeners(
    desired: Mapping[str, Listener],
    actual: Mapping[str, Listener],
    inodes: Mapping[str, int | None],
    *,
    complete: bool = True,
) -> ListenerPlan:
    """`inodes` are of the existing namespaces: a socket keeps listening in a deleted one, whose name a new one may have.

    Not `complete`: `desired` is from the cache and `actual` may be newer. Nothing is removed.
    """
    missing = tuple(sorted(key for key in desired if inodes.get(key) is None))
    opened, sources = {}, {}
    for key, each in sorted(desired.items()):
        found, inode = actual.get(key), inodes.get(key)
        if inode is None:
            continue
        wanted = replace(each if complete or found is None else _merged(each, found), inode=inode)
        if found is None or replace(found, sources=wanted.sources) != wanted:
            opened[key] = wanted
        elif found != wanted:
            sources[key] = wanted
    close = tuple(sorted(key for key in actual if key not in desired or key in missing)) if complete else ()
    return ListenerPlan(opened, sources, close, missing)


def _merged(desired: Listener, found: Listener) -> Listener:
    """Merge two listeners, with the sources of both.

    Before the first `synced` the proxy keeps what it has, and the cache only adds.
    """
    before = found.sources
    sources = Sources(
        {**desired.sources.links, **before.links},
        tuple(sorted({*desired.sources.routed, *before.routed})),
        before.project_id or desired.sources.project_id,
    )
    return replace(desired, sources=sources, ipv6=desired.ipv6 or found.ipv6)
