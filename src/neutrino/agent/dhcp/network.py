"""One network as this host serves it, selected from the objects of the feed. Pure."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.leftovers.recognise import LeftoverKind
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import OWNER, ROUTERS, DhcpNetwork, DhcpPort, device_id, is_metadata_network
from neutrino.model.state import Object, Subnet

NAMESPACE_PREFIX: Final = "qdhcp-"
NAMESPACE_KIND: Final = LeftoverKind(NAMESPACE_PREFIX, ("tap", "ns-"))
SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"


@dataclass(frozen=True)
class ServedNetwork:
    """A network with its subnets and ports. `own` is the DHCP port whose addresses this host serves from."""

    network: DhcpNetwork
    ports: tuple[DhcpPort, ...] = ()  # sorted by id, so that rendered files are stable
    own: DhcpPort | None = None
    is_copy: bool = False  # `own` is another host's (dhcp_distributed): only ports of this host are served

    @property
    def id(self) -> str:
        return self.network.id

    @property
    def namespace(self) -> str:
        return f"{NAMESPACE_PREFIX}{self.network.id}"

    @cached_property
    def subnets(self) -> Mapping[str, Subnet]:
        return {subnet.id: subnet for subnet in self.network.subnets}

    @cached_property
    def local_subnets(self) -> tuple[Subnet, ...]:
        """The subnets on this host's segment: of a routed network those that the own port has addresses on, else all."""
        own = self.own.fixed_ips if self.own is not None else ()
        here = {self.subnets[fixed.subnet_id].segment_id for fixed in own if fixed.subnet_id in self.subnets}
        return tuple(s for s in self.network.subnets if not s.segment_id or s.segment_id in here)

    @cached_property
    def dhcp_subnets(self) -> tuple[Subnet, ...]:
        return tuple(subnet for subnet in self.local_subnets if subnet.enable_dhcp)

    @property
    def is_served(self) -> bool:
        """False without a DHCP subnet or a DHCP port of this host, or with admin state down."""
        return self.network.admin_state_up and bool(self.dhcp_subnets) and self.own is not None

    @cached_property
    def routed(self) -> frozenset[str]:
        """Subnets whose gateway is an interface of a router; the others are isolated."""
        return frozenset(
            fixed.subnet_id
            for port in self.ports
            if port.device_owner in ROUTERS
            for fixed in port.fixed_ips
            if fixed.subnet_id in self.subnets and self.subnets[fixed.subnet_id].gateway_ip == fixed.ip_address
        )

    def own_address(self, subnet_id: str) -> str | None:
        fixed = self.own.fixed_ips if self.own is not None else ()
        return next((f.ip_address for f in fixed if f.subnet_id == subnet_id), None)


class PortsByNetwork:
    """Ports of the feed by their network, all or those that `keep` accepts."""

    def __init__(self, keep: Callable[[DhcpPort], bool] = lambda port: True) -> None:
        self._keep = keep
        self._networks: dict[str, dict[str, DhcpPort]] = {}

    def __iter__(self) -> Iterator[DhcpPort]:
        return itertools.chain.from_iterable(ports.values() for ports in self._networks.values())

    def of(self, network_id: str) -> Collection[DhcpPort]:
        return self._networks.get(network_id, {}).values()

    def index(self, ports: Iterable[Object]) -> None:
        """Replace everything by these ports."""
        self._networks.clear()
        for port in ports:
            self.changed(StateChange("", port.id, None, port))

    def changed(self, change: StateChange) -> list[DhcpPort]:
        """Gives the port before and after the change, if it is kept."""
        old, new = (port if port is not None and self._keep(port) else None for port in (change.old, change.new))
        if old is not None and (ports := self._networks.get(old.network_id)) is not None:
            ports.pop(old.id, None)
            if not ports:
                del self._networks[old.network_id]
        if new is not None:
            self._networks.setdefault(new.network_id, {})[new.id] = new
        return [port for port in (old, new) if port is not None]


def served_network(
    network: DhcpNetwork, ports: Iterable[DhcpPort], host: str, *, distributed: bool = False
) -> ServedNetwork:
    # Sorted: a file with the same lines in another order would make dnsmasq reload.
    here = sorted((port for port in ports if port.network_id == network.id), key=lambda port: port.id)
    device = device_id(host, network.id)
    servers = [port for port in here if port.device_owner == OWNER]
    own = next((port for port in servers if port.device_id == device), None)
    if own is None and distributed:
        # The server picks the port with the smallest id as well: all hosts answer from the same address.
        own = next(_near(network, servers, [port for port in here if port.host == host]), None)
        return ServedNetwork(network, tuple(here), own, is_copy=own is not None)
    return ServedNetwork(network, tuple(here), own)


def _near(network: DhcpNetwork, servers: Iterable[DhcpPort], clients: Iterable[DhcpPort]) -> Iterator[DhcpPort]:
    """The DHCP ports that these ports can reach: of a routed network those on their segment."""
    segments = {subnet.id: subnet.segment_id for subnet in network.subnets}

    def segments_of(port: DhcpPort) -> set[str]:
        return {segments[fixed.subnet_id] for fixed in port.fixed_ips if segments.get(fixed.subnet_id)}

    is_routed, here = any(segments.values()), {segment for port in clients for segment in segments_of(port)}
    return (port for port in servers if not is_routed or here & segments_of(port))


def serves_metadata(network: ServedNetwork, settings: DhcpSettings) -> bool:
    """Whether metadata is served from the network's DHCP namespace."""
    if not network.is_served:
        return False
    if settings.force_metadata:
        return True
    if not settings.enable_isolated_metadata:
        return False
    if settings.enable_metadata_network and is_metadata_network(network.network):
        return True
    return any(subnet.id not in network.routed for subnet in network.dhcp_subnets)
