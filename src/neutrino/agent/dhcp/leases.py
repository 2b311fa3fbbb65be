"""Leases that nobody may have any more: found by comparing dnsmasq's files with the ports there are. Pure.

A lease that outlives its port keeps its address from the next one: dnsmasq does not give an address twice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from neutrino.model.dhcp import DhcpPort


@dataclass(frozen=True)
class Lease:
    address: str
    link: str  # the MAC; for IPv6 the number of the client's association
    client_id: str = ""  # for IPv6 the client's DUID


@dataclass(frozen=True)
class Leases:
    server_id: str = ""
    leases: tuple[Lease, ...] = ()


@dataclass(frozen=True)
class Release:
    lease: Lease
    server_id: str = ""

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.lease.address


def read_leases(text: str) -> Leases:
    """What dnsmasq's file says; lines that are none are passed over."""
    server_id, found = "", []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "duid":
            server_id = server_id or words[1]
        elif len(words) == 5 and (address := _address(words[2])):
            found.append(Lease(address, words[1], "" if words[4] == "*" else words[4]))
    return Leases(server_id, tuple(found))


def read_hosts(text: str) -> frozenset[tuple[str, str]]:
    """The addresses in a file of hosts, each with the MAC that it is for."""
    pairs: set[tuple[str, str]] = set()
    for line in text.splitlines():
        mac, *rest = line.split(",")
        pairs |= {(address, mac) for word in rest if (address := _address(word))}
    return frozenset(pairs)


def plan_releases(leases: Leases, hosts_before: str, ports: Iterable[DhcpPort]) -> tuple[Release, ...]:
    """Leases whose address no port has with the same MAC any more.

    An IPv6 lease does not say its MAC; that the address went from one port to another is told by the file of hosts.
    """
    if not leases.leases:
        return ()
    now = {(_address(f.ip_address), port.mac_address) for port in ports for f in port.fixed_ips}
    addresses = {address for address, _ in now}
    moved = {address for address, mac in read_hosts(hosts_before) if (address, mac) not in now}
    stale = []
    for lease in leases.leases:
        is_ipv6 = ":" in lease.address
        gone = lease.address not in addresses if is_ipv6 else (lease.address, lease.link) not in now
        if gone or lease.address in moved:
            stale.append(Release(lease, leases.server_id))
    return tuple(stale)


def render_release(release: Release, device: str) -> tuple[str, ...]:
    lease = release.lease
    if not release.is_ipv6:
        identity = (lease.client_id,) if lease.client_id else ()
        return ("dhcp_release", device, lease.address, lease.link, *identity)
    return (
        "dhcp_release6",
        "--iface",
        device,
        "--ip",
        lease.address,
        "--client-id",
        lease.client_id,
        "--server-id",
        release.server_id,
        "--iaid",
        lease.link.removeprefix("T"),
    )


@lru_cache(maxsize=100_000)  # the same few are looked at with every change of a network
def _address(text: str) -> str:
    """An address as it is always written, or nothing."""
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return ""
