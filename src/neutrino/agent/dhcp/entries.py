"""The names and leases of a network: each address of each port, and what dnsmasq has to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from neutrino.agent.dhcp.served import SLAAC, STATEFUL, STATELESS, Served
from neutrino.agent.dhcp.settings import Settings
from neutrino.model.dhcp import DhcpOption, DhcpPort
from neutrino.model.state import FixedIp, Subnet

# The service's own ports that never ask for a lease and need no name.
NOT_NAMED: Final = frozenset(
    {"network:router_ha_interface", "network:floatingip", "network:dhcp", "network:distributed"}
)
CLIENT_ID: Final = frozenset({"client-id", "61"})


@dataclass(frozen=True)
class Entry:
    """One address of a port, or several of one subnet where dnsmasq can give several."""

    port: DhcpPort
    subnet_id: str
    addresses: tuple[str, ...]
    hostname: str
    fqdn: str
    is_ipv6: bool = False
    takes_address: bool = True  # False: the host forms it itself (SLAAC, stateless)
    takes_options: bool = True  # False: the host does not ask at all (SLAAC)


def entries(this: Served, settings: Settings, *, merged: bool = False) -> Iterator[Entry]:
    """`merged`: addresses of a stateful subnet in one entry, if that is wanted."""
    for port in this.ports:
        if port.device_owner in NOT_NAMED:
            continue
        for subnet_id, addresses in _grouped(this, port, merged and settings.dnsmasq_enable_addr6_list):
            subnet = this.subnets.get(subnet_id)
            mode = subnet.ipv6_address_mode if subnet is not None else None
            hostname, fqdn = _names(port, addresses, settings.dns_domain)
            yield Entry(
                port,
                subnet_id,
                addresses,
                hostname,
                fqdn,
                is_ipv6=subnet is not None and subnet.ip_version == 6,
                takes_address=mode not in (SLAAC, STATELESS),
                takes_options=mode != SLAAC,
            )


def client_id(port: DhcpPort) -> str:
    """The identity that the client is known by, if the port names one."""
    found = next((o.value for o in port.options if o.name in CLIENT_ID), "")
    return first_line(found).replace(",", "")


def other_options(port: DhcpPort) -> tuple[DhcpOption, ...]:
    return tuple(option for option in port.options if option.name not in CLIENT_ID)


def first_line(text: str) -> str:
    """What a user writes stays within its own line of a file."""
    lines = text.splitlines()
    return lines[0] if lines else ""


def _grouped(this: Served, port: DhcpPort, merged: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """dnsmasq takes the last line that fits a MAC, whatever the family: lines without an address go first."""
    together: dict[str, list[str]] = {}
    for fixed in sorted(port.fixed_ips, key=lambda f: not _is_stateless(this.subnets.get(f.subnet_id))):
        if merged and _is_stateful(this.subnets.get(fixed.subnet_id)):
            together.setdefault(fixed.subnet_id, []).append(fixed.ip_address)
        else:
            yield _single(fixed)
    for subnet_id, addresses in together.items():
        yield subnet_id, tuple(addresses)


def _single(fixed: FixedIp) -> tuple[str, tuple[str, ...]]:
    return fixed.subnet_id, (fixed.ip_address,)


def _is_stateless(subnet: Subnet | None) -> bool:
    return subnet is not None and subnet.ip_version == 6 and subnet.ipv6_address_mode == STATELESS


def _is_stateful(subnet: Subnet | None) -> bool:
    return subnet is not None and subnet.ip_version == 6 and subnet.ipv6_address_mode == STATEFUL


def _names(port: DhcpPort, addresses: tuple[str, ...], domain: str) -> tuple[str, str]:
    """As the server has named it, or after its address: a label, and the full name within the domain.

    Every instance on the network is answered with these names, those of other projects too. A name outside the domain,
    which may come from a database older than the server's own check, would answer for a domain of somebody else:
    its first label is put under the domain instead.
    """
    known = {name.ip_address: name for name in port.names}
    named = next((known[address] for address in addresses if address in known), None)
    host = named.hostname.partition(".")[0] if named is not None else ""
    host = host or f"host-{addresses[0].replace('.', '-').replace(':', '-')}"
    fqdn = named.fqdn.rstrip(".") if named is not None else ""
    if domain and fqdn.startswith(f"{host}.") and fqdn.lower().endswith(f".{domain.lower()}"):
        return host, fqdn
    return host, f"{host}.{domain}" if domain else host
