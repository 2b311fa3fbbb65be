"""dnsmasq's files of hosts: who gets which address, who is called what, and the leases to start from. Pure.

A dnsmasq answers for names that it gave a lease to itself; with several of them on a network each would know a part.
Therefore all names are in `addn_hosts`, and `host` is about leases alone.
"""

from __future__ import annotations

import ipaddress

from neutrino.agent.dhcp.entries import Entry, client_id, entries, other_options
from neutrino.agent.dhcp.lines import Line, render_lines
from neutrino.agent.dhcp.served import Served
from neutrino.agent.dhcp.settings import Settings

DHCPV6 = "tag:dhcpv6"  # the line is for DHCPv6 requests alone: one MAC has lines in both families


def port_tag(port_id: str) -> str:
    return f"port-{port_id}"


def subnet_tag(subnet_id: str) -> str:
    return f"subnet-{subnet_id}"


def render_host(this: Served, settings: Settings) -> str:
    return render_lines(host_lines(this, settings))


def host_lines(this: Served, settings: Settings) -> list[Line]:
    lines = ((_host_line(this, entry), entry) for entry in entries(this, settings, merged=True))
    return [Line(text, f"port {entry.port.id}") for text, entry in lines if text]


def _host_line(this: Served, entry: Entry) -> str:
    port = entry.port
    family = [DHCPV6] if entry.is_ipv6 else []
    options = [f"set:{port_tag(port.id)}"] if other_options(port) else []
    if not entry.takes_address:
        return ",".join([port.mac_address, *family, *options]) if entry.takes_options and options else ""
    subnet = this.subnets.get(entry.subnet_id)
    if subnet is None or not subnet.enable_dhcp:
        return ""
    identity = client_id(port)
    known_by = [f"id:{identity}"] if identity else []
    addresses = [f"[{address}]" if ":" in address else address for address in entry.addresses]
    return ",".join([port.mac_address, *family, *known_by, entry.fqdn, *addresses, *options])


def render_addn_hosts(this: Served, settings: Settings) -> str:
    """The full name comes first: the first one is the answer to a question by address."""
    return render_lines(addn_hosts_lines(this, settings))


def addn_hosts_lines(this: Served, settings: Settings) -> list[Line]:
    return [Line(f"{e.addresses[0]}\t{e.fqdn} {e.hostname}", f"port {e.port.id}") for e in entries(this, settings)]


def render_leases(this: Served, settings: Settings, existing: str = "") -> str:
    """The leases that dnsmasq starts with, so that it refuses no client that another one, or an earlier one, served.

    IPv4 leases are written as endless: the client's next renewal gives them their time. IPv6 leases cannot be made up, for
    they name the client's association: those that were there stay, as long as their port is.
    """
    identity: list[str] = []
    ipv6: dict[str, str] = {}
    for line in existing.splitlines():
        if line.startswith("duid "):
            identity = identity or [line]
        elif len(words := line.split()) == 5 and ":" in words[2]:
            ipv6[str(ipaddress.ip_address(words[2].strip("[]")))] = line
    lines: list[str] = []
    for entry in entries(this, settings):
        subnet = this.subnets.get(entry.subnet_id)
        if subnet is None or not subnet.enable_dhcp or not entry.takes_address:
            continue
        address = entry.addresses[0]
        if not entry.is_ipv6:
            lines.append(f"0 {entry.port.mac_address} {address} * *")
        elif (known := str(ipaddress.ip_address(address))) in ipv6:
            identity.append(ipv6[known])
    return "".join(f"{line}\n" for line in [*lines, *identity])


def with_existing(rendered: str, existing: str) -> str:
    """The leases of a dnsmasq that ended, and of the rendered ones those whose address has none."""
    held = {words[2] for line in existing.splitlines() if len(words := line.split()) == 5}
    kept = existing.splitlines()
    new = [line for line in rendered.splitlines() if line not in kept and _leased(line) not in held]
    # IPv4 leases come before the server's identity and the IPv6 ones: that is how dnsmasq reads the file.
    return "".join(f"{line}\n" for line in [*new, *kept])


def _leased(line: str) -> str:
    words = line.split()
    return words[2] if len(words) == 5 else ""
