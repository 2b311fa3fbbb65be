"""Routers as the hosts that serve them get them: one object per router, with all its parts."""

import msgspec

from neutrino.model.state import Object


class RouterAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address of a router's port, with the attributes of its subnet that the router uses."""

    ip_address: str
    subnet_id: str
    cidr: str
    gateway_ip: str | None = None
    ra_mode: str | None = None  # slaac, dhcpv6-stateful, dhcpv6-stateless: the router sends RAs for the prefix
    dns_nameservers: tuple[str, ...] = ()
    address_scope_id: str | None = None

    @property
    def version(self) -> int:
        return 6 if ":" in self.ip_address else 4

    @property
    def prefixed(self) -> str:
        """With the prefix length, as on a device."""
        return f"{self.ip_address}/{self.cidr.partition('/')[2]}"


class RouterInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a router; `id` is the port's."""

    id: str
    network_id: str
    mac_address: str
    mtu: int = 1500
    admin_state_up: bool = True
    addresses: tuple[RouterAddress, ...] = ()
    other_subnets: tuple[str, ...] = ()  # further CIDRs on the same network: on-link


class RouterRoute(msgspec.Struct, frozen=True):
    destination: str
    nexthop: str


class FloatingIp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    floating_ip_address: str
    fixed_ip_address: str
    port_id: str = ""
    host: str = ""  # of the port, if a distributed router translates there
    revision: int = 0  # grows with every association, also with the same port again; not with the status


class PortForwarding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """External ports of a floating IP to internal ones: ranges of the same length, or one internal port."""

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
    """A subnet whose prefix the router requests by DHCPv6-PD; empty until a prefix was delegated and reported."""

    subnet_id: str
    prefix: str = ""


class HaMembership(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """This host's VRRP instance of an HA router."""

    interface: RouterInterface
    vr_id: int
    priority: int = 50
    active_host: str = ""  # the host that last reported the router as active


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
    ha: HaMembership | None = None  # of a distributed router: of its SNAT part, on hosts that have one
    snat_interfaces: tuple[RouterInterface, ...] = ()  # of a distributed router: the interfaces of its SNAT part
    centralized: bool = True  # whether this host has the SNAT part of a distributed router
    delegations: tuple[Delegation, ...] = ()
    agent_gateway: RouterInterface | None = None  # this host's own port on the external network, for floating IPs here

    @property
    def port_ids(self) -> frozenset[str]:
        """The ids of its ports on this host."""
        several = [*self.interfaces, *self.snat_interfaces]
        several += [self.gateway] if self.gateway is not None else []
        several += [self.ha.interface] if self.ha is not None else []
        several += [self.agent_gateway] if self.agent_gateway is not None else []
        return frozenset(each.id for each in several)
