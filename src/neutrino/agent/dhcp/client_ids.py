"""DHCP client ids of ports: which of them select a lease. Pure.

dnsmasq looks for a client's id first and for its MAC second, so that the id of one port would select that port for the
client of another: its address, and with its tag its router and name servers. But lines of `host` with a matching tag come
before lines without one. So a line with an id has no tag, and all other lines of the network have one (`BY_MAC`): a known
MAC decides, and an id only selects a client whose MAC is unknown, such as that of InfiniBand, which is not in requests.

DHCPv6 needs no ids: there dnsmasq finds the MAC itself, and a line for IPv6 must have a tag.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from neutrino.model.dhcp import DhcpPort
from neutrino.model.dhcp_options import CLIENT_ID

IPV6: Final = "tag:dhcpv6"  # dnsmasq sets this tag for requests of DHCPv6
BY_MAC: Final = "tag:!dhcpv6"  # matches every other request
_BYTE = re.compile(r"[0-9a-fA-F]{1,2}")


@dataclass(frozen=True)
class ClientIds:
    by_port: Mapping[str, str]  # by the port's id
    problems: tuple[str, ...] = ()


def client_ids(ports: Iterable[DhcpPort]) -> ClientIds:
    """The ids of a network's ports. One that several ports have selects none of them: they may be of different projects."""
    given = {port.id: text for port in ports if (text := _client_id(port))}
    owners: defaultdict[bytes, list[str]] = defaultdict(list)
    for port_id, text in given.items():
        owners[_compared(text)].append(port_id)
    several = [owner for owner in owners.values() if len(owner) > 1]
    ignored = {port_id for each in several for port_id in each}
    return ClientIds({key: text for key, text in given.items() if key not in ignored}, tuple(_problems(several)))


def _problems(several: Iterable[list[str]]) -> Iterator[str]:
    for ports in several:
        for port_id in ports:
            yield f"port {port_id}: {len(ports)} ports of the network have its client id, which is ignored"


def _client_id(port: DhcpPort) -> str:
    """Return the client id.

    Its first line, as user input must not add lines, and without commas: nor words, such as a tag or an address.
    """
    text = next((option.value for option in port.options if option.name in CLIENT_ID), "")
    lines = text.splitlines()
    return lines[0].replace(",", "") if lines else ""


def _compared(text: str) -> bytes:
    """Return an id as dnsmasq compares it: with a colon they are hexadecimal, and a zero before an id does not count."""
    parts = text.split(":")
    if len(parts) > 1 and all(map(_BYTE.fullmatch, parts)):
        found = bytes(int(part, 16) for part in parts)
    else:
        found = text.encode()
    return found.removeprefix(b"\0")
