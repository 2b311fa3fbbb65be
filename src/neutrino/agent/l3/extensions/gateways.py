"""Further gateways of a router: which one a packet leaves by. Pure.

A router with one gateway needs nothing of this. With several, the main table has the default routes: that of the first
gateway, or with ECMP one over the next hops of all, of which the kernel chooses one for each flow. A packet of a
connection that is translated must leave by the gateway that has the translated address, whatever the default route is:

    prerouting_mark   a packet from inside gets the number of a gateway as a mark: that which has the connection's
                      external address, by conntrack; of a new connection, that of the sender's floating IP
    rule 19999        by the mark and to another gateway's network, the table of the marked gateway
    rule 20000        the main table without its default routes: the router's subnets and extra routes
    rule 20001 …      by the mark, the table of that gateway, which has its default routes
    rule 32766        the main table with its default routes: packets without a mark

So a floating IP of any external network answers by that network, an instance with a floating IP leaves under it, and a
connection under the router's own address stays with the gateway that it began with when gateways come and go.
IPv6 is not translated: its packets take the default routes.
"""

from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.devices import next_hops, numbered
from neutrino.agent.l3.extension_api import MARK, Contribution, L3Extension, RouterNamespace, quoted
from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.dataplane.netlink.values import MAIN_TABLE, NextHop, Route, Rule, multipath_route, rule
from neutrino.dataplane.nft.api import Set, Table, nft_set
from neutrino.model.routing import FloatingIp, PortForwarding, Router, RouterInterface

FIRST_TABLE = 32  # of the first gateway
PRIORITY = 20000  # of the rules, before the main table's 32766
_SHIFT = 20
_MASK = 0xFF << _SHIFT  # bits of the packet's mark: the number of a gateway
_OTHERS = _MASK ^ 0xFFFFFFFF


def translated_by(router: Router, number: int) -> tuple[tuple[FloatingIp, ...], tuple[PortForwarding, ...]]:
    """The floating IPs and forwardings of a gateway: of several gateways on their network, the first has them."""
    gateways = numbered(router)
    first: dict[str, int] = {}
    for other, gateway in gateways.items():
        first.setdefault(gateway.network_id, other)
    home = first.get(gateways[1].network_id) if 1 in gateways else None

    def is_here(network_id: str) -> bool:
        return (first.get(network_id) if network_id else home) == number

    return (
        tuple(floating_ip for floating_ip in router.floating_ips if is_here(floating_ip.network_id)),
        tuple(port_forwarding for port_forwarding in router.port_forwardings if is_here(port_forwarding.network_id)),
    )


def external_addresses(router: Router, number: int) -> set[str]:
    """The IPv4 addresses that packets have outside by this gateway, apart from the gateway's own."""
    floating, forwardings = translated_by(router, number)
    return {each.floating_ip_address for each in floating} | {
        forwarding.external_ip_address for forwarding in forwardings
    }


def fixed_to_floating(number: int) -> str:
    """The map by which the sources of packets that leave by a gateway are translated to their floating IPs."""
    return "fixed_to_floating" if number == 1 else f"fixed_to_floating_{number}"


class FurtherGateways(L3Extension):
    name = "further gateways"

    def render(self, namespace: RouterNamespace) -> Contribution:
        router = namespace.router
        if not router.extra_gateways:
            return Contribution()
        gateways = {number: each for number, each in numbered(router).items() if each.admin_state_up}
        sysctls = {f"net/ipv4/conf/{name}/rp_filter": "2" for name in namespace.gateways}  # replies come by any of them
        # By ports too: by addresses alone, all connections to one server would take one next hop.
        sysctls |= {f"net/{family}/fib_multipath_hash_policy": "1" for family in ("ipv4", "ipv6")}
        table = Table((MARK.chain(_marks(namespace, gateways)),), tuple(_sets(router, gateways)), family="ip")
        return Contribution(
            tables=(table,),
            routes=tuple(_routes(namespace, gateways)),
            rules=tuple(_rules(gateways)),
            sysctls=sysctls,
        )


def _routes(namespace: RouterNamespace, gateways: dict[int, RouterInterface]) -> Iterator[Route]:
    """The default routes of each gateway, in a table of its own."""
    for number, gateway in gateways.items():
        own = {device(EXTERNAL, gateway.id): gateway}
        found = default_routes(own, namespace.options.ipv6_gateway, table=_table(number))
        yield from (each for each in found if each.version == 4)  # no packet of IPv6 has a mark


def _rules(gateways: Mapping[int, RouterInterface]) -> Iterator[Rule]:
    yield rule(PRIORITY, table=MAIN_TABLE, suppressed=0)
    for number, gateway in gateways.items():
        mark = number << _SHIFT
        yield rule(PRIORITY + number, mark=mark, mask=_MASK, table=_table(number))
        others = (each for each in gateways.values() if each.network_id != gateway.network_id)
        for cidr in sorted({cidr for other in others for cidr in _subnets(other)}):
            yield rule(PRIORITY - 1, destination=cidr, mark=mark, mask=_MASK, table=_table(number))


def _subnets(gateway: RouterInterface) -> Iterator[str]:
    """All IPv4 subnets of its network."""
    for cidr in (*(address.cidr for address in gateway.addresses), *gateway.other_subnets):
        if ":" not in cidr:
            yield cidr


def _table(number: int) -> int:
    return FIRST_TABLE + number - 1


def _marks(namespace: RouterNamespace, gateways: Iterable[int]) -> Iterator[str]:
    inside = f"iifname != {quoted(namespace.outsides)}"
    for number in gateways:
        mark = f"meta mark set meta mark & {_OTHERS:#x} | {number << _SHIFT:#x}"
        yield f"{inside} ct direction reply ct original ip daddr @gateway_{number} {mark}"
        yield f"{inside} ct direction original ct reply ip daddr @gateway_{number} {mark}"
        yield f"{inside} ct state new ip saddr @gateway_{number}_fixed {mark}"


def _sets(router: Router, gateways: dict[int, RouterInterface]) -> Iterator[Set]:
    known: set[str] = set()
    for number, gateway in gateways.items():
        own = {address.ip_address for address in gateway.addresses if address.version == 4}
        yield nft_set(f"gateway_{number}", "ipv4_addr", sorted(own | external_addresses(router, number)))
        # Of several floating IPs of an instance, that of the first gateway is its source.
        fixed = {each.fixed_ip_address for each in translated_by(router, number)[0]} - known
        known |= fixed
        yield nft_set(f"gateway_{number}_fixed", "ipv4_addr", sorted(fixed))


# --- next hops --------------------------------------------------------------------------------------------------------


def routes_over_all(namespace: RouterNamespace) -> Iterator[Route]:
    """The main table's default routes, without next hops that are lost.

    With ECMP over all others; without it by the first gateway or, while its next hop is lost, by the next gateway that
    has one. Where all are lost, all stay: without a route, packets would be lost all the same, and the fault may be ours.
    """
    router, lost = namespace.router, namespace.lost_next_hops
    hops: dict[str, list[NextHop]] = {}
    for name, gateway in namespace.gateways.items():
        for everything, hop in next_hops(name, gateway, namespace.options.ipv6_gateway):
            hops.setdefault(everything, []).append(hop)
    for everything, several in hops.items():
        alive = [hop for hop in several if (hop.device, hop.via) not in lost] or several
        if router.enable_default_route_ecmp:
            yield multipath_route(everything, alive)
        elif several[0].device == namespace.outside:  # an IP version that the first gateway lacks has no route
            yield multipath_route(everything, alive[:1])


def default_routes(
    gateways: Mapping[str, RouterInterface], ipv6_gateway: str = "", *, table: int = MAIN_TABLE
) -> Iterator[Route]:
    """One for each IP version, over the next hops of all these gateways, which are given by device."""
    hops = [next_hop for name, gateway in gateways.items() for next_hop in next_hops(name, gateway, ipv6_gateway)]
    for everything in dict.fromkeys(destination for destination, _ in hops):
        several = (hop for destination, hop in hops if destination == everything)
        yield multipath_route(everything, several, table=table)
