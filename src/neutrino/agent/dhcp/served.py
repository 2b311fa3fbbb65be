"""One network as this host has to serve it: put together from what the feed told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from neutrino.agent.dhcp.settings import Settings
from neutrino.model.dhcp import OWNER, ROUTERS, DhcpNetwork, DhcpPort, device_id, is_metadata_network
from neutrino.model.state import Subnet

NAMESPACE_PREFIX: Final = "qdhcp-"
SLAAC, STATELESS, STATEFUL = "slaac", "dhcpv6-stateless", "dhcpv6-stateful"


@dataclass(frozen=True)
class Served:
    network: DhcpNetwork
    ports: tuple[DhcpPort, ...] = ()  # by id, so that files come out the same
    own: DhcpPort | None = None  # the port that this host serves from
    is_copy: bool = False  # it is another host's, and serves the ports of this one alone

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
    def dhcp_subnets(self) -> tuple[Subnet, ...]:
        return tuple(subnet for subnet in self.network.subnets if subnet.enable_dhcp)

    @property
    def is_served(self) -> bool:
        """A network that is set down, or has no DHCP subnet or no port here, has no service."""
        return self.network.admin_state_up and bool(self.dhcp_subnets) and self.own is not None

    @cached_property
    def routed(self) -> frozenset[str]:
        """The subnets whose gateway is a router of ours; the others are isolated."""
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


def served(network: DhcpNetwork, ports: Iterable[DhcpPort], host: str, *, distributed: bool = False) -> Served:
    here = sorted((port for port in ports if port.network_id == network.id), key=lambda port: port.id)
    device = device_id(host, network.id)
    servers = [port for port in here if port.device_owner == OWNER]
    # On a host that only answers its own ports, a copy of that with the smallest id, which is what the server thinks too.
    own = next((port for port in servers if port.device_id == device), None)
    if own is None and distributed and servers:
        return Served(network, tuple(here), servers[0], is_copy=True)
    return Served(network, tuple(here), own)


def wants_metadata(this: Served, settings: Settings) -> bool:
    """Whether metadata is served from the network's DHCP namespace."""
    if not this.is_served:
        return False
    if settings.force_metadata:
        return True
    if not settings.enable_isolated_metadata:
        return False
    if settings.enable_metadata_network and is_metadata_network(this.network):
        return True
    return any(subnet.id not in this.routed for subnet in this.dhcp_subnets)
