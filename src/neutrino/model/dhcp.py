"""Networks and ports as hosts that serve DHCP or routers get them.

Two kinds, because a network changes rarely and has many ports: a new port is one small object, not the whole network
again. The ports include the DHCP ports of this and other hosts (known by device id) and router interfaces.
"""

import ipaddress
import uuid
from collections.abc import Iterable
from typing import Final

import msgspec

from neutrino.model import fields
from neutrino.model.device_owners import INTERFACES
from neutrino.model.state import AddressPair, FixedIp, Object, Segment, Subnet

OWNER: Final = "network:dhcp"
ROUTERS: Final = frozenset(INTERFACES)
METADATA_NETWORK: Final = ipaddress.IPv4Network("169.254.0.0/16")  # by the option enable_metadata_network


def device_id(host: str, network_id: str) -> str:
    """The device id of a host's DHCP port, as Neutron makes it: without the domain, so that short and full names agree."""
    return f"dhcp{uuid.uuid5(uuid.NAMESPACE_DNS, host.split('.')[0])}-{network_id}"


class DhcpOption(msgspec.Struct, frozen=True):
    """One of `extra_dhcp_opts`; `name` is a name or a number, with dnsmasq tags before it if it has any."""

    name: str
    value: str
    ip_version: fields.IpVersion = 4


class DnsName(msgspec.Struct, frozen=True):
    """The DNS name of one of a port's addresses."""

    ip_address: fields.Ip
    hostname: str
    fqdn: str


class DhcpNetwork(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A network scheduled to the host's DHCP agent."""

    name: str = ""
    project_id: str = ""
    mtu: fields.Mtu = 1500
    admin_state_up: bool = True
    dns_domain: str = ""
    segments: tuple[Segment, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    options: tuple[DhcpOption, ...] = ()  # for ports that do not set the option themselves


class DhcpPort(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a network that the host serves DHCP on, or of a network of a router it serves, bound to any host.

    The metadata proxy finds instance and project by the port's address; a distributed router finds the address's host.
    """

    network_id: fields.Id
    mac_address: fields.Mac
    project_id: str = ""
    host: fields.WordOrEmpty = ""
    device_id: str = ""
    device_owner: str = ""
    fixed_ips: tuple[FixedIp, ...] = ()
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    names: tuple[DnsName, ...] = ()
    options: tuple[DhcpOption, ...] = ()


def is_metadata_network(network: DhcpNetwork) -> bool:
    """Whether instances on the other networks of its router reach the metadata service through it."""
    return any(
        isinstance(cidr := ipaddress.ip_network(subnet.cidr), ipaddress.IPv4Network)
        and cidr.subnet_of(METADATA_NETWORK)
        for subnet in network.subnets
    )


def routers_on(network_id: str, ports: Iterable[DhcpPort]) -> frozenset[str]:
    return frozenset(p.device_id for p in ports if p.network_id == network_id and p.device_owner in ROUTERS)


def networks_behind(routers: frozenset[str], ports: Iterable[DhcpPort]) -> frozenset[str]:
    return frozenset(p.network_id for p in ports if p.device_owner in ROUTERS and p.device_id in routers)
