"""dnsmasq's lease file: the leases that it starts with, and stale leases to release. Pure.

A lease that outlives its port keeps the address from the next port: dnsmasq does not give an address twice. A lease that
is missing makes dnsmasq refuse the client's renewal, and the instance loses its address for a moment.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.dnsmasq_files import entries
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.caches import cached
from neutrino.model.dhcp import DhcpPort


@dataclass(frozen=True)
class Lease:
    address: str
    link: str  # the MAC; of an IPv6 lease the IAID
    client_id: str = ""  # of an IPv6 lease the client's DUID
    server_id: str = ""  # the DUID of the dnsmasq that gave it


# --- starting ---------------------------------------------------------------------------------------------------------


def render_leases(network: ServedNetwork, settings: DhcpSettings, existing: str = "") -> str:
    """The leases for a start: of all ports, also those that were served by another dnsmasq before.

    IPv4 leases are rendered without an end: the client's next renewal sets it. IPv6 leases hold the client's DUID, which
    only the existing file has: the existing ones are kept while their port is there.
    """
    before = existing.splitlines()
    duid = [line for line in before if line.startswith("duid ")][:1]
    by_address = {_leased(line): line for line in before}
    ipv4: list[str] = []
    ipv6: list[str] = []
    for entry in entries(network, settings):
        address = entry.addresses[0]
        if not entry.has_lease:
            continue
        if not entry.is_ipv6:  # an end of 0 means an infinite lease, until the client renews it
            ipv4.append(f"0 {entry.port.mac_address} {address} * *")
        elif (line := by_address.get(_address(address))) is not None:
            ipv6.append(line)
    return "".join(f"{line}\n" for line in [*ipv4, *duid, *ipv6])


def with_existing(rendered: str, existing: str) -> str:
    """All existing leases, and rendered ones for other addresses: for an agent that has not synced."""
    kept = existing.splitlines()
    held = {_leased(line) for line in kept} - {""}
    new = [line for line in rendered.splitlines() if line not in kept and _leased(line) not in held]
    # dnsmasq expects IPv4 leases before its DUID and the IPv6 leases.
    return "".join(f"{line}\n" for line in [*new, *kept])


def _leased(line: str) -> str:
    words = line.split()
    return _address(words[2]) if len(words) == 5 else ""


# --- releasing --------------------------------------------------------------------------------------------------------


def read_leases(text: str) -> tuple[Lease, ...]:
    rows = [line.split() for line in text.splitlines()]
    server_id = next((words[1] for words in rows if len(words) == 2 and words[0] == "duid"), "")
    leases = []
    for words in rows:
        if len(words) == 5 and (address := _address(words[2])):
            leases.append(Lease(address, words[1], "" if words[4] == "*" else words[4], server_id))
    return tuple(leases)


def stale_leases(leases: tuple[Lease, ...], hosts_before: str, ports: Iterable[DhcpPort]) -> tuple[Lease, ...]:
    """Leases whose address no port has with the same MAC any more.

    An IPv6 lease has no MAC; `hosts_before`, the `host` file that is on disk, shows whether its port had another one.
    """
    if not leases:
        return ()
    now = {(_address(fixed.ip_address), port.mac_address) for port in ports for fixed in port.fixed_ips}
    addresses = {address for address, _ in now}
    moved = {address for address, mac in _read_hosts(hosts_before) if (address, mac) not in now}

    def is_stale(lease: Lease) -> bool:
        gone = lease.address not in addresses if ":" in lease.address else (lease.address, lease.link) not in now
        return gone or lease.address in moved

    return tuple(filter(is_stale, leases))


def render_release(lease: Lease, device: str) -> tuple[str, ...]:
    """The command that sends dnsmasq a release in the client's name."""
    if ":" not in lease.address:
        return ("dhcp_release", device, lease.address, lease.link, *((lease.client_id,) if lease.client_id else ()))
    ids = ("--client-id", lease.client_id, "--server-id", lease.server_id, "--iaid", lease.link.removeprefix("T"))
    return ("dhcp_release6", "--iface", device, "--ip", lease.address, *ids)


def _read_hosts(text: str) -> set[tuple[str, str]]:
    """The addresses in a `host` file, each with its MAC."""
    pairs: set[tuple[str, str]] = set()
    for line in text.splitlines():
        mac, *rest = line.split(",")
        pairs |= {(address, mac) for word in rest if (address := _address(word))}
    return pairs


@cached(maxsize=100_000)  # the same few are parsed at every change of a network
def _address(text: str) -> str:
    """The address in its canonical form; empty if the text is none."""
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return ""
