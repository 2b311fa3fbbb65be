"""Routers as the hosts that serve them get them: one object per router, with all its parts."""

from typing import Annotated, Final

import msgspec

from neutrino.model import fields
from neutrino.model.state import Object
from neutrino.model.vpn import VpnService

ACTIVE: Final = "active"  # state of an HA router on a host
STANDBY: Final = "standby"
VrrpNumber = Annotated[int, fields.within(1, 255)]


class RouterAddress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address of a router's port, with the attributes of its subnet that the router uses."""

    ip_address: fields.Ip
    subnet_id: str
    cidr: fields.Prefix
    gateway_ip: fields.OptionalIp = None
    ra_mode: fields.AddressMode = None  # slaac, dhcpv6-stateful, dhcpv6-stateless: the router sends RAs for the prefix
    dns_nameservers: fields.Ips = ()
    address_scope_id: str | None = None

    @property
    def version(self) -> int:
        return 6 if ":" in self.ip_address else 4

    @property
    def prefixed(self) -> str:
        """The address with its prefix length, as on a device."""
        return f"{self.ip_address}/{self.cidr.partition('/')[2]}"


class RouterInterface(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a router; `id` is the port's."""

    id: fields.Id
    network_id: fields.Id
    mac_address: fields.Mac
    mtu: fields.Mtu = 1500
    admin_state_up: bool = True
    addresses: tuple[RouterAddress, ...] = ()
    other_subnets: fields.Prefixes = ()  # further CIDRs on the same network: on-link
    firewall_group_id: str = ""


class RouterRoute(msgspec.Struct, frozen=True):
    destination: fields.Prefix
    nexthop: fields.Ip


class FloatingIp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: fields.Id
    floating_ip_address: fields.Ip
    fixed_ip_address: fields.Ip
    port_id: str = ""
    host: str = ""  # of the port, if a distributed router translates there
    network_id: str = ""  # its external network, if another one than that of the router's first gateway
    qos_policy_id: str = ""  # its own, or that of its external network
    revision: fields.Revision = 0  # grows with every association, also with the same port again; not with the status


class PortForwarding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """External ports of a floating IP to internal ones: ranges of the same length, or one internal port."""

    id: fields.Id
    protocol: str  # tcp, udp, icmp…
    external_ip_address: fields.Ip
    external_port_first: fields.L4Port
    external_port_last: fields.L4Port
    internal_ip_address: fields.Ip
    internal_port_first: fields.L4Port
    internal_port_last: fields.L4Port
    floatingip_id: str = ""  # empty: of a server that does not name it
    network_id: str = ""  # as of its floating IP
    qos_policy_id: str = ""  # of its floating IP


class ConntrackHelper(msgspec.Struct, frozen=True):
    protocol: fields.Word
    port: fields.L4Port
    helper: fields.Word


class Delegation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subnet whose prefix the router requests by DHCPv6-PD; empty until a prefix was delegated and reported."""

    subnet_id: fields.Id
    prefix: fields.PrefixOrEmpty = ""


class NdpProxy(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address of an instance for which the router answers neighbour solicitations on its gateway."""

    id: fields.Id
    ip_address: fields.Ip


class MeteringRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Packets that a label counts, or with `excluded` does not, in one direction through the gateway."""

    direction: Annotated[str, fields.one_of("ingress", "egress")]
    source: fields.OptionalPrefix = None
    destination: fields.OptionalPrefix = None
    excluded: bool = False


class MeteringLabel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A counter of the router's traffic with the outside."""

    id: fields.Id
    rules: tuple[MeteringRule, ...] = ()


class HaMembership(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """This host's VRRP instance of an HA router."""

    interface: RouterInterface
    vr_id: VrrpNumber
    priority: VrrpNumber = 50
    active_host: str = ""  # the host that last reported the router as active


class Router(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A router that this host's L3 agent serves."""

    name: str = ""
    project_id: str = ""
    admin_state_up: bool = True
    distributed: bool = False
    gateway: RouterInterface | None = None
    extra_gateways: tuple[RouterInterface, ...] = ()  # further ones, in order
    enable_default_route_ecmp: bool = False  # default routes over the next hops of all gateways, not of the first
    enable_default_route_bfd: bool = False  # a next hop whose BFD session has failed is left out of default routes
    gateway_qos_policy_id: str = ""  # the gateway's own, or that of its external network
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
    enable_ndp_proxy: bool = False
    ndp_proxies: tuple[NdpProxy, ...] = ()
    metering_labels: tuple[MeteringLabel, ...] = ()
    vpn_services: tuple[VpnService, ...] = ()
    agent_gateway: RouterInterface | None = None  # this host's own port on the external network, for floating IPs here
    direct_prefixes: fields.Prefixes = ()  # subnets that this host routes by that port, in both directions, without NAT

    @property
    def peer_addresses(self) -> frozenset[str]:
        """The addresses of tunnels' other ends, which may be routers too."""
        return frozenset(each.peer_address for service in self.vpn_services for each in service.connections)

    @property
    def port_ids(self) -> frozenset[str]:
        """The ids of its ports on this host."""
        several = [*self.interfaces, *self.snat_interfaces, *self.extra_gateways]
        several += [self.gateway] if self.gateway is not None else []
        several += [self.ha.interface] if self.ha is not None else []
        several += [self.agent_gateway] if self.agent_gateway is not None else []
        return frozenset(each.id for each in several)


class MeteredTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """A counter of a label in one namespace of a router: all that it has counted since it was created.

    Totals, not differences: a report that is sent twice, or replaced by a newer one, neither adds nor loses anything.
    Times are in whole seconds since the epoch.
    """

    id: str  # of the counter: one that is created anew has another
    label_id: str
    router_id: str
    project_id: str  # of the router
    packets: int
    bytes: int
    first_update: int  # when the counter was read first
    last_update: int
