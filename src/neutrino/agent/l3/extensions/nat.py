"""Address translation of a router: floating IPs, port forwardings and SNAT, as nft rules and maps.

A packet from outside to a floating IP: `prerouting_dnat` finds the address in a map and replaces it by the fixed one;
the router forwards it. Conntrack translates the reply back.

A packet from an instance to the outside: `postrouting_snat` finds its source in the other map, if it has a floating IP;
else the gateway's own address replaces it, unless its network is in the address scope of the external network
(`scopes`). A packet between two internal subnets matches neither: it leaves by no external device and has not been
translated.

Two instances that talk by their floating IPs inside one router (a hairpin): the destination is translated in
prerouting, the packet leaves by an internal device, and its source becomes the floating IP, or, if the sender has none,
the gateway's address: the reply has to come back through the router. Packets from outside carry a mark and keep their
source.

In `qrouter-…` of a distributed router only what passes `rfp-…` is translated: an instance without a floating IP on this
host reaches other floating IPs by the external network.

A host that takes over an HA router has no conntrack entries. Connections that leave under the router's address keep
their port where it is free, so that the next packet from inside makes the new host translate as the old one did. A
packet from outside before that would be answered by a reset, which ends the connection: it is dropped, and
retransmitted.

A gateway that gets another address, or none, may lose the old one to another project. The kernel goes on translating
connections as it did their first packet: those under an address that the router does not have any more are flushed
(`own_addresses`), also by an agent that was not running when the address changed.

A map lookup costs the same for one floating IP and for five hundred.

Port forwardings: a map's value may not be a range, so a range of ports is rendered in one of three ways:

* the internal ports are the same (`forwarded_ranges`): one element, whose value is the address alone; the port stays;
* the internal port is a single one (`forwarded_to_one`): one element, whose key is the range;
* the internal ports are shifted (`forwarded`): an element for each port. The server limits the length of such a range:
  a full one would be 65,535 elements, rendered and compared at every change of its router.

Single ports are in `forwarded`, which is a hash.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, Literal, NamedTuple

from neutrino.agent.l3.devices import numbered
from neutrino.agent.l3.extension_api import (
    DNAT,
    HELPERS,
    INPUT,
    MARK,
    OUTPUT_DNAT,
    SNAT,
    Contribution,
    L3Extension,
    RouterNamespace,
    quoted,
)
from neutrino.agent.l3.extensions.gateways import fixed_to_floating, translated_by
from neutrino.agent.l3.extensions.scopes import in_scope_of_outside, scope_of_outside, snat_address, snat_address_of
from neutrino.agent.l3.names import EXTERNAL, TO_FIP, device
from neutrino.dataplane.conntrack.api import SCTP, TCP, UDP, ConntrackFlush
from neutrino.dataplane.nft.api import Chain, Set, Table, TableState, nft_set
from neutrino.model.routing import FloatingIp, PortForwarding, Router, RouterInterface

PATH = "ip neutrino"
_FROM_OUTSIDE = 0x2  # mark of packets that came in by the gateway's device
_KEEPS_SOURCE = 0x10000  # it came by a device in the address scope of the external network
_ADDRESSES: Final = "ipv4_addr : ipv4_addr"
SINGLE, TO_ONE, SAME = "forwarded", "forwarded_to_one", "forwarded_ranges"
_KEY = "ipv4_addr . inet_proto . inet_service"
_TYPES: Final = {
    SINGLE: f"{_KEY} : ipv4_addr . inet_service",
    TO_ONE: f"{_KEY} : ipv4_addr . inet_service",
    SAME: f"{_KEY} : ipv4_addr",
}
_PROTOCOLS: Final = {"tcp": TCP, "udp": UDP, "sctp": SCTP}
FORWARDING_RULES: Final = (
    f"dnat ip to ip daddr . meta l4proto . th dport map @{SINGLE}",
    # nft requires a match on a protocol with ports where the key is a range and the value has a port.
    f"meta l4proto {{ tcp, udp, dccp, sctp }} dnat ip to ip daddr . ip protocol . th dport map @{TO_ONE}",
    f"dnat ip to ip daddr . ip protocol . th dport map @{SAME}",
)
_DESTINATIONS = (*FORWARDING_RULES, "dnat ip to ip daddr map @floating_to_fixed")


class Nat(L3Extension):
    name = "nat"

    def render(self, namespace: RouterNamespace) -> Contribution:
        router, outside = namespace.router, namespace.outside
        chains: list[Chain] = []
        if outside.startswith(TO_FIP):
            chains = [
                DNAT.chain((f'iifname "{outside}" dnat ip to ip daddr map @floating_to_fixed',)),
                SNAT.chain((f'oifname "{outside}" snat ip to ip saddr map @fixed_to_floating',)),
            ]
        elif outside:
            chains = [
                MARK.chain(_marks(namespace)),
                DNAT.chain(_DESTINATIONS),
                OUTPUT_DNAT.chain(_DESTINATIONS),
                SNAT.chain(_sources(namespace)),
                INPUT.chain(_awaited(namespace)),
            ]
        maps = _maps(router) if outside else _no_maps()
        table = Table((*chains, *_helpers(router)), tuple(maps), tuple(_helper_objects(router)), family="ip")
        return Contribution(tables=(table,))

    def stale_connections(
        self, namespace: RouterNamespace, desired: Mapping[str, Table], actual: Mapping[str, TableState]
    ) -> Iterator[ConntrackFlush]:
        """Those of floating IPs and forwarded ports that are translated otherwise from now on."""
        sets = desired[PATH].sets if PATH in desired else ()
        there = actual[PATH].elements if PATH in actual else {}
        wanted = {each.name: each.elements for each in sets}
        for name, direction in _directions(there):
            for element in there.get(name, frozenset()) - wanted.get(name, frozenset()):
                yield ConntrackFlush(0, 4, direction, element.partition(" : ")[0])
        yield from stale_forwardings(sets, there)


def _directions(names: Iterable[str]) -> Iterator[tuple[str, Literal["ingress", "egress"]]]:
    """The maps of floating IPs, each with the direction of connections that it translates."""
    yield "floating_to_fixed", "ingress"
    yield from ((name, "egress") for name in names if name.startswith("fixed_to_floating"))


def _maps(router: Router) -> Iterator[Set]:
    inward = sorted(map(_addresses, router.floating_ips))
    yield nft_set("floating_to_fixed", _ADDRESSES, (f"{a} : {b}" for a, b in inward))
    # In `qrouter-…` of a distributed router, the gateway itself is elsewhere.
    for number in numbered(router) or (1,):
        of_gateway = translated_by(router, number)[0] if router.extra_gateways else router.floating_ips
        # Of several floating IPs of one address, the first is the source of what the instance sends.
        outward = {fixed: public for public, fixed in sorted(map(_addresses, of_gateway), reverse=True)}
        yield nft_set(fixed_to_floating(number), _ADDRESSES, (f"{a} : {b}" for a, b in outward.items()))
    yield from forwarding_maps(router.port_forwardings)


def _no_maps() -> Iterator[Set]:
    yield from (nft_set(name, _ADDRESSES, ()) for name in ("floating_to_fixed", "fixed_to_floating"))
    yield from forwarding_maps(())


def _addresses(floating: FloatingIp) -> tuple[str, str]:
    return floating.floating_ip_address, floating.fixed_ip_address


def _marks(namespace: RouterNamespace) -> Iterator[str]:
    # The upper half of the mark is left: bit 16 is set below.
    yield f"iifname {quoted(namespace.outsides)} meta mark set meta mark & 0xffff0000 | {_FROM_OUTSIDE:#x}"
    if kept := in_scope_of_outside(namespace.router, namespace.inside):
        yield f"iifname {kept} meta mark set meta mark | {_KEEPS_SOURCE:#x}"


def _sources(namespace: RouterNamespace) -> Iterator[str]:
    router, outside, address = namespace.router, namespace.outside, snat_address(namespace.router)
    # Also where the packet leaves by the outside again: a floating IP has moved to another router or host, and the
    # sender's neighbour entry is stale. Its new owner must not see the packet as one of this router.
    yield f"meta mark & 0xffff == {_FROM_OUTSIDE:#x} accept"
    # Between internal subnets, unless a hairpin: neither end is to see another source.
    yield f"oifname != {quoted(namespace.outsides)} ct status & dnat == 0 accept"
    further = [(number, each) for number, each in numbered(router).items() if number > 1 and each.admin_state_up]
    for number, gateway in further:
        yield from _sources_by(router, number, gateway)
    yield "snat ip to ip saddr map @fixed_to_floating"
    for number, _ in further:  # hairpins; what leaves by the first gateway is not to have an address of another network
        yield f'oifname != "{outside}" snat ip to ip saddr map @{fixed_to_floating(number)}'
    if address is None:
        return
    if in_scope_of_outside(router, namespace.inside):
        yield f'oifname "{outside}" meta mark & {_KEEPS_SOURCE:#x} != 0 accept'
    # To the outside; or a hairpin of a sender without a floating IP: with its own source, the reply would not pass the
    # router. With HA the source port is kept: the next active host has to choose the same one without knowing it.
    yield f"snat ip to {address}{'' if router.ha is not None else ' fully-random'}"


def _sources_by(router: Router, number: int, gateway: RouterInterface) -> Iterator[str]:
    """What leaves by a further gateway, under an address of that gateway's network."""
    outward, address = f'oifname "{device(EXTERNAL, gateway.id)}"', snat_address_of(router, gateway)
    yield f"{outward} snat ip to ip saddr map @{fixed_to_floating(number)}"
    scope = scope_of_outside(gateway)
    if scope is not None and scope == scope_of_outside(router.gateway):
        yield f"{outward} meta mark & {_KEEPS_SOURCE:#x} != 0 accept"
    if address is not None:
        yield f"{outward} snat ip to {address}{'' if router.ha is not None else ' fully-random'}"
    yield f"{outward} accept"


def _awaited(namespace: RouterNamespace) -> Iterator[str]:
    """Drops packets of connections that a host has taken over before the inside has sent on them."""
    if namespace.router.ha is not None:
        yield f"iifname {quoted(namespace.outsides)} tcp flags & syn == 0 ct state invalid,new drop"


def _helper_objects(router: Router) -> Iterator[str]:
    """Conntrack helpers, for protocols that announce a second connection inside the first (FTP, TFTP…)."""
    for helper, protocol in sorted(
        {(conntrack_helper.helper, conntrack_helper.protocol) for conntrack_helper in router.conntrack_helpers}
    ):
        yield f'ct helper {helper}_{protocol} {{\ntype "{helper}" protocol {protocol};\n}}'


def _helpers(router: Router) -> Iterator[Chain]:
    wanted = sorted(
        {
            (conntrack_helper.helper, conntrack_helper.protocol, conntrack_helper.port)
            for conntrack_helper in router.conntrack_helpers
        }
    )
    if wanted:
        yield HELPERS.chain(
            f'{protocol} dport {port} ct helper set "{helper}_{protocol}"' for helper, protocol, port in wanted
        )


# --- port forwardings ---


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
