"""The namespace by which a host's floating IPs reach the outside: `fip-…`, one for each external network. Pure.

It is shared by all distributed routers here that have floating IPs on that network, each joined by a pair of devices. On
the network outside it has a port of the host's own (fg-…), which answers for every floating IP that is routed through it
(proxy ARP): floating IPs come and go as routes, without an address of their own.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator

from neutrino.agent.l3.dvr.link_locals import Pair
from neutrino.agent.l3.names import AGENT_GATEWAY, TO_ROUTER, device, fip_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import LOOPBACK, SYSCTLS, render_device
from neutrino.agent.l3.router import DesiredRouter, render_plug
from neutrino.agent.namespaces import DesiredDevice, DesiredNamespace
from neutrino.dataplane.netlink.values import Route, address, route
from neutrino.dataplane.nft.api import Table
from neutrino.model.routing import RouterInterface


@dataclasses.dataclass(frozen=True)
class Share:
    """A router's part in the namespace."""

    router_id: str
    pair: Pair
    addresses: tuple[str, ...]  # of its floating IPs here


def render_floating(gateway: RouterInterface, shares: Iterable[Share], options: L3Options) -> DesiredRouter:
    joined = sorted(shares, key=lambda each: each.router_id)
    outside = gateway_device(gateway)
    ends = [DesiredDevice(device(TO_ROUTER, each.router_id), mtu=gateway.mtu) for each in joined]
    names = (outside, *(each.name for each in ends))
    namespace = DesiredNamespace(
        name=fip_namespace(gateway.network_id),
        devices=(LOOPBACK, render_device(outside, gateway, options), *ends),
        addresses=frozenset(
            (
                *(address(outside, each.prefixed, nodad=True) for each in gateway.addresses),
                *(address(device(TO_ROUTER, each.router_id), f"{each.pair[1]}/31") for each in joined),
            )
        ),
        routes=frozenset((*_outward(gateway), *(each for share in joined for each in _inward(share)))),
        sysctls={
            **SYSCTLS,
            **{
                f"net/ipv4/conf/{name}/{what}": "0"
                for name in ("all", "default", *names)
                for what in ("rp_filter", "send_redirects")
            },
            f"net/ipv4/conf/{outside}/proxy_arp": "1",
            f"net/ipv4/neigh/{outside}/proxy_delay": "0",  # nobody else answers for these: there is nobody to let go first
        },
        device_prefixes=(AGENT_GATEWAY, TO_ROUTER),
    )
    return DesiredRouter(namespace, Table(family="ip"), (render_plug(outside, gateway, options),))


def gateway_device(gateway: RouterInterface) -> str:
    return device(AGENT_GATEWAY, gateway.id)


def _inward(share: Share) -> Iterator[Route]:
    for each in share.addresses:
        yield route(f"{each}/32", device(TO_ROUTER, share.router_id), str(share.pair[0]))


def _outward(gateway: RouterInterface) -> Iterator[Route]:
    name = gateway_device(gateway)
    named = next((each for each in gateway.addresses if each.version == 4 and each.gateway_ip), None)
    if named is not None and named.gateway_ip is not None:
        outside = ipaddress.ip_address(named.gateway_ip) not in ipaddress.ip_network(named.cidr)
        yield route("0.0.0.0/0", name, named.gateway_ip, onlink=outside)
    for cidr in gateway.other_subnets:
        if ":" not in cidr:
            yield route(cidr, name)
