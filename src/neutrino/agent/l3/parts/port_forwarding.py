"""Port forwardings of a router's floating IPs, as nft maps. Pure.

A map's value may not be a range, so a range of ports is rendered in one of three ways:

* the internal ports are the same (`forwarded_ranges`): one element, whose value is the address alone; the port stays;
* the internal port is a single one (`forwarded_to_one`): one element, whose key is the range;
* the internal ports are shifted (`forwarded`): an element for each port. The server limits the length of such a range:
  a full one would be 65,535 elements, rendered and compared at every change of its router.

Single ports are in `forwarded`, which is a hash.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from neutrino.dataplane.conntrack.api import SCTP, TCP, UDP, ConntrackFlush
from neutrino.dataplane.nft.api import Set, nft_set
from neutrino.model.routing import PortForwarding

SINGLE, TO_ONE, SAME = "forwarded", "forwarded_to_one", "forwarded_ranges"
_KEY = "ipv4_addr . inet_proto . inet_service"
_TYPES: Final = {
    SINGLE: f"{_KEY} : ipv4_addr . inet_service",
    TO_ONE: f"{_KEY} : ipv4_addr . inet_service",
    SAME: f"{_KEY} : ipv4_addr",
}
_PROTOCOLS: Final = {"tcp": TCP, "udp": UDP, "sctp": SCTP}
RULES: Final = (
    f"dnat ip to ip daddr . meta l4proto . th dport map @{SINGLE}",
    # nft requires a match on a protocol with ports where the key is a range and the value has a port.
    f"meta l4proto {{ tcp, udp, dccp, sctp }} dnat ip to ip daddr . ip protocol . th dport map @{TO_ONE}",
    f"dnat ip to ip daddr . ip protocol . th dport map @{SAME}",
)


def forwarding_maps(forwardings: Iterable[PortForwarding]) -> Iterator[Set]:
    elements: dict[str, list[str]] = {SINGLE: [], TO_ONE: [], SAME: []}
    for entry in forwardings:
        name, several = _elements(entry)
        elements[name] += several
    for name, type_ in _TYPES.items():
        yield nft_set(name, type_, elements[name], flags=() if name == SINGLE else ("interval",))


def _elements(entry: PortForwarding) -> tuple[str, list[str]]:
    """The map that a forwarding belongs to, and its elements."""
    key = f"{entry.external_ip_address} . {entry.protocol}"
    outside = range(entry.external_port_first, entry.external_port_last + 1)
    ports = f"{outside[0]}-{outside[-1]}"
    inside = entry.internal_ip_address
    if len(outside) > 1 and entry.internal_port_first == entry.internal_port_last:
        return TO_ONE, [f"{key} . {ports} : {inside} . {entry.internal_port_first}"]
    if len(outside) > 1 and entry.internal_port_first == outside[0]:
        return SAME, [f"{key} . {ports} : {inside}"]
    distance = entry.internal_port_first - outside[0]
    return SINGLE, [f"{key} . {port} : {inside} . {port + distance}" for port in outside]


# --- stale connections ---


class _Forwarded(NamedTuple):
    """An element of one of the maps."""

    target: tuple[str, str]  # external address and protocol
    ports: range
    address: str
    port: int | None  # None: the port stays

    def leads_to(self, port: int) -> tuple[str, int]:
        return self.address, port if self.port is None else self.port


def stale_forwardings(wanted: Iterable[Set], there: Mapping[str, frozenset[str]]) -> Iterator[ConntrackFlush]:
    """Connections to ports that are forwarded elsewhere from now on, or not at all.

    Maps are compared by what they do, not by their elements: a range that grows keeps its connections.
    """
    after = {each.name: each.elements for each in wanted if each.name in _TYPES}
    gone = list(_parsed({name: there.get(name, frozenset()) - after.get(name, frozenset()) for name in _TYPES}))
    targets = {each.target for each in gone}
    now: dict[tuple[tuple[str, str], int], tuple[str, int]] = {}
    # Single ports last: their map is looked up first, so they count more than a range.
    for element in _parsed({name: after.get(name, frozenset()) for name in (SAME, TO_ONE, SINGLE)}):
        if element.target in targets:
            now |= {(element.target, port): element.leads_to(port) for port in element.ports}
    stale: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in gone:
        stale[each.target] += [port for port in each.ports if now.get((each.target, port)) != each.leads_to(port)]
    for (address, protocol), ports in sorted(stale.items()):
        number = int(protocol) if protocol.isdigit() else _PROTOCOLS.get(protocol, -1)
        for first, last in _ranges(ports):
            yield ConntrackFlush(0, 4, "ingress", address, "", number, first, last)


def _parsed(elements: Mapping[str, Iterable[str]]) -> Iterator[_Forwarded]:
    for several in elements.values():
        for element in several:
            key, _, value = element.partition(" : ")
            address, protocol, ports = key.split(" . ")
            first, _, last = ports.partition("-")
            inside, _, port = value.partition(" . ")
            outside = range(int(first), int(last or first) + 1)
            yield _Forwarded((address, protocol), outside, inside, int(port) if port else None)


def _ranges(ports: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Joins consecutive ports: a range is one flush, not one for each port."""
    # Within a run of consecutive numbers, the distance of a number to its index stays the same.
    for _, run in groupby(enumerate(sorted(set(ports))), key=lambda each: each[1] - each[0]):
        numbers = [port for _, port in run]
        yield numbers[0], numbers[-1]
