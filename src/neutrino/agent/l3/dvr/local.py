"""The part of a distributed router that every host has: `qrouter-…`, with the router's own ports. Pure.

Packets between its subnets are routed here, on the sender's host. Who is where on those subnets it knows from the server
and does not ask: the router's ports are on many hosts, and an answer would go to any of them.

What leads out is decided by the sender, after the router's own subnets have been looked for in the main table:

    57481   from an address with a floating IP here → table 16, through rfp-… into the floating IPs' namespace
    ……      from any other address of a subnet → the subnet's own table, to the host that has the SNAT (its sg-… port)
"""

from __future__ import annotations

import dataclasses
import ipaddress
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from neutrino.agent.l3.dvr.link_locals import Pair
from neutrino.agent.l3.dvr.neighbours import render_neighbours
from neutrino.agent.l3.names import INTERNAL, TO_FIP, TO_ROUTER, device, fip_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.nat import render_nat
from neutrino.agent.l3.router import DesiredRouter, render_router
from neutrino.agent.namespaces import DesiredDevice
from neutrino.dataplane.netlink.values import Route, Rule, address, route, rule
from neutrino.dataplane.nft.api import Chain, Hook, Table, nft_set
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import FloatingIp, Router, RouterAddress, RouterInterface

FLOATING_TABLE = 16
FLOATING_PRIORITY = 57481
_FIRST_FREE = 1 << 15  # below are the tables and priorities that others use
_DSTNAT, _SRCNAT = -100, 100


def local_floating_ips(router: Router) -> tuple[FloatingIp, ...]:
    """Those whose port is on this host; others come through the host that has the SNAT."""
    if router.gateway is None or router.agent_gateway is None:
        return ()
    return tuple(each for each in router.floating_ips if each.host)


def render_local(router: Router, options: L3Options, pair: Pair | None, known: Iterable[DhcpPort]) -> DesiredRouter:
    """`pair` joins it with the namespace of its floating IPs, where it has some here; `known` are its subnets' ports."""
    inner = msgspec.structs.replace(router, gateway=None, floating_ips=(), port_forwardings=(), ha=None, routes=())
    base = render_router(inner, options)
    floating = local_floating_ips(router) if pair is not None else ()
    namespace = dataclasses.replace(
        base.namespace,
        routes=frozenset((*_extra_routes(router), *_central_routes(router), *_floating_routes(router, pair))),
        rules=frozenset((*_central_rules(router), *_floating_rules(floating))),
        neighbours=frozenset(render_neighbours(router, known)),
        sysctls={**base.namespace.sysctls, **_settings(base.namespace.devices)},
        device_prefixes=(*base.namespace.device_prefixes, TO_FIP),
    )
    nat = render_nat(inner, metadata_port=options.metadata_port)
    if pair is None or router.agent_gateway is None:
        return dataclasses.replace(base, namespace=namespace)
    name = device(TO_FIP, router.id)
    joined = DesiredDevice(
        name,
        peer=device(TO_ROUTER, router.id),
        peer_namespace=fip_namespace(router.agent_gateway.network_id),
        mtu=router.agent_gateway.mtu,
    )
    namespace = dataclasses.replace(
        namespace,
        devices=(*namespace.devices, joined),
        addresses=namespace.addresses | {address(name, f"{pair[0]}/31")},
    )
    return dataclasses.replace(base, namespace=namespace, nat=_with_floating_ips(nat, floating, name))


def _settings(devices: Iterable[DesiredDevice]) -> dict[str, str]:
    """Packets come and go by different hosts, so no device can tell who may send there; nobody is told of short cuts."""
    names = ("all", "default", *(each.name for each in devices if each.name != "lo"))
    return {f"net/ipv4/conf/{name}/{what}": "0" for name in names for what in ("rp_filter", "send_redirects")}


# --- out --------------------------------------------------------------------------------------------------------------


def _extra_routes(router: Router) -> Iterator[Route]:
    inside = [ipaddress.ip_network(each.cidr) for interface in router.interfaces for each in interface.addresses]
    for each in router.routes:
        if any(ipaddress.ip_address(each.nexthop) in network for network in inside):
            yield route(str(ipaddress.ip_network(each.destination, strict=False)), via=each.nexthop)


def _by_way_of(router: Router) -> Iterator[tuple[RouterInterface, RouterAddress, RouterAddress]]:
    """An interface, its address, and the one on the same subnet of the host that has the SNAT."""
    if router.gateway is None:
        return
    outward = {each.version for each in router.gateway.addresses}
    central = {each.subnet_id: each for port in router.snat_interfaces for each in port.addresses}
    for interface in router.interfaces:
        for each in interface.addresses if interface.admin_state_up else ():
            if each.subnet_id in central and each.version in outward:
                yield interface, each, central[each.subnet_id]


def central_table(cidr: str) -> int:
    """The number of a subnet's own table, which is also the priority of its rule: no two of a router have the same."""
    network = ipaddress.ip_network(cidr)
    if network.version == 4:
        return max(int(network.network_address), _FIRST_FREE + 1)
    return _FIRST_FREE | zlib.crc32(str(network).encode()) | 1 << 31


def _central_routes(router: Router) -> Iterator[Route]:
    for interface, own, central in _by_way_of(router):
        everything = "0.0.0.0/0" if own.version == 4 else "::/0"
        name = device(INTERNAL, interface.id)
        yield route(everything, name, central.ip_address, table=central_table(own.cidr))


def _central_rules(router: Router) -> Iterator[Rule]:
    for _, own, _ in _by_way_of(router):
        number = central_table(own.cidr)
        # After those of floating IPs, whatever the subnet.
        yield rule(max(number, FLOATING_PRIORITY + 1), source=own.cidr, table=number)


def _floating_routes(router: Router, pair: Pair | None) -> Iterator[Route]:
    if pair is not None:
        yield route("0.0.0.0/0", device(TO_FIP, router.id), str(pair[1]), table=FLOATING_TABLE)


def _floating_rules(floating: Iterable[FloatingIp]) -> Iterator[Rule]:
    for each in floating:
        yield rule(FLOATING_PRIORITY, source=f"{each.fixed_ip_address}/32", table=FLOATING_TABLE)


# --- translation ------------------------------------------------------------------------------------------------------


def _with_floating_ips(nat: Table, floating: Iterable[FloatingIp], outside: str) -> Table:
    """Only what passes the pair is translated: who has no floating IP here comes to others by way of the outside."""
    inward = sorted((each.floating_ip_address, each.fixed_ip_address) for each in floating)
    outward = {fixed: public for public, fixed in reversed(inward)}  # of several, the first speaks for the instance
    maps = {
        "floating_to_fixed": (f"{a} : {b}" for a, b in inward),
        "fixed_to_floating": (f"{a} : {b}" for a, b in outward.items()),
    }
    kept = tuple(each for each in nat.sets if each.name not in maps)
    sets = tuple(nft_set(name, "ipv4_addr : ipv4_addr", elements) for name, elements in maps.items())
    arriving = f'iifname "{outside}" dnat ip to ip daddr map @floating_to_fixed'
    leaving = f'oifname "{outside}" snat ip to ip saddr map @fixed_to_floating'
    chains = (
        *(_without_floating_ips(each) for each in nat.chains),
        Chain("floating_in", (arriving,), Hook("nat", "prerouting", _DSTNAT)),
        Chain("floating_out", (leaving,), Hook("nat", "postrouting", _SRCNAT)),
    )
    return dataclasses.replace(nat, sets=(*sets, *kept), chains=chains)


def _without_floating_ips(chain: Chain) -> Chain:
    """Of a centralized router they are translated wherever they come from."""
    return dataclasses.replace(chain, rules=tuple(each for each in chain.rules if "@floating_to_fixed" not in each))
