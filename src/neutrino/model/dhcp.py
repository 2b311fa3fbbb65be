"""What a host that serves DHCP needs to know of a network: the network, and every port that may ask for an address.

The two kinds are apart because a network has few changes and many ports: a port that comes is one small object, not the
whole network again. The DHCP port of the host itself is among the ports, told by its device id; so are those of other
hosts that serve the network, and the routers that make it less isolated.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable
from typing import Final

import msgspec

from neutrino.model.state import AddressPair, FixedIp, Object, Segment, Subnet

OWNER: Final = "network:dhcp"
ROUTERS: Final = frozenset(
    {
        "network:router_interface",
        "network:ha_router_replicated_interface",
        "network:router_interface_distributed",
    }
)
METADATA_NETWORK: Final = ipaddress.IPv4Network("169.254.0.0/16")


def device_id(host: str, network_id: str) -> str:
    """The DHCP port's device on a host: of the host's name without its domain, so that both forms give the same."""
    return f"dhcp{uuid.uuid5(uuid.NAMESPACE_DNS, host.split('.')[0])}-{network_id}"


class DhcpOption(msgspec.Struct, frozen=True):
    """One of `extra_dhcp_opts`: a name or a number, with tags before it if it has any."""

    name: str
    value: str
    ip_version: int = 4


class DnsName(msgspec.Struct, frozen=True):
    """What a port is called by one of its addresses."""

    ip_address: str
    hostname: str
    fqdn: str


class DhcpNetwork(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A network scheduled to the host's DHCP agent."""

    name: str = ""
    project_id: str = ""
    mtu: int = 1500
    admin_state_up: bool = True
    dns_domain: str = ""
    segments: tuple[Segment, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    options: tuple[DhcpOption, ...] = ()  # for every port that does not have the option itself


class DhcpPort(Object, frozen=True, kw_only=True, omit_defaults=True):
    """A port of such a network, or of one behind a router that the host serves, wherever it is.

    Metadata is given to whoever has the port's address: that is the port's device, of the port's project. A distributed
    router knows from these where an address is.
    """

    network_id: str
    mac_address: str
    project_id: str = ""
    host: str = ""
    device_id: str = ""
    device_owner: str = ""
    fixed_ips: tuple[FixedIp, ...] = ()
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    names: tuple[DnsName, ...] = ()
    options: tuple[DhcpOption, ...] = ()


def is_metadata_network(network: DhcpNetwork) -> bool:
    """Whether it is there for a router whose other networks ask for metadata through it."""
    return any(
        isinstance(cidr := ipaddress.ip_network(subnet.cidr), ipaddress.IPv4Network)
        and cidr.subnet_of(METADATA_NETWORK)
        for subnet in network.subnets
    )


def routers_on(network_id: str, ports: Iterable[DhcpPort]) -> frozenset[str]:
    return frozenset(p.device_id for p in ports if p.network_id == network_id and p.device_owner in ROUTERS)


def networks_behind(routers: frozenset[str], ports: Iterable[DhcpPort]) -> frozenset[str]:
    return frozenset(p.network_id for p in ports if p.device_owner in ROUTERS and p.device_id in routers)
