"""dnsmasq's `host` and `addn_hosts` files: which port gets which address, and the names of addresses. Pure.

A dnsmasq resolves only names of leases that it gave itself; with several agents on a network each would know a part of
them. So all names are in `addn_hosts`, and `host` is about leases alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.extension_api import Contribution, Line, port_tag
from neutrino.agent.dhcp.network import SLAAC, STATEFUL, STATELESS, ServedNetwork
from neutrino.model.dhcp import DhcpOption, DhcpPort
from neutrino.model.state import Subnet

# The service's own ports, which never request a lease and need no name.
UNNAMED_OWNERS: Final = frozenset(
    {"network:router_ha_interface", "network:floatingip", "network:dhcp", "network:distributed"}
)
CLIENT_ID: Final = frozenset({"client-id", "61"})
DHCPV6: Final = "tag:dhcpv6"  # restricts a line to DHCPv6 requests: a MAC has lines of both families


@dataclass(frozen=True)
class Entry:
    """One address of a port, or several of one subnet where dnsmasq can offer several."""

    port: DhcpPort
    subnet_id: str
    addresses: tuple[str, ...]
    hostname: str
    fqdn: str
    is_ipv6: bool = False
    has_lease: bool = True  # False: the instance forms the address itself (SLAAC, stateless)
    has_options: bool = True  # False: the instance sends no DHCP request at all (SLAAC)


def contribute(network: ServedNetwork, settings: DhcpSettings) -> Contribution:
    hosts = ((_host_line(network, entry), entry) for entry in entries(network, settings, merged=True))
    return Contribution(
        hosts=tuple(Line(text, f"port {entry.port.id}") for text, entry in hosts if text),
        # The full name is first: it is the answer to a reverse lookup.
        names=tuple(
            Line(f"{entry.addresses[0]}\t{entry.fqdn} {entry.hostname}", f"port {entry.port.id}")
            for entry in entries(network, settings)
        ),
    )


def first_line(text: str) -> str:
    """User input must not add lines to a file."""
    lines = text.splitlines()
    return lines[0] if lines else ""


def other_options(port: DhcpPort) -> tuple[DhcpOption, ...]:
    """The port's options without the client id, which selects the lease and is sent to nobody."""
    return tuple(option for option in port.options if option.name not in CLIENT_ID)


def entries(network: ServedNetwork, settings: DhcpSettings, *, merged: bool = False) -> Iterator[Entry]:
    """`merged`: addresses of a stateful subnet in one entry, with dnsmasq_enable_addr6_list."""
    for port in network.ports:
        if port.device_owner in UNNAMED_OWNERS:
            continue
        for subnet_id, addresses in _grouped(network, port, merged and settings.dnsmasq_enable_addr6_list):
            subnet = network.subnets.get(subnet_id)
            mode = subnet.ipv6_address_mode if subnet is not None else None
            hostname, fqdn = _names(port, addresses, settings.dns_domain)
            yield Entry(
                port,
                subnet_id,
                addresses,
                hostname,
                fqdn,
                is_ipv6=subnet is not None and subnet.ip_version == 6,
                has_lease=mode not in (SLAAC, STATELESS),
                has_options=mode != SLAAC,
            )


def _host_line(network: ServedNetwork, entry: Entry) -> str:
    port = entry.port
    family = [DHCPV6] if entry.is_ipv6 else []
    options = [f"set:{port_tag(port.id)}"] if other_options(port) else []
    if not entry.has_lease:
        return ",".join([port.mac_address, *family, *options]) if entry.has_options and options else ""
    subnet = network.subnets.get(entry.subnet_id)
    if subnet is None or not subnet.enable_dhcp:
        return ""
    client_id = first_line(next((o.value for o in port.options if o.name in CLIENT_ID), "")).replace(",", "")
    identity = [f"id:{client_id}"] if client_id else []
    addresses = [f"[{address}]" if ":" in address else address for address in entry.addresses]
    return ",".join([port.mac_address, *family, *identity, entry.fqdn, *addresses, *options])


def _grouped(network: ServedNetwork, port: DhcpPort, merged: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    # dnsmasq uses the last line that matches a MAC, whatever the family: lines without an address must be first.
    stateful: dict[str, list[str]] = {}
    for fixed in sorted(port.fixed_ips, key=lambda f: not _has_mode(network.subnets.get(f.subnet_id), STATELESS)):
        if merged and _has_mode(network.subnets.get(fixed.subnet_id), STATEFUL):
            stateful.setdefault(fixed.subnet_id, []).append(fixed.ip_address)
        else:
            yield fixed.subnet_id, (fixed.ip_address,)
    for subnet_id, addresses in stateful.items():
        yield subnet_id, tuple(addresses)


def _has_mode(subnet: Subnet | None, mode: str) -> bool:
    return subnet is not None and subnet.ip_version == 6 and subnet.ipv6_address_mode == mode


def _names(port: DhcpPort, addresses: tuple[str, ...], domain: str) -> tuple[str, str]:
    """The hostname and the FQDN, from the server or derived from the address.

    dnsmasq resolves these names for every instance on the network, of other projects too. A name outside the domain, which
    a database older than the server's check may hold, would spoof a foreign domain: its first label is put under ours.
    """
    known = {name.ip_address: name for name in port.names}
    named = next((known[address] for address in addresses if address in known), None)
    host = named.hostname.partition(".")[0] if named is not None else ""
    host = host or f"host-{addresses[0].replace('.', '-').replace(':', '-')}"
    fqdn = named.fqdn.rstrip(".") if named is not None else ""
    if domain and fqdn.startswith(f"{host}.") and fqdn.lower().endswith(f".{domain.lower()}"):
        return host, fqdn
    return host, f"{host}.{domain}" if domain else host
