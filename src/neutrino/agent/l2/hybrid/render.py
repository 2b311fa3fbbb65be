"""The rules of hybrid ports: the desired state of iptables, ip6tables and their sets.

A hybrid port's bridge has two devices: the instance's tap, and one end of a veth pair to the integration bridge.
br_netfilter sends packets that cross the bridge through iptables, where rules match by the device that a packet came from
or leaves through. A packet out of an instance:

1. raw, PREROUTING: the port's conntrack zone. Packets that a stateless rule allows, and all of a port without stateful
   groups, are not tracked.
2. filter, FORWARD → sg-chain → o<port>: a packet that does not cross the bridge is for the host, and dropped. s<port>
   passes the port's source addresses, and requests for an address. What only DHCP servers and routers may send is
   dropped; DHCP requests and neighbour discovery pass.
3. By connection state: invalid packets are dropped; replies and errors pass, unless the connection is marked. Packets in
   the opening direction of a connection, the first one and all later ones, need a rule.
4. No rule allows it: sg-fallback marks the connection and drops. A rule does: sg-chain clears the mark, and accepts.

Into an instance it is the same with i<port>. As every packet of the opening direction needs a rule, removing a rule ends
connections in both directions, as in the native firewall. ARP, neighbour advertisements and tags are checked on the
integration bridge, as for other ports.

Names of chains, sets and devices are those that operators of OpenStack know. By them an agent without memory recognises its
own: a chain or a set by the beginning of its name, a rule in a chain of others by the mark in its comment. The mark is also
how rules are compared: iptables prints rules in another form than it takes them, so each has a checksum of its own text.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_network

from neutrino.agent.l2.desired import EffectiveRule, LocalPort
from neutrino.agent.l2.flows.firewall import NEIGHBOUR_IN, NEIGHBOUR_OUT
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.dataplane.iptables.api import AddressSet, Chains, Rule, Tables, canonical_member

_OWN_MATCH = {TCP: "tcp", UDP: "udp", SCTP: "sctp"}
_DCCP, _UDPLITE = 33, 136
ENDED = 1  # the connmark of a connection that no rule allows any more
CAPACITY = 1 << 20  # members of a set
FAMILIES = (4, 6)

_UNADDRESSED = (133, 135, 143)  # sent before an instance has an address
_DHCP_CLIENT, _DHCP_SERVER = {4: 68, 6: 546}, {4: 67, 6: 547}


PREFIX = "neutron-openvswi-"
FORWARD = f"{PREFIX}FORWARD"
INPUT = f"{PREFIX}INPUT"
PREROUTING = f"{PREFIX}PREROUTING"
GROUPS = f"{PREFIX}sg-chain"
FALLBACK = f"{PREFIX}sg-fallback"
STATE = f"{PREFIX}state"

_MARK = "neutrino:"
_SET = re.compile(r"^NIPv[46]")
_SET_LENGTH = 31
_CHAIN_ID, _DEVICE_ID = 10, 11  # characters of a port's id that fit into a name


class ConflictingPorts(Exception):
    """Two ports whose ids begin alike would share chains, and so rules."""


@dataclasses.dataclass(frozen=True)
class DesiredRules:
    """The desired state: all our chains, rules in chains of others, and sets."""

    tables: Mapping[int, Tables]  # by family
    jumps: Mapping[int, Tables]  # rules of ours in the chains of others
    sets: Mapping[str, AddressSet]


class _Chain:
    def __init__(self, name: str) -> None:
        self.name = name
        self._rules: list[Rule] = []

    def add(self, match: str, target: str) -> None:
        self._rules.append(marked_rule(self.name, match, target))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self._rules)


def render(
    ports: Sequence[LocalPort], blocked: Iterable[str], remotes: Mapping[str, frozenset[str]], zones: Mapping[str, int]
) -> DesiredRules:
    """The desired state for hybrid ports. `blocked`: ids of ports that must not talk."""
    silent = sorted(blocked)
    _check([*(port.id for port in ports), *silent])
    if not ports and not silent:
        return DesiredRules({4: {}, 6: {}}, {4: {}, 6: {}}, {})
    jumps = {
        "raw": {"PREROUTING": (marked_rule("PREROUTING", "", PREROUTING),)},
        "filter": {"FORWARD": (marked_rule("FORWARD", "", FORWARD),), "INPUT": (marked_rule("INPUT", "", INPUT),)},
    }
    tables = {
        family: {
            "raw": {PREROUTING: _render_tracking(ports, zones, family)},
            "filter": _render_filter(ports, silent, family),
        }
        for family in FAMILIES
    }
    return DesiredRules(tables, {4: jumps, 6: jumps}, render_sets(ports, remotes))


def _check(port_ids: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for port_id in port_ids:
        other = first.setdefault(ingress_chain(port_id), port_id)
        if other != port_id:
            raise ConflictingPorts(f"ports {other} and {port_id} have the same chain {ingress_chain(port_id)}")


# --- tracking ---


def _render_tracking(ports: Sequence[LocalPort], zones: Mapping[str, int], family: int) -> tuple[Rule, ...]:
    """The conntrack zone of a packet; the first matching rule decides."""
    chain = _Chain(PREROUTING)
    chain.add("-m physdev ! --physdev-is-in", "RETURN")
    for port in ports:
        devices = {"egress": tap_device(port.id), "ingress": veth_device(port.id)}
        for rule in _rules_of(port, family, stateful=False):
            match = render_match(rule)
            if match is not None and port.id in zones:
                chain.add(f"-m physdev --physdev-in {devices[rule.direction]} {match}".rstrip(), "CT --notrack")
        tracking = f"CT --zone {zones[port.id]}" if port.id in zones else "CT --notrack"
        for device in devices.values():
            chain.add(f"-m physdev --physdev-in {device}", tracking)
    return chain.rules


def is_tracked(port: LocalPort) -> bool:
    """Whether a port needs a zone: connections of unfiltered ports and of stateless groups are not tracked."""
    return port.secured and port.stateful


# --- filtering ---


def _render_filter(ports: Sequence[LocalPort], silent: Iterable[str], family: int) -> Chains:
    forward, arriving, groups = _Chain(FORWARD), _Chain(INPUT), _Chain(GROUPS)
    chains: dict[str, tuple[Rule, ...]] = {}
    for chain in (forward, arriving):
        chain.add("-m physdev ! --physdev-is-in", "RETURN")
    for port_id in silent:
        for match in (_to(port_id), _from(port_id)):
            forward.add(match, "DROP")
        arriving.add(_from(port_id), "DROP")
    for port in ports:
        if not port.secured:
            forward.add(_to(port.id), "ACCEPT")
            forward.add(f"{_from(port.id)} --physdev-is-bridged", "ACCEPT")
            continue
        for match in (_to(port.id), _from(port.id)):
            forward.add(match, GROUPS)
        arriving.add(_from(port.id), egress_chain(port.id))
        groups.add(_to(port.id), ingress_chain(port.id))
        groups.add(_from(port.id), egress_chain(port.id))
        chains |= _render_port(port, family)
    # Here the ports' chains have allowed the packet.
    groups.add(f"-m conntrack --ctdir ORIGINAL -m connmark --mark {ENDED:#x}", "CONNMARK --set-xmark 0x0/0xffffffff")
    groups.add("", "ACCEPT")
    shared = (forward, arriving, groups, _render_state(), _render_fallback())
    return {**{chain.name: chain.rules for chain in shared}, **chains}


def _to(port_id: str) -> str:
    return f"-m physdev --physdev-out {tap_device(port_id)} --physdev-is-bridged"


def _from(port_id: str) -> str:
    """From an instance, including packets to the host itself and those it would route."""
    return f"-m physdev --physdev-in {tap_device(port_id)}"


def _render_state() -> _Chain:
    """Packets of a connection that are not in its opening direction."""
    chain = _Chain(STATE)
    chain.add("-m conntrack --ctstate INVALID", "DROP")
    chain.add(f"-m connmark --mark {ENDED:#x}", "DROP")
    chain.add("", "ACCEPT")
    return chain


def _render_fallback() -> _Chain:
    """Packets that no rule allows. If they are of a connection, the rule that had allowed it is gone."""
    chain = _Chain(FALLBACK)
    chain.add("", f"CONNMARK --set-xmark {ENDED:#x}/0xffffffff")
    chain.add("", "DROP")
    return chain


def _render_port(port: LocalPort, family: int) -> Chains:
    into, out, sources = (_Chain(name(port.id)) for name in (ingress_chain, egress_chain, source_chain))
    _add_sources(sources, port, family)
    out.add("-m physdev ! --physdev-is-bridged", "DROP")
    out.add("", sources.name)
    out.add(_udp(_DHCP_SERVER[family], _DHCP_CLIENT[family]), "DROP")
    out.add(_udp(_DHCP_CLIENT[family], _DHCP_SERVER[family]), "RETURN")
    into.add(_udp(_DHCP_SERVER[family], _DHCP_CLIENT[family]), "RETURN")
    if family == 6:
        out.add(_icmp(134, family), "DROP")
        for chain, kinds in ((out, NEIGHBOUR_OUT), (into, NEIGHBOUR_IN)):
            for kind in kinds:
                chain.add(_icmp(kind, family), "RETURN")
    for chain, direction in ((out, "egress"), (into, "ingress")):
        _add_rules(chain, port, family, direction)
    return {chain.name: chain.rules for chain in (into, out, sources)}


def _add_sources(chain: _Chain, port: LocalPort, family: int) -> None:
    for mac, prefix in sorted(port.sources):
        if ip_network(prefix).version == family:
            chain.add(f"-s {prefix} -m mac --mac-source {mac}", "RETURN")
    for mac in sorted(port.macs):
        if family == 4:
            asking = [f"-s 0.0.0.0/32 {_udp(_DHCP_CLIENT[4], _DHCP_SERVER[4])}"]
        else:
            asking = [f"-s ::/128 {_icmp(kind, 6)}" for kind in _UNADDRESSED]
        for match in asking:
            chain.add(f"{match} -m mac --mac-source {mac}", "RETURN")
    chain.add("", "DROP")


def _add_rules(chain: _Chain, port: LocalPort, family: int, direction: str) -> None:
    def allow(*, stateful: bool) -> None:
        for rule in _rules_of(port, family, stateful=stateful):
            match = render_match(rule) if rule.direction == direction else None
            if match is not None:
                chain.add(match, "RETURN")

    allow(stateful=False)
    if is_tracked(port):
        chain.add("-m conntrack --ctstate INVALID,RELATED", STATE)
        chain.add("-m conntrack --ctstate ESTABLISHED --ctdir REPLY", STATE)
        allow(stateful=True)
    chain.add("", FALLBACK)


def _rules_of(port: LocalPort, family: int, *, stateful: bool) -> list[EffectiveRule]:
    chosen = (rule for rule in port.rules if rule.family == family and rule.stateful == stateful)
    return sorted(chosen, key=repr)


# --- sets ---


def render_sets(ports: Iterable[LocalPort], remotes: Mapping[str, frozenset[str]]) -> dict[str, AddressSet]:
    """The sets of remote groups, each once for all ports and rules."""
    uses = {(rule.remote, rule.family) for port in ports if port.secured for rule in port.rules if rule.remote}
    sets = {}
    for remote, family in sorted(uses):
        name = set_name(remote, family)
        members = {part for address in remotes.get(remote, ()) for part in _members(address, family)}
        sets[name] = AddressSet(name, family, frozenset(members), capacity=CAPACITY)
    return sets


@lru_cache(maxsize=65536)
def _members(address: str, family: int) -> tuple[str, ...]:
    """An address as members of a set, which takes no prefix of length 0: its two halves instead."""
    network = ip_network(address, strict=False)
    if network.version != family:
        return ()
    parts = [network] if network.prefixlen else network.subnets()
    return tuple(canonical_member(str(part)) for part in parts)


# --- matches ---


def _icmp(kind: int, family: int, code: int | None = None) -> str:
    number = f"{kind}" if code is None else f"{kind}/{code}"
    if family == 4:
        return f"-p {ICMP} -m icmp --icmp-type {number}"
    return f"-p {ICMPV6} -m icmp6 --icmpv6-type {number}"


def _udp(source: int, destination: int) -> str:
    return f"-p {UDP} -m udp --sport {source} --dport {destination}"


def render_match(rule: EffectiveRule) -> str | None:
    """The match of a rule, without its port; None if iptables cannot match what the rule asks for.

    Such a rule allows nothing, rather than too much.
    """
    remote = _render_remote(rule)
    kind = _render_kind(rule)
    if remote is None or kind is None:
        return None
    return " ".join(filter(None, [remote, kind]))


def _render_remote(rule: EffectiveRule) -> str | None:
    side = ("-s", "src") if rule.direction == "ingress" else ("-d", "dst")
    if rule.remote is not None:
        return f"-m set --match-set {set_name(rule.remote, rule.family)} {side[1]}"
    if rule.prefix is None:
        return ""
    return f"{side[0]} {rule.prefix}" if ip_network(rule.prefix).version == rule.family else None


def _render_kind(rule: EffectiveRule) -> str | None:
    protocol = rule.ip_protocol
    if protocol is None:
        return ""
    if protocol == 0:
        return None  # iptables would match every protocol
    if protocol in (ICMP, ICMPV6) and rule.port_min is not None:
        matched = ICMP if rule.family == 4 else ICMPV6
        return _icmp(rule.port_min, rule.family, rule.port_max) if protocol == matched else None
    if rule.port_min is None or rule.port_max is None or protocol in (ICMP, ICMPV6):
        return f"-p {protocol}"
    ports = f"{rule.port_min}:{rule.port_max}" if rule.port_min != rule.port_max else f"{rule.port_min}"
    if protocol in _OWN_MATCH:
        return f"-p {protocol} -m {_OWN_MATCH[protocol]} --dport {ports}"
    if protocol in (_DCCP, _UDPLITE):
        return f"-p {protocol} -m multiport --dports {ports}"
    return None


# --- names and marks ---


def ingress_chain(port_id: str) -> str:
    """The chain of packets into a port."""
    return f"{PREFIX}i{port_id[:_CHAIN_ID]}"


def egress_chain(port_id: str) -> str:
    return f"{PREFIX}o{port_id[:_CHAIN_ID]}"


def source_chain(port_id: str) -> str:
    """The chain of a port's source addresses."""
    return f"{PREFIX}s{port_id[:_CHAIN_ID]}"


def tap_device(port_id: str) -> str:
    """The device on the instance's side of the bridge."""
    return f"tap{port_id[:_DEVICE_ID]}"


def veth_device(port_id: str) -> str:
    """The device on the network's side of the bridge."""
    return f"qvb{port_id[:_DEVICE_ID]}"


def set_name(remote: str, family: int) -> str:
    """The set of a remote's members; a remote is `group:<id>` or `addresses:<id>`."""
    return f"NIPv{family}{remote.partition(':')[2]}"[:_SET_LENGTH]


def temporary_set(name: str) -> str:
    """The name of a set that is filled and then swapped with another."""
    return f"NIPv{name[4:5]}new-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def is_our_chain(name: str) -> bool:
    return name.startswith(PREFIX)


def is_our_set(name: str) -> bool:
    return _SET.match(name) is not None


@lru_cache(maxsize=65536)
def marked_rule(chain: str, match: str, target: str) -> Rule:
    """A rule with our mark, the checksum of its text."""
    checksum = hashlib.blake2b(f"{chain} {match} {target}".encode(), digest_size=6).hexdigest()
    return Rule(" ".join(filter(None, [match, f"-m comment --comment {_MARK}{checksum}", f"-j {target}"])))


def mark_of(rule: Rule) -> str:
    """The checksum in a rule's comment; empty if the rule is not ours."""
    return rule.comment.removeprefix(_MARK) if rule.comment.startswith(_MARK) else ""
