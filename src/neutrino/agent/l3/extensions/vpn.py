"""Packets of VPN connections in a router: neither translated nor sent in clear. Pure.

A packet from an instance to a subnet of a peer: the router forwards it into the tunnel. Where the kernel encrypts
(XFRM), that is by the gateway's device, and `postrouting_snat` would give it the gateway's address: it is accepted there
before. Where charon encrypts (`[vpn] ipsec = userspace`), it leaves by charon's TUN device `ipsec0`.

While there is no tunnel, because the peer is down or the connection is disabled, the packet would leave by the gateway in
clear: `vpn_forward` drops it. In the same way a packet from outside that pretends to be of a peer's subnet is dropped,
unless it has come by a tunnel.

In `qrouter-…` of a distributed router the same is true of `rfp-…`. Tunnels end in `snat-…`, so packets to peers are routed
there before the rules of floating IPs send them out by this host.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from neutrino.agent.l3.extension_api import SNAT, Contribution, L3Extension, RouterNamespace, quoted
from neutrino.agent.l3.extensions.distributed import FLOATING_PRIORITY, by_snat, snat_table
from neutrino.agent.l3.services.charon.render import CHARON_MARK, CHARON_TABLE
from neutrino.dataplane.netlink.values import Rule, rule
from neutrino.dataplane.nft.api import Chain, Hook, Table
from neutrino.model.vpn import VpnConnection

_FORWARD: Final = Hook("filter", "forward", -5)  # before the other filters


class Vpn(L3Extension):
    name = "vpn"

    def render(self, namespace: RouterNamespace) -> Contribution:
        tunnels = [connection for service in namespace.router.vpn_services for connection in service.connections]
        if not tunnels or not namespace.outsides:
            return Contribution()
        exempt = SNAT.chain(_exempt(tunnels))
        drops = Chain("vpn_forward", tuple(_drops(namespace, tunnels)), _FORWARD)
        return Contribution(
            tables=(Table((exempt,), family="ip"), Table((drops,))),
            rules=tuple(_to_snat(namespace, tunnels)),
            others_tables=(CHARON_TABLE,),
        )


def _to_snat(namespace: RouterNamespace, tunnels: Iterable[VpnConnection]) -> Iterator[Rule]:
    """Yield rules of `qrouter-…` of a distributed router.

    To peers by the namespace that ends tunnels, whatever the floating IPs.
    """
    if not namespace.whole.distributed or namespace.kind != "router":
        return
    peers: defaultdict[str, set[str]] = defaultdict(set)  # by local prefix
    for tunnel in tunnels:
        for here in tunnel.local_cidrs:
            peers[here].update(tunnel.peer_cidrs)
    local = [(ipaddress.ip_network(here, strict=False), sorted(there)) for here, there in sorted(peers.items())]
    for _, own, _ in by_snat(namespace.whole):
        subnet = ipaddress.ip_network(own.cidr)
        for prefix, there in local:
            if prefix.version != subnet.version or not prefix.overlaps(subnet):
                continue
            source = str(
                max(prefix, subnet, key=lambda found: found.prefixlen)
            )  # of two that overlap, one is in the other
            for peer in (ipaddress.ip_network(text, strict=False) for text in there):
                if peer.version == subnet.version:
                    yield rule(FLOATING_PRIORITY - 1, source=source, destination=str(peer), table=snat_table(own.cidr))


def _exempt(tunnels: Iterable[VpnConnection]) -> Iterator[str]:
    """What is not translated; IPv6 is not in any case."""
    # IKE has to come from port 500 or 4500: the gateway's rule would choose another one.
    yield f"meta mark == {CHARON_MARK:#x} accept"
    for match in sorted({match for tunnel in tunnels for match in _between(tunnel.local_cidrs, tunnel.peer_cidrs)}):
        if not match.startswith("ip6"):
            yield f"{match} accept"


def _drops(namespace: RouterNamespace, tunnels: Iterable[VpnConnection]) -> Iterator[str]:
    outside, userspace = quoted(namespace.outsides), namespace.options.vpn_userspace
    # Where the kernel encrypts, packets of tunnels pass the same devices.
    out_of_tunnel, in_no_tunnel = ("", "") if userspace else (" rt ipsec missing", " meta ipsec missing")
    for here, there in sorted({(tunnel.local_cidrs, tunnel.peer_cidrs) for tunnel in tunnels}):
        yield from (f"oifname {outside} {match}{out_of_tunnel} drop" for match in _between(here, there))
        yield from (f"iifname {outside} {match}{in_no_tunnel} drop" for match in _between(there, here))


def _between(sources: Iterable[str], destinations: Iterable[str]) -> Iterator[str]:
    """The match of each IP version that both have."""
    by_version = [_by_version(each) for each in (sources, destinations)]
    for family in ("ip", "ip6"):
        source, destination = (found.get(family) for found in by_version)
        if source and destination:
            yield f"{family} saddr {source} {family} daddr {destination}"


def _by_version(prefixes: Iterable[str]) -> dict[str, str]:
    several = (ipaddress.ip_network(prefix, strict=False) for prefix in prefixes)
    networks = sorted(several, key=lambda each: (each.version, each))
    found = {}
    for version, same in groupby(networks, key=lambda each: each.version):
        # nft refuses a set whose prefixes overlap.
        texts = [str(prefix) for prefix in ipaddress.collapse_addresses(same)]  # type: ignore[type-var]
        found["ip" if version == 4 else "ip6"] = texts[0] if len(texts) == 1 else f"{{ {', '.join(texts)} }}"
    return found
