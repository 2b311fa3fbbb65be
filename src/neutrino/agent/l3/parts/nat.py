"""Address translation of a router, as one table of nftables.

A packet from outside to a floating IP: `prerouting` finds the address in a map and puts the fixed one in its place; the
router forwards it. The answer is translated back by the connection that the kernel has noted.

A packet from an instance to the world: `postrouting` finds its source in the other map, if it has a floating IP, else the
gateway's own address takes its place, unless its network is in the address scope of the network outside (`scopes`). A
packet between two internal subnets meets neither: it leaves by no external device and nothing has been translated.

Two instances that talk by their floating IPs inside one router (a hairpin): the destination is translated on the way in,
the packet leaves by an internal device, and its source still becomes the floating IP, or, if the sender has none, the
gateway's address: the answer has to come back through the router. Packets that came from outside carry a mark and keep
their source.

Of an HA router's connections a host that takes over knows nothing. Those that leave under the router's address keep
their port there, as long as it is free, so that the next packet from inside gives the new host the translation that the
old one had. What comes from outside before that is nobody's here; the kernel's answer to it would end the connection, so
it is dropped, and sent again.

Maps cost the same for one floating IP and for five hundred. Port forwardings are in `forwarding`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network

from neutrino.agent.l3.names import EXTERNAL, INTERNAL, device
from neutrino.agent.l3.parts import forwarding
from neutrino.agent.l3.parts.scopes import in_scope_of_outside, render_scopes
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.nft.api import Chain, Hook, Set, Table, nft_set
from neutrino.model.routing import FloatingIp, PortForwarding, Router, RouterInterface

FROM_OUTSIDE = 0x2
METADATA_MARK = 0x1
KEEPS_SOURCE = 0x10000  # it came by a device in the address scope of the network outside
METADATA_IP, METADATA_IP6 = "169.254.169.254", "fe80::a9fe:a9fe"
_MASK = 0xFFFF
FOR_METADATA = f"meta mark & {_MASK:#x} == {METADATA_MARK:#x}"
NOT_FOR_METADATA = f"meta mark & {_MASK:#x} != {METADATA_MARK:#x}"
_DIRECTIONS = {"floating_to_fixed": "ingress", "fixed_to_floating": "egress"}

_MANGLE, _DSTNAT, _FILTER, _SRCNAT = -150, -100, 0, 100  # priorities, as nftables names them


def internal_devices(router: Router) -> dict[str, RouterInterface]:
    return {device(INTERNAL, interface.id): interface for interface in router.interfaces}


def render_nat(router: Router, *, metadata_port: int = 0, inside: Mapping[str, RouterInterface] | None = None) -> Table:
    """`inside`: the internal devices, where they are others than the router's own."""
    gateway = router.gateway
    inside = internal_devices(router) if inside is None else inside
    outside = device(EXTERNAL, gateway.id) if gateway is not None else ""
    floating, forwarded = (router.floating_ips, router.port_forwardings) if gateway is not None else ((), ())
    return Table(
        family="ip",
        sets=tuple(_maps(floating, forwarded)),
        chains=(
            _chain("marks", Hook("filter", "prerouting", _MANGLE), _marks(router, inside, metadata_port)),
            _chain("arriving", Hook("nat", "prerouting", _DSTNAT), _inward(metadata_port)),
            _chain("from_here", Hook("nat", "output", _DSTNAT), _DESTINATIONS),
            _chain("leaving", Hook("nat", "postrouting", _SRCNAT), _outward(router, inside, outside)),
            _chain("to_here", Hook("filter", "input", _FILTER), (*_guard(metadata_port), *_awaited(router, outside))),
            _chain(
                "between",
                Hook("filter", "forward", _FILTER),
                render_scopes(router, inside, 4, snat=_snat_address(router) is not None),
            ),
            *_helper_chain(router),
        ),
        declarations=tuple(_helpers(router)),
    )


_DESTINATIONS = (*forwarding.RULES, "dnat ip to ip daddr map @floating_to_fixed")


def _maps(floating: Iterable[FloatingIp], forwardings: Iterable[PortForwarding]) -> Iterator[Set]:
    inward = sorted((entry.floating_ip_address, entry.fixed_ip_address) for entry in floating)
    outward = {fixed: public for public, fixed in reversed(inward)}  # of several, the first speaks for the instance
    yield nft_set("floating_to_fixed", "ipv4_addr : ipv4_addr", (f"{a} : {b}" for a, b in inward))
    yield nft_set("fixed_to_floating", "ipv4_addr : ipv4_addr", (f"{a} : {b}" for a, b in outward.items()))
    yield from forwarding.forwarding_maps(forwardings)


def ended_connections(table: Table, there: Mapping[str, frozenset[str]]) -> frozenset[ConntrackFlush]:
    """Of connections by way of what is not translated so any more: the kernel would do it as before, for ever."""
    wanted = {each.name: each.elements for each in table.sets}
    return frozenset(
        (
            *(
                ConntrackFlush(0, 4, direction, element.partition(" : ")[0])
                for name, direction in _DIRECTIONS.items()
                for element in there.get(name, frozenset()) - wanted.get(name, frozenset())
            ),
            *forwarding.ended_forwardings(table.sets, there),
        )
    )


def _marks(router: Router, inside: Mapping[str, RouterInterface], metadata_port: int) -> Iterator[str]:
    if router.gateway is not None:
        outside = device(EXTERNAL, router.gateway.id)
        yield f'iifname "{outside}" meta mark set meta mark & 0xffff0000 | {FROM_OUTSIDE:#x}'
    if metadata_port:
        asked = f"ip daddr {METADATA_IP} tcp dport 80"
        for name, cidrs in sources(router, 4):
            yield f'iifname "{name}" ip saddr {cidrs} {asked} meta mark set {METADATA_MARK:#x}'
        yield f'iifname "{INTERNAL}*" {asked} {NOT_FOR_METADATA} drop'
    if kept := in_scope_of_outside(router, inside):
        yield f"iifname {kept} meta mark set meta mark | {KEEPS_SOURCE:#x}"


def sources(router: Router, version: int) -> Iterator[tuple[str, str]]:
    """Each internal device with the subnets of its network, as an nft set: who may ask for metadata there.

    Any other source is forged, or routed there by somebody, and could be an address of another network of the router.
    """
    cidrs: defaultdict[str, set[IPv4Network | IPv6Network]] = defaultdict(set)
    for interface in router.interfaces:
        cidrs[interface.network_id] |= {
            ip_network(each.cidr) for each in interface.addresses if each.version == version
        }
    for interface in router.interfaces:
        if known := sorted(map(str, cidrs[interface.network_id])):
            yield device(INTERNAL, interface.id), f"{{ {', '.join(known)} }}"


def _inward(metadata_port: int) -> Iterator[str]:
    if metadata_port:
        yield f"{FOR_METADATA} ip daddr {METADATA_IP} tcp dport 80 redirect to :{metadata_port}"
    yield from _DESTINATIONS


def _outward(router: Router, inside: Mapping[str, RouterInterface], outside: str) -> Iterator[str]:
    if router.gateway is None:
        return
    yield f'oifname != "{outside}" ct status & dnat == 0 accept'
    yield "snat ip to ip saddr map @fixed_to_floating"
    address = _snat_address(router)
    if address is None:
        return
    if in_scope_of_outside(router, inside):
        yield f'oifname "{outside}" meta mark & {KEEPS_SOURCE:#x} != 0 accept'
    port = "" if router.ha is not None else " fully-random"
    yield f'oifname "{outside}" snat ip to {address}{port}'
    yield f"meta mark & {_MASK:#x} != {FROM_OUTSIDE:#x} ct status & dnat != 0 snat ip to {address}{port}"


def _guard(metadata_port: int) -> Iterator[str]:
    """The metadata process is for packets that were meant for it."""
    if metadata_port:
        yield f"{FOR_METADATA} accept"
        yield f"tcp dport {metadata_port} drop"


def _awaited(router: Router, outside: str) -> Iterator[str]:
    """The middle of a connection that a host has taken over, of which it has not yet heard from inside."""
    if router.ha is not None and outside:
        yield f'iifname "{outside}" tcp flags & syn == 0 ct state invalid,new drop'


def _helpers(router: Router) -> Iterator[str]:
    """Connections that a protocol announces inside another (FTP, TFTP…), where the router was asked to follow them."""
    for helper, protocol in sorted({(each.helper, each.protocol) for each in router.conntrack_helpers}):
        yield f'ct helper {helper}_{protocol} {{\ntype "{helper}" protocol {protocol};\n}}'


def _helper_chain(router: Router) -> Iterator[Chain]:
    wanted = sorted({(each.helper, each.protocol, each.port) for each in router.conntrack_helpers})
    if wanted:
        rules = (f'{protocol} dport {port} ct helper set "{helper}_{protocol}"' for helper, protocol, port in wanted)
        yield _chain("helpers", Hook("filter", "prerouting", _FILTER), rules)


def _snat_address(router: Router) -> str | None:
    """Under which all others leave; None where they keep their own."""
    addresses = router.gateway.addresses if router.gateway is not None and router.enable_snat else ()
    return next((each.ip_address for each in addresses if each.version == 4), None)


def _chain(name: str, hook: Hook, rules: Iterable[str]) -> Chain:
    return Chain(name, tuple(rules), hook)
