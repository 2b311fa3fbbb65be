"""Which DNS records a port or a floating IP should have, by Neutron's rules. Pure.

A port is published under `dns_name` in its `dns_domain`, or in its network's. That is only for networks that are reachable
from outside without a floating IP: with a subnet that has `dns_publish_fixed_ip`, or not external and with a segment that
an administrator chose outside the ranges for projects. A floating IP is published under its own name and domain, or under
those of its port, whatever the port's network is.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from neutrino.server.ipam.ranges import Range
from neutrino.server.ml2.driver_api import Segment

MAX_NAME = 254  # characters of a fully qualified name with its last dot
PROJECT_KEYWORD = "<project_id>"  # a label of a domain that stands for the project of the port
_ZONE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.")


class Record(NamedTuple):
    zone: str
    name: str
    type: str
    address: str


@dataclass(frozen=True)
class NamedNetwork:
    id: str
    dns_domain: str
    external: bool
    segments: Sequence[Segment] = ()
    published_subnets: frozenset[str] = frozenset()  # those with dns_publish_fixed_ip


@dataclass(frozen=True)
class Caller:
    """Who has named a port, for the other keywords of a domain; what is empty is not known."""

    project_name: str = ""
    user_id: str = ""
    user_name: str = ""

    def expanded(self, domain: str) -> str:
        """The domain in lower case, with the keywords that are known."""
        for field_ in fields(self):
            if value := getattr(self, field_.name):
                domain = domain.replace(f"<{field_.name}>", value)
        return domain.lower()


NOBODY = Caller()


@dataclass(frozen=True)
class NamedPort:
    id: str
    project_id: str
    dns_name: str
    dns_domain: str
    network: NamedNetwork
    addresses: Sequence[tuple[str, str]] = ()  # subnet and address
    caller: Caller = NOBODY

    @property
    def domain(self) -> str:
        return self.dns_domain or self.network.dns_domain

    @property
    def needs_caller(self) -> bool:
        """Whether its records depend on who has named it."""
        return bool(self.dns_name) and "<" in self.domain.lower().replace(PROJECT_KEYWORD, "")


@dataclass(frozen=True)
class NamedFloatingIp:
    id: str
    project_id: str
    address: str
    dns_name: str
    dns_domain: str
    port: NamedPort | None = None


@dataclass(frozen=True)
class ProjectRanges:
    """The VLAN and tunnel ids that networks of projects get. A network with another one is a provider network."""

    tunnels: Mapping[str, Sequence[Range]] = field(default_factory=dict)  # by network type
    vlans: Mapping[str, Sequence[Range]] = field(default_factory=dict)  # by physical network

    def has(self, segment: Segment) -> bool:
        ranges = (
            self.vlans.get(segment.physical_network or "", ())
            if segment.network_type == "vlan"
            else self.tunnels.get(segment.network_type, ())
        )
        number = segment.segmentation_id
        return number is not None and any(first <= number <= last for first, last in ranges)


def publishes_ports(network: NamedNetwork, ranges: ProjectRanges) -> bool:
    """Whether the fixed addresses of a network are published."""
    return bool(network.published_subnets) or (not network.external and _is_of_provider(network, ranges))


def has_public_addresses(network: NamedNetwork, ranges: ProjectRanges) -> bool:
    """Whether an administrator has connected the network with the outside, where its addresses are the cloud's.

    On other networks projects choose the prefixes, and may choose one that is another's outside.
    """
    return network.external or _is_of_provider(network, ranges)


def _is_of_provider(network: NamedNetwork, ranges: ProjectRanges) -> bool:
    if not network.segments:
        return False
    if len(network.segments) > 1:  # only administrators create them
        return True
    segment = network.segments[0]
    if segment.network_type == "flat":
        return True
    return segment.network_type in ("vlan", *ranges.tunnels) and not ranges.has(segment)


def records_of_port(port: NamedPort, ranges: ProjectRanges) -> frozenset[Record]:
    if not (port.dns_name and port.domain and publishes_ports(port.network, ranges)):
        return frozenset()
    published = [address for subnet, address in port.addresses if subnet in port.network.published_subnets]
    addresses = published or [address for _, address in port.addresses]
    return _records(port.dns_name, port.caller.expanded(port.domain), port.project_id, addresses)


def records_of_floating_ip(floating_ip: NamedFloatingIp) -> frozenset[Record]:
    """A floating IP's own name comes first; it is published also while the floating IP has no port."""
    own, port = floating_ip, floating_ip.port
    if own.dns_name:
        return _records(own.dns_name, own.dns_domain, own.project_id, [own.address])
    if port is None:
        return frozenset()
    return _records(port.dns_name, port.caller.expanded(port.domain), own.project_id, [own.address])


def _records(dns_name: str, domain: str, project_id: str, addresses: Sequence[str]) -> frozenset[Record]:
    zone = domain.lower().replace(PROJECT_KEYWORD, project_id)
    name = _full_name(dns_name.lower(), zone)
    if not name or not _ZONE.fullmatch(zone):  # a keyword that is not known, or a name that is no label
        return frozenset()
    return frozenset(Record(zone, name, *_typed(address)) for address in addresses)


def _full_name(dns_name: str, zone: str) -> str:
    """Empty if there is none: a full `dns_name` outside the zone, or one that is too long with it."""
    if not dns_name or not zone:
        return ""
    name = dns_name if dns_name.endswith(".") else f"{dns_name}.{zone}"
    return name if name.endswith(f".{zone}") and len(name) <= MAX_NAME else ""


def _typed(address: str) -> tuple[str, str]:
    """The type and the canonical text of an address."""
    ip = ipaddress.ip_address(address)
    return ("A" if ip.version == 4 else "AAAA"), str(ip)
