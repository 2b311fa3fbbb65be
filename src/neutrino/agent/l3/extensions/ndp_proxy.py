"""NDP proxy: instances that are reachable from outside by their own IPv6 addresses. Pure.

A router outside asks on the external network for the MAC of an instance's address. The gateway device `qg-…` answers
for it (`proxy_ndp`, and a proxy neighbour for each address), so packets to it come to this router, which forwards them
untranslated. Of the subnets in the external network's address scope only these addresses pass from outside: without a
proxy, an instance is unreachable whatever the routers outside know, as in Neutron also for replies.

With HA only the active host answers: the router's MAC is the same on all of its hosts. Of a distributed router `snat-…`
answers, where its gateway is.
"""

from collections.abc import Iterator
from typing import Final

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.dataplane.netlink.values import proxy_neighbour
from neutrino.dataplane.nft.api import Chain, Hook, Table, nft_set
from neutrino.model.routing import RouterInterface

_FORWARD: Final = Hook("filter", "forward", 0)
_PROXIED: Final = "ndp_proxied"


class NdpProxies(L3Extension):
    name = "NDP proxy"

    def render(self, namespace: RouterNamespace) -> Contribution:
        gateway, router = namespace.gateway, namespace.router
        if gateway is None or not router.enable_ndp_proxy:
            return Contribution()
        name = device(EXTERNAL, gateway.id)
        addresses = [ndp_proxy.ip_address for ndp_proxy in router.ndp_proxies]
        return Contribution(
            tables=tuple(_tables(namespace, gateway, name, addresses)),
            sysctls={
                f"net/ipv6/conf/{name}/proxy_ndp": "1",
                # The kernel delays proxied replies to let the owner answer first: here there is none.
                f"net/ipv6/neigh/{name}/proxy_delay": "0",
            },
            proxies=tuple(proxy_neighbour(name, address) for address in addresses),
        )


def _tables(namespace: RouterNamespace, gateway: RouterInterface, name: str, addresses: list[str]) -> Iterator[Table]:
    subnets = ", ".join(sorted({each for port in namespace.inside.values() for each in _in_scope(port, gateway)}))
    if not subnets:
        return
    # A chain of its own: an `accept` of another part must not let a packet pass this one.
    rule = f'iifname "{name}" ip6 daddr {{ {subnets} }} ip6 daddr != @{_PROXIED} drop'
    proxied = nft_set(_PROXIED, "ipv6_addr", addresses)
    yield Table((Chain("forward_ndp", (rule,), _FORWARD),), (proxied,), family="ip6")


def _in_scope(port: RouterInterface, gateway: RouterInterface) -> Iterator[str]:
    """The IPv6 subnets of a port in the external network's address scope; others are not routed to the outside."""
    scope = next((address.address_scope_id for address in gateway.addresses if address.version == 6), None)
    for address in port.addresses:
        if address.version == 6 and address.address_scope_id == scope:
            yield address.cidr
