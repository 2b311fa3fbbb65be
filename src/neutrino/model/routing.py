"""What a host needs to know of the routers that it serves. Values, like those of `state`; one whole object a router."""

from __future__ import annotations

import msgspec

from neutrino.model.state import Object


class RouterAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address of a router's port, with what matters of its subnet."""

    ip_address: str
    subnet_id: str
    cidr: str
    gateway_ip: str | None = None
    ra_mode: str | None = None  # slaac, dhcpv6-stateful, dhcpv6-stateless: the router announces the prefix
    dns_nameservers: tuple[str, ...] = ()
    address_scope_id: str | None = None

    @property
    def version(self) -> int:
        return 6 if ":" in self.ip_address else 4

    @property
    def prefixed(self) -> str:
        """The address in its subnet, as a device carries it."""
        return f"{self.ip_address}/{self.cidr.partition('/')[2]}"


class RouterInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a router; `id` is the port's."""

    id: str
    network_id: str
    mac_address: str
    mtu: int = 1500
    admin_state_up: bool = True
    addresses: tuple[RouterAddress, ...] = ()
    other_subnets: tuple[str, ...] = ()  # further CIDRs on the same network, which are reached directly


class RouterRoute(msgspec.Struct, frozen=True):
    destination: str
    nexthop: str


class FloatingIp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    floating_ip_address: str
    fixed_ip_address: str
    port_id: str = ""
    host: str = ""  # of the port: where a distributed router translates
    revision: int = 0  # grows when it is put before another port, also if that is the same again, and not by its status


class PortForwarding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ports of an address outside to those of one inside; ranges are of the same length, or lead to one port."""

    id: str
    protocol: str  # tcp, udp, icmp…
    external_ip_address: str
    external_port_first: int
    external_port_last: int
    internal_ip_address: str
    internal_port_first: int
    internal_port_last: int


class ConntrackHelper(msgspec.Struct, frozen=True):
    protocol: str
    port: int
    helper: str


class Delegation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subnet of the router for which it asks outside for a prefix; it has none until one is told to the server."""

    subnet_id: str
    prefix: str = ""


class HaMembership(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """This host's part in a router that several hosts hold ready."""

    interface: RouterInterface
    vr_id: int
    priority: int = 50
    active_host: str = ""  # which of the hosts said last that it is active


class Router(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A router that this host's L3 agent serves."""

    name: str = ""
    project_id: str = ""
    admin_state_up: bool = True
    distributed: bool = False
    gateway: RouterInterface | None = None
    enable_snat: bool = True
    interfaces: tuple[RouterInterface, ...] = ()
    routes: tuple[RouterRoute, ...] = ()
    floating_ips: tuple[FloatingIp, ...] = ()
    port_forwardings: tuple[PortForwarding, ...] = ()
    conntrack_helpers: tuple[ConntrackHelper, ...] = ()
    ha: HaMembership | None = None  # of a distributed router: of the part that is at one place, where there is one
    snat_interfaces: tuple[RouterInterface, ...] = ()  # of a distributed router: where the host is that has its SNAT
    centralized: bool = True  # whether this host has the part of a distributed router that others send through
    delegations: tuple[Delegation, ...] = ()
    agent_gateway: RouterInterface | None = None  # by which this host reaches the outside for floating IPs of its own

    @property
    def port_ids(self) -> frozenset[str]:
        """Of the ports that it has on this host."""
        several = [*self.interfaces, *self.snat_interfaces]
        several += [self.gateway] if self.gateway is not None else []
        several += [self.ha.interface] if self.ha is not None else []
        several += [self.agent_gateway] if self.agent_gateway is not None else []
        return frozenset(each.id for each in several)
