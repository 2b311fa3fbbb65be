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

A map lookup costs the same for one floating IP and for five hundred.
"""

from collections.abc import Iterable, Iterator, Mapping

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
)
from neutrino.agent.l3.names import TO_FIP
from neutrino.agent.l3.parts import port_forwarding
from neutrino.agent.l3.parts.scopes import in_scope_of_outside, snat_address
from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.nft.api import Chain, Set, Table, TableState, nft_set
from neutrino.model.routing import FloatingIp, PortForwarding, Router

PATH = "ip neutrino"
_FROM_OUTSIDE = 0x2
_KEEPS_SOURCE = 0x10000  # it came by a device in the address scope of the external network
_DIRECTIONS = {"floating_to_fixed": "ingress", "fixed_to_floating": "egress"}
_DESTINATIONS = (*port_forwarding.RULES, "dnat ip to ip daddr map @floating_to_fixed")


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
                INPUT.chain(_awaited(router, outside)),
            ]
        maps = _maps(router.floating_ips, router.port_forwardings) if outside else _maps((), ())
        table = Table((*chains, *_helpers(router)), tuple(maps), tuple(_helper_objects(router)), family="ip")
        return Contribution(tables=(table,))

    def stale_connections(
        self, namespace: RouterNamespace, desired: Mapping[str, Table], actual: Mapping[str, TableState]
    ) -> Iterator[ConntrackFlush]:
        """Those of floating IPs and forwarded ports that are translated otherwise from now on."""
        sets = desired[PATH].sets if PATH in desired else ()
        there = actual[PATH].elements if PATH in actual else {}
        wanted = {each.name: each.elements for each in sets}
        for name, direction in _DIRECTIONS.items():
            for element in there.get(name, frozenset()) - wanted.get(name, frozenset()):
                yield ConntrackFlush(0, 4, direction, element.partition(" : ")[0])
        yield from port_forwarding.stale_forwardings(sets, there)


def _maps(floating: Iterable[FloatingIp], forwardings: Iterable[PortForwarding]) -> Iterator[Set]:
    inward = sorted((entry.floating_ip_address, entry.fixed_ip_address) for entry in floating)
    # Of several floating IPs of one address, the first is the source of what the instance sends.
    outward = {fixed: public for public, fixed in reversed(inward)}
    yield nft_set("floating_to_fixed", "ipv4_addr : ipv4_addr", (f"{a} : {b}" for a, b in inward))
    yield nft_set("fixed_to_floating", "ipv4_addr : ipv4_addr", (f"{a} : {b}" for a, b in outward.items()))
    yield from port_forwarding.forwarding_maps(forwardings)


def _marks(namespace: RouterNamespace) -> Iterator[str]:
    # The upper half of the mark is left: bit 16 is set below.
    yield f'iifname "{namespace.outside}" meta mark set meta mark & 0xffff0000 | {_FROM_OUTSIDE:#x}'
    if kept := in_scope_of_outside(namespace.router, namespace.inside):
        yield f"iifname {kept} meta mark set meta mark | {_KEEPS_SOURCE:#x}"


def _sources(namespace: RouterNamespace) -> Iterator[str]:
    router, outside, address = namespace.router, namespace.outside, snat_address(namespace.router)
    # Also where the packet leaves by the outside again: a floating IP has moved to another router or host, and the
    # sender's neighbour entry is stale. Its new owner must not see the packet as one of this router.
    yield f"meta mark & 0xffff == {_FROM_OUTSIDE:#x} accept"
    # Between internal subnets, unless a hairpin: neither end is to see another source.
    yield f'oifname != "{outside}" ct status & dnat == 0 accept'
    yield "snat ip to ip saddr map @fixed_to_floating"
    if address is None:
        return
    if in_scope_of_outside(router, namespace.inside):
        yield f'oifname "{outside}" meta mark & {_KEEPS_SOURCE:#x} != 0 accept'
    # To the outside; or a hairpin of a sender without a floating IP: with its own source, the reply would not pass the
    # router. With HA the source port is kept: the next active host has to choose the same one without knowing it.
    yield f"snat ip to {address}{'' if router.ha is not None else ' fully-random'}"


def _awaited(router: Router, outside: str) -> Iterator[str]:
    """Drops packets of connections that a host has taken over before the inside has sent on them."""
    if router.ha is not None:
        yield f'iifname "{outside}" tcp flags & syn == 0 ct state invalid,new drop'


def _helper_objects(router: Router) -> Iterator[str]:
    """Conntrack helpers, for protocols that announce a second connection inside the first (FTP, TFTP…)."""
    for helper, protocol in sorted({(each.helper, each.protocol) for each in router.conntrack_helpers}):
        yield f'ct helper {helper}_{protocol} {{\ntype "{helper}" protocol {protocol};\n}}'


def _helpers(router: Router) -> Iterator[Chain]:
    wanted = sorted({(each.helper, each.protocol, each.port) for each in router.conntrack_helpers})
    if wanted:
        yield HELPERS.chain(
            f'{protocol} dport {port} ct helper set "{helper}_{protocol}"' for helper, protocol, port in wanted
        )
