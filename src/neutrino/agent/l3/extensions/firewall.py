"""Firewall groups (FWaaS v2) on router ports: an nft table of its own in each namespace of the router. Pure.

A port's `egress` policy filters packets that enter the router by the port's device, its `ingress` policy those that
leave by it. A packet between two such ports passes both. Rules match in the forward hook, so they see addresses after
DNAT and before SNAT: those of the instances, never floating IPs. What the router itself sends and receives (DHCP,
metadata, a ping of the gateway address) is not filtered. A packet that is forwarded:

    firewall_groups    by no port with a group, on either side: passes. Not of a connection (invalid): dropped
       │               of a connection that these very rules have let pass: passes, whatever its direction
       ├─ reply ─────▶ firewall_replies: would the rules let the packets pass that it replies to? Else dropped
       └─ other ─────▶ firewall_opening: egress policy of the port where it enters, ingress policy of where it leaves

"These very rules": the connection's mark is `generation`, a checksum of policies, ports and routes in the namespace, set by
the last rule that a packet passes. After a change it differs, so the next packet of every connection is filtered again,
by the new rules, in whichever direction it goes. A connection that they forbid ends there, and one that they allow goes
on without a loss. That needs no flush of conntrack entries, no record of former rules, and holds after a restart and
on standby hosts. An established connection costs one comparison for each packet, however many rules there are.

Replies are matched by the same rules with source and destination exchanged (chains `…_reply_…`). They do not drop, but
set a bit of the packet's mark, so that a packet can be tried as a reply first, and as an opening one after that
(`firewall_either`). This is for packets whose connection the namespace has not seen from its start:

* TCP segments, except the opening one, on a host that has taken over an HA router: without it, a connection on which
  only the answering side has something to send would wait for the other for ever. Such a connection has a bit in its
  mark, as conntrack takes its direction for the opposite of what it is;
* TCP segments, except the opening one, between two subnets of a distributed router, after a live migration of the sender.

Between subnets of a distributed router, each host routes what its own instances send, so conntrack sees one direction,
unless both ends are on this host. The switch, which always sees both, says by the source MAC that a packet is a reply
(`agent/reply_mac.py`). Other packets pass by a rule alone. All are filtered one by one, without marks:

    firewall_groups ─ reply, error about a connection ─▶ firewall_answering ─▶ firewall_either
       between       ─ TCP ────────────────────────────▶ firewall_either
       subnets       └ other ──────────────────────────▶ firewall_opening
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Final

from neutrino.agent.l3.extension_api import Contribution, L3Extension, Objects, RouterNamespace
from neutrino.agent.l3.firewall_log import GROUP, Logging, logging_of
from neutrino.agent.reply_mac import REPLY_MAC
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.nft.api import Chain, Hook, Table
from neutrino.feed.state import StateChange
from neutrino.model.firewall import FirewallGroup, FirewallRule
from neutrino.model.routing import Router

# After address scopes (0): what they drop is not rejected by a rule here.
HOOK = Hook("filter", "forward", 10)
BASE, SPOOFED, ANSWERING, EITHER, REPLYING, REPLIES, OPENING = (
    "firewall_groups",
    "firewall_spoofed",
    "firewall_answering",
    "firewall_either",
    "firewall_replying",
    "firewall_replies",
    "firewall_opening",
)
ENDED, INVALID = "firewall_ended", "firewall_invalid"  # counters, beside those of each group and direction
_NO_REPLY: Final = 0x20000  # bit of the packet's mark: the rules do not allow it as a reply
_REVERSED: Final = (
    0x1  # bit of a connection's mark: conntrack has seen a reply first, so it opened in the other direction
)
_OPENS = "tcp flags & (syn | ack) == syn"
_ERRORS = (
    "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
    "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
)
NO_LOGGING: Final = Logging()
_WITH_PORTS: Final = frozenset({6, 17, 33, 132, 136})  # TCP, UDP, DCCP, SCTP, UDP-Lite
Network = IPv4Network | IPv6Network
Groups = Mapping[str, FirewallGroup]
"""The firewall group of each device that has one."""


class FirewallGroups(L3Extension):
    name = "firewall groups"
    kinds = frozenset({GROUP})

    def render(self, namespace: RouterNamespace) -> Contribution:
        groups = _groups(namespace)
        return Contribution(tables=(_table(namespace, groups),)) if groups else Contribution()

    def routers_affected(self, change: StateChange, routers: Iterable[Router]) -> Iterator[str]:
        return (router.id for router in routers if change.id in _group_ids(router))

    def statuses(self, router: Router, objects: Objects) -> Iterator[ObjectStatus]:
        known = objects.get(GROUP, {})
        for group_id in sorted(_group_ids(router) & known.keys()):
            yield ObjectStatus(GROUP, group_id, "ACTIVE", known[group_id].revision)


def _group_ids(router: Router) -> frozenset[str]:
    ports = (*router.interfaces, *router.snat_interfaces)
    return frozenset(port.firewall_group_id for port in ports if port.firewall_group_id)


def _groups(namespace: RouterNamespace) -> dict[str, FirewallGroup]:
    """The group of each filtered device. SNAT ports come with the group of the router's interface on their subnet."""
    known = namespace.objects.get(GROUP, {})
    ids = {name: port.firewall_group_id for name, port in namespace.inside.items() if port.firewall_group_id}
    # A group that this host does not have (an invalid object, a lost one) drops everything, as one that is down does.
    return {
        name: known.get(group_id) or FirewallGroup(id=group_id, admin_state_up=False)
        for name, group_id in sorted(ids.items())
    }


# --- chains -----------------------------------------------------------------------------------------------------------


def _table(namespace: RouterNamespace, groups: Groups) -> Table:
    """Render a table of the family `inet`: a change of floating IPs replaces neither rules nor counters of the firewall."""
    distinct = {each.id: each for each in groups.values()}.values()
    logging = logging_of(namespace)
    policies = [chain for group in distinct for chain in _policies(group)]
    into = {way: f"iifname vmap {_verdicts(groups, way)}" for way in ("egress", "ingress_reply")}
    out_of = {way: f"oifname vmap {_verdicts(groups, way)}" for way in ("ingress", "egress_reply")}
    # Of everything that decides, so not of logs, but of routes: by them a connection may come to leave by another port. The
    # same on all hosts of the router, and after a restart.
    decided = "\0".join((*map(Chain.text, policies), *into.values(), *out_of.values(), *_routed(namespace)))
    generation = zlib.crc32(decided.encode()) & ~_REVERSED or 2  # never 0, which is no mark
    remember = f"ct mark set ct mark & {_REVERSED:#x} | {generation:#x}"
    no_reply, clear = f"meta mark & {_NO_REPLY:#x} != 0", f"meta mark set meta mark & {~_NO_REPLY & 0xFFFFFFFF:#x}"
    chains = (
        *logging.chains(),
        *(chain for group in distinct for chain in _policies(group, logging)),
        Chain(REPLIES, (into["ingress_reply"], out_of["egress_reply"])),
        Chain(OPENING, (clear, into["egress"], out_of["ingress"], *logging.accepting(), remember)),
        Chain(REPLYING, (f"jump {REPLIES}", *_dropped(no_reply, ENDED, logging), remember)),
        Chain(
            EITHER,
            (
                f"{_OPENS} goto {OPENING}",
                f"jump {REPLIES}",
                f"{no_reply} ct mark set 0 goto {OPENING}",
                f"ct mark set {generation | _REVERSED:#x}",
            ),
        ),
        *_spoofed(namespace, logging),
        *_answering(namespace, groups),
        Chain(BASE, tuple(_dispatch(namespace, groups, generation, logging)), HOOK),
    )
    names = (ENDED, INVALID, *(_name(way, each) for each in distinct for way in ("ingress", "egress")))
    # Counters are read by operators; they are no part of what is compared with the kernel.
    counters = tuple(f"counter {name} {{\n}}" for name in names)
    return Table(chains, declarations=(*counters, *logging.declarations()))


def _routed(namespace: RouterNamespace) -> Iterator[str]:
    yield from (f"{name} {address.cidr}" for name, port in namespace.ports.items() for address in port.addresses)
    yield from (f"{route.destination} {route.nexthop}" for route in namespace.router.routes)


def _dispatch(namespace: RouterNamespace, groups: Groups, generation: int, logging: Logging) -> Iterator[str]:
    filtered, inside = _quoted(groups), _quoted(namespace.inside)
    if any(_spoofed(namespace, logging)):
        # Of a router that is distributed, most packets are new to conntrack.
        state = "" if _is_split(namespace) else "ct state new "
        yield f"iifname {inside} oifname {inside} {state}jump {SPOOFED}"
    yield f"iifname != {filtered} oifname != {filtered} accept"
    if _is_split(namespace):
        # On its way to `snat-…`, which filters it. The reply does not come back through this namespace.
        same = ", ".join(f'"{group}" . "{group}"' for group in groups)
        yield f"iifname . oifname {{ {same} }} accept"
        between = f"iifname {inside} oifname {inside}"
        yield f"{between} ether saddr {REPLY_MAC} goto {ANSWERING}"
        yield f"{between} meta l4proto tcp goto {EITHER}"
        yield f"{between} goto {OPENING}"
    yield from _dropped("ct state invalid", INVALID, logging)
    yield f"ct state established,related ct mark & {0xFFFFFFFF ^ _REVERSED:#x} == {generation:#x} accept"
    if namespace.router.ha is not None:
        yield f"ct state new meta l4proto tcp goto {EITHER}"
        yield f"ct mark & {_REVERSED:#x} != 0 ct direction original goto {REPLYING}"
        yield f"ct mark & {_REVERSED:#x} != 0 goto {OPENING}"
    yield f"ct direction reply goto {REPLYING}"
    yield f"goto {OPENING}"


def _is_split(namespace: RouterNamespace) -> bool:
    """Whether the two directions of a connection between subnets may pass two hosts."""
    return namespace.whole.distributed and namespace.kind == "router"


def _spoofed(namespace: RouterNamespace, logging: Logging) -> Iterator[Chain]:
    """Drops what comes from one subnet with an address of another.

    It would open a connection of that other subnet, by which the sender's own packets to it would pass as replies. Port
    security keeps instances from it, and not the ports without it.
    """
    devices: defaultdict[str, list[str]] = defaultdict(list)
    prefixes: defaultdict[str, list[Network]] = defaultdict(list)
    for name, port in namespace.inside.items():
        devices[port.network_id].append(name)
        prefixes[port.network_id] += [ip_network(address.cidr) for address in port.addresses]
    on_link = [(network, prefix) for network, several in prefixes.items() for prefix in several]
    for route in namespace.router.routes:
        behind = ip_network(route.destination)
        hop = ip_network(route.nexthop)
        for network in {network for network, prefix in on_link if _overlap(prefix, hop)}:
            # Such as a default route: it covers the addresses of other networks, which these may use.
            if not any(other != network and _overlap(prefix, behind) for other, prefix in on_link):
                prefixes[network].append(behind)
    matches = [
        f"iifname != {_quoted(devices[network])} {family} saddr {{ {', '.join(found)} }}"
        for network in sorted(devices)
        for version, family in ((4, "ip"), (6, "ip6"))
        if (found := _collapsed(prefixes[network], version))
    ]
    rules = [rule for match in matches for rule in _dropped(match, INVALID, logging)]
    if len(devices) > 1:
        yield Chain(SPOOFED, tuple(rules))


def _dropped(match: str, counter: str, logging: Logging) -> Iterator[str]:
    """Rules that drop packets whatever the policies are, logged on both sides."""
    yield from logging.dropping(match, "egress", "ingress")
    yield f"{match} counter name {counter} drop"


def _collapsed(prefixes: Iterable[Network], version: int) -> list[str]:
    """Return prefixes as nft takes them in a set: without overlaps."""
    same = [prefix for prefix in prefixes if prefix.version == version]
    return [str(prefix) for prefix in collapse_addresses(same)]  # type: ignore[type-var]


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _answering(namespace: RouterNamespace, groups: Groups) -> Iterator[Chain]:
    """Replies between subnets of a distributed router. Errors match no rule of the connection that they are about."""
    if _is_split(namespace):
        up = [name for name in namespace.inside if name not in groups or groups[name].admin_state_up]
        errors = (f"iifname {_quoted(up)} oifname {_quoted(up)} {error} accept" for error in _ERRORS if up)
        yield Chain(ANSWERING, (*errors, f"goto {EITHER}"))


def _verdicts(groups: Groups, way: str) -> str:
    several = (f'"{device}" : jump {_name(way, group)}' for device, group in groups.items())
    return f"{{ {', '.join(several)} }}"


def _quoted(devices: Iterable[str]) -> str:
    several = (f'"{device}"' for device in sorted(devices))
    return f"{{ {', '.join(several)} }}"


def _name(way: str, group: FirewallGroup) -> str:
    """Name a chain or counter: with the group's id, by which operators find it; ids of another form get a checksum."""
    plain = group.id if re.fullmatch(r"[\w-]{1,64}", group.id, re.ASCII) else f"{zlib.crc32(group.id.encode()):08x}"
    return f"firewall_{way}_{plain}"


def _policies(group: FirewallGroup, logging: Logging = NO_LOGGING) -> Iterator[Chain]:
    """Chains of both directions, each for packets and for replies. To return is to pass."""
    logged = logging if group.id in logging.dropping_groups else NO_LOGGING
    for way, rules in (("ingress", group.ingress), ("egress", group.egress)):
        several = rules if group.admin_state_up else ()
        counted = f"counter name {_name(way, group)}"
        lines = [line for rule in several for line in _lines(rule, way, counted, logged)]
        yield Chain(_name(way, group), (*lines, *logged.dropping("", way), f"{counted} drop"))
        refused = f"meta mark set meta mark | {_NO_REPLY:#x}"
        replies = (
            f"{match} {'return' if rule.action == 'allow' else f'{refused} return'}"
            for rule in several
            for match in _matches(rule, reply=True)
        )
        yield Chain(_name(f"{way}_reply", group), (*replies, refused))


# --- rules ------------------------------------------------------------------------------------------------------------


def _lines(rule: FirewallRule, way: str, counted: str, logging: Logging) -> Iterator[str]:
    for match in _matches(rule):
        if rule.action != "allow":
            yield from logging.dropping(match, way)
        if rule.action == "allow":
            yield f"{match} return"
        elif rule.action == "deny":
            yield f"{match} {counted} drop"
        else:
            if rule.protocol in (None, 6):
                yield f"{match} meta l4proto tcp {counted} reject with tcp reset"
            if rule.protocol != 6:
                yield f"{match} {counted} reject with icmpx port-unreachable"


def _matches(rule: FirewallRule, *, reply: bool = False) -> Iterator[str]:
    """Yield at most one match; none if no packet can match. Of a reply, source and destination are exchanged."""
    family = "ip" if rule.ip_version == 4 else "ip6"
    prefixes = {"saddr": rule.source_ip_address, "daddr": rule.destination_ip_address}
    ports = {
        "sport": (rule.source_port_first, rule.source_port_last),
        "dport": (rule.destination_port_first, rule.destination_port_last),
    }
    words = [f"meta nfproto ipv{rule.ip_version}"]
    for name, other in (("saddr", "daddr"), ("daddr", "saddr")):
        if prefix := prefixes[other if reply else name]:
            network = ip_network(prefix, strict=False)
            if network.version != rule.ip_version:
                return
            words += [f"{family} {name} {network}"] if network.prefixlen else []
    protocol = rule.ip_protocol
    words += [f"meta l4proto {protocol}"] if protocol is not None else []
    for name, other in (("sport", "dport"), ("dport", "sport")):
        first, last = ports[other if reply else name]
        if first is not None or last is not None:
            if protocol not in _WITH_PORTS:
                return
            low = first or 0
            high = low if last is None else last
            if high < low:
                return
            words.append(f"th {name} {low}" if low == high else f"th {name} {low}-{high}")
    yield " ".join(words)
