"""Rate limits of floating IPs and of the router's gateway addresses, as limits of elements of nft sets. Pure.

A packet from outside to a limited address: `qos_ingress`, before the destination is translated, finds it in a set, and
drops it if it is over the limit of its element. A packet to the outside: `qos_egress`, after the source is translated,
does the same by its source. Both look only at the device towards the outside, as Neutron's filters on that device do:
packets between instances of the router are not limited, also by their floating IPs.

Each element has a token bucket of its own, so all addresses with one policy have the policy's rate each. One lookup
finds the bucket of any number of addresses, and a changed limit replaces one element: connections and the buckets of
other addresses stay.

IPv4 only, as in Neutron: floating IPs are IPv4, and packets of instances leave under the gateway's address only there.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace, quoted
from neutrino.dataplane.nft.api import Chain, Hook, Set, Table, nft_set
from neutrino.dataplane.nft.elements import limit
from neutrino.feed.state import StateChange
from neutrino.model.qos import QosPolicy
from neutrino.model.routing import Router

POLICY = "qos_policy"  # the feed's kind of object
DEFAULT_BURST: Final = 0.8  # share of the rate, as in Neutron
_LEAST_BUCKET: Final = 10 * 1500  # the initial window of TCP: at low rates a connection would start with a loss
_MOST_BYTES: Final = 17_000_000_000  # 136 Gbit/s: the kernel computes the rate of a second in nanoseconds, in 64 bits
_MOST_BURST: Final = 1_000_000_000
_MOST_PACKETS: Final = 1_000_000_000
_HOOKS: Final = {
    "ingress": Hook("filter", "prerouting", -140),  # before DNAT (-100)
    "egress": Hook("filter", "postrouting", 150),  # after SNAT (100)
}
_MATCHES: Final = {"ingress": ("iifname", "ip daddr"), "egress": ("oifname", "ip saddr")}
# Elements that have no limit of their own; there are none.
_DEFAULTS: Final = {"bytes": limit(1, 1), "packets": limit(1, 1, packets=True)}


class RouterQos(L3Extension):
    name = "qos"
    kinds = frozenset({POLICY})

    def render(self, namespace: RouterNamespace) -> Contribution:
        if not namespace.outside:
            return Contribution()
        policies, addresses = namespace.objects.get(POLICY, {}), dict(_limited(namespace.router))
        limited = {ip: policies[key] for ip, key in addresses.items() if key in policies}
        if not limited:
            return Contribution()
        sets = [_set(direction, unit, limited) for direction in _HOOKS for unit in _DEFAULTS]
        used = {each.name: each for each in sets if each.elements}
        chains = (_chain(direction, quoted(namespace.outsides), used) for direction in _HOOKS)
        table = Table(tuple(chain for chain in chains if chain.rules), tuple(used.values()), family="ip")
        return Contribution(tables=(table,) if used else ())

    def routers_affected(self, change: StateChange, routers: Iterable[Router]) -> Iterator[str]:
        return (router.id for router in routers if change.id in dict(_limited(router)).values())


def _limited(router: Router) -> Iterator[tuple[str, str]]:
    """The addresses of a router that have a policy, with its id."""
    for address in router.gateway.addresses if router.gateway is not None else ():
        if address.version == 4 and router.gateway_qos_policy_id:
            yield address.ip_address, router.gateway_qos_policy_id
    for floating in router.floating_ips:
        if floating.qos_policy_id:
            yield floating.floating_ip_address, floating.qos_policy_id
    for forwarding in router.port_forwardings:
        if forwarding.qos_policy_id:
            yield forwarding.external_ip_address, forwarding.qos_policy_id


def _chain(direction: str, outside: str, used: dict[str, Set]) -> Chain:
    device, address = _MATCHES[direction]
    names = (_name(direction, unit) for unit in _DEFAULTS)
    rules = tuple(f"{device} {outside} {address} @{name} drop" for name in names if name in used)
    return Chain(f"qos_{direction}", rules, _HOOKS[direction])


def _set(direction: str, unit: str, limited: dict[str, QosPolicy]) -> Set:
    limits = ((ip, _limit(policy, direction, unit)) for ip, policy in limited.items())
    elements = (f"{ip} {text}" for ip, text in limits if text)
    return nft_set(_name(direction, unit), "ipv4_addr", elements, limit=_DEFAULTS[unit])


def _name(direction: str, unit: str) -> str:
    return f"qos_{direction}_{unit}"


def _limit(policy: QosPolicy, direction: str, unit: str) -> str:
    """The limit of a policy in one direction; empty if it has none. A rate of 0 is none, as in Neutron."""
    if unit == "packets":
        for packet_rate_limit in policy.packet_rate_limits:
            if packet_rate_limit.direction == direction and packet_rate_limit.max_kpps:
                return _packets(packet_rate_limit.max_kpps, packet_rate_limit.max_burst_kpps)
        return ""
    for rule in policy.bandwidth_limits:
        if rule.direction == direction and rule.max_kbps:
            return _bytes(rule.max_kbps, rule.max_burst_kbps)
    return ""


def _bytes(kbit: int, burst_kbit: int) -> str:
    rate = min(kbit * 125, _MOST_BYTES)
    bucket = max(round((burst_kbit or kbit * DEFAULT_BURST) * 125), _LEAST_BUCKET)
    # The kernel's bucket holds a second of the rate and the burst more: a shorter burst cannot be had.
    return limit(rate, min(max(bucket - rate, 1), _MOST_BURST))


def _packets(thousands: int, burst_thousands: int) -> str:
    rate = min(thousands * 1000, _MOST_PACKETS)
    burst = round((burst_thousands or thousands * DEFAULT_BURST) * 1000)
    return limit(rate, min(burst, _MOST_PACKETS), packets=True)
