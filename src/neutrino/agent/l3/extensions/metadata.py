"""Metadata requests of instances behind a router, redirected to the metadata process in its namespace.

169.254.169.254 is routed to the router like any other address. fe80::a9fe:a9fe is link-local: instances resolve it on
their link, so every internal device with IPv6 carries it. Requests whose source is of the device's subnets (or
link-local) are marked and redirected to the process's port; all others to the metadata address are dropped, and so is
everything unmarked to that port: an instance must not reach it under the address of another network.
"""

from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from neutrino.agent.l3.extension_api import DNAT, INPUT, MARK, Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import INTERNAL, device
from neutrino.dataplane.netlink.values import address
from neutrino.dataplane.nft.api import Table
from neutrino.model.routing import Router

_ADDRESSES = {"ip": "169.254.169.254", "ip6": "fe80::a9fe:a9fe"}
_MARKED = "meta mark & 0xffff == 0x1"
_UNMARKED = "meta mark & 0xffff != 0x1"


class Metadata(L3Extension):
    name = "metadata"

    def render(self, namespace: RouterNamespace) -> Contribution:
        port = namespace.options.metadata_port
        # Instances ask on their own subnet, so `snat-…` of a distributed router never sees a request.
        if not port or namespace.kind != "router":
            return Contribution()
        with_ipv6 = [name for name, each in namespace.inside.items() if any(a.version == 6 for a in each.addresses)]
        return Contribution(
            addresses=tuple(address(name, f"{_ADDRESSES['ip6']}/64", nodad=True) for name in with_ipv6),
            tables=tuple(_table(namespace.router, family, port) for family in ("ip", *(("ip6",) if with_ipv6 else ()))),
        )


def _table(router: Router, family: str, port: int) -> Table:
    # The mark lets a request pass from prerouting, which knows its device, to nat and input.
    request = f"{family} daddr {_ADDRESSES[family]} tcp dport 80"
    link_local = [f'iifname "{INTERNAL}*" ip6 saddr fe80::/10 {request} meta mark set 0x1'] if family == "ip6" else []
    allowed = (
        f'iifname "{name}" {family} saddr {cidrs} {request} meta mark set 0x1'
        for name, cidrs in _sources(router, 4 if family == "ip" else 6)
    )
    return Table(
        family=family,
        chains=(
            MARK.chain((*link_local, *allowed, f'iifname "{INTERNAL}*" {request} {_UNMARKED} drop')),
            DNAT.chain((f"{_MARKED} {request} redirect to :{port}",)),
            INPUT.chain((f"{_MARKED} accept", f"tcp dport {port} drop")),
        ),
    )


def _sources(router: Router, version: int) -> Iterator[tuple[str, str]]:
    """Each internal device with the subnets of its network, as an nft set.

    Any other source is forged or routed there, and could be an address of another network of the router.
    """
    # Of two ports on one network each gets the sources of both subnets: they share a link.
    cidrs: defaultdict[str, set[IPv4Network | IPv6Network]] = defaultdict(set)
    for interface in router.interfaces:
        cidrs[interface.network_id] |= {
            ip_network(each.cidr) for each in interface.addresses if each.version == version
        }
    for interface in router.interfaces:
        if known := sorted(map(str, cidrs[interface.network_id])):
            yield device(INTERNAL, interface.id), f"{{ {', '.join(known)} }}"
