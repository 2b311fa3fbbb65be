"""The firewall of hybrid ports: what should be in the tables of iptables and ip6tables, and which sets they need.

A hybrid port's bridge has two devices: the instance's tap, and one end of a pair that leads to the integration bridge.
br_netfilter sends what crosses the bridge through iptables, where a packet is known by the device that it came from or goes
to. A packet out of an instance:

1. raw, PREROUTING: the port's conntrack zone. What a stateless rule allows, and everything of a port without stateful
   groups, is not tracked.
2. filter, FORWARD → sg-chain → o<port>: a packet that is not on its way across the bridge is dropped, as it is meant for
   the host. s<port> lets pass the addresses that the port has, and a machine that asks for one. No instance plays DHCP
   server or router; DHCP requests and neighbour discovery pass.
3. By its connection: what belongs to none that could be is dropped; replies and errors pass, unless the connection is
   marked. Packets in the direction in which a connection was opened, the first one and all later ones, ask the rules.
4. No rule allows it: sg-fallback marks the connection and drops. A rule does: sg-chain takes a mark away, and accepts.

Into an instance it is the same with i<port>. So rules are asked for every packet of the opening direction, and a rule's
removal ends connections in both, as in the native firewall. ARP, neighbour advertisements and tags are checked on the
integration bridge, for these ports like for others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_network

from neutrino.agent.l2.desired import EffectiveRule, LocalPort
from neutrino.agent.l2.hybrid import matches, names
from neutrino.dataplane.iptables.api import AddressSet, Chains, Rule, Tables, canonical_member

ENDED = 1  # the mark of a connection that no rule allows any more
CAPACITY = 1 << 20  # members of a set
FAMILIES = (4, 6)

# As in the native firewall: listener reports, solicitations and advertisements; and what routers send.
_NEIGHBOUR_OUT = (131, 132, 133, 135, 136, 143)
_NEIGHBOUR_IN = (130, 131, 132, 134, 135, 136, 143)
_UNADDRESSED = (133, 135, 143)  # what a machine sends before it has an address
_DHCP_CLIENT, _DHCP_SERVER = {4: 68, 6: 546}, {4: 67, 6: 547}


class ConflictingPorts(Exception):
    """Two ports whose ids begin alike would share chains, and each other's rules."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What should be there, and nothing else of ours."""

    tables: Mapping[int, Tables]  # by family
    jumps: Mapping[int, Tables]  # rules of ours in the chains of others
    sets: Mapping[str, AddressSet]


class _Chain:
    def __init__(self, name: str) -> None:
        self.name = name
        self._rules: list[Rule] = []

    def add(self, match: str, target: str) -> None:
        self._rules.append(names.marked(self.name, match, target))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self._rules)


def render(
    ports: Sequence[LocalPort],
    blocked: Iterable[str],
    remotes: Mapping[str, frozenset[str]],
    zones: Mapping[str, int],
) -> Wanted:
    """The firewall of hybrid ports. `blocked` are ports that must not talk, by id."""
    silent = sorted(blocked)
    _check([*(port.id for port in ports), *silent])
    if not ports and not silent:
        return Wanted({4: {}, 6: {}}, {4: {}, 6: {}}, {})
    jumps = {
        "raw": {"PREROUTING": (names.marked("PREROUTING", "", names.PREROUTING),)},
        "filter": {
            "FORWARD": (names.marked("FORWARD", "", names.FORWARD),),
            "INPUT": (names.marked("INPUT", "", names.INPUT),),
        },
    }
    tables = {
        family: {
            "raw": {names.PREROUTING: _render_tracking(ports, zones, family)},
            "filter": _render_filter(ports, silent, family),
        }
        for family in FAMILIES
    }
    return Wanted(tables, {4: jumps, 6: jumps}, render_sets(ports, remotes))


def _check(port_ids: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for port_id in port_ids:
        other = first.setdefault(names.into(port_id), port_id)
        if other != port_id:
            raise ConflictingPorts(f"ports {other} and {port_id} have the same chain {names.into(port_id)}")


# --- tracking ---


def _render_tracking(ports: Sequence[LocalPort], zones: Mapping[str, int], family: int) -> tuple[Rule, ...]:
    """Which zone a packet's connection is in. The first rule that says something about it holds."""
    chain = _Chain(names.PREROUTING)
    chain.add("-m physdev ! --physdev-is-in", "RETURN")
    for port in ports:
        devices = {"egress": names.tap(port.id), "ingress": names.veth(port.id)}
        for rule in _rules_of(port, family, stateful=False):
            match = matches.render_match(rule)
            if match is not None and port.id in zones:
                chain.add(f"-m physdev --physdev-in {devices[rule.direction]} {match}".rstrip(), "CT --notrack")
        tracking = f"CT --zone {zones[port.id]}" if port.id in zones else "CT --notrack"
        for device in devices.values():
            chain.add(f"-m physdev --physdev-in {device}", tracking)
    return chain.rules


def is_tracked(port: LocalPort) -> bool:
    """Whether a port needs a zone. Of one that is not filtered, or has only stateless groups, nothing is followed."""
    return port.secured and port.stateful


# --- filtering ---


def _render_filter(ports: Sequence[LocalPort], silent: Iterable[str], family: int) -> Chains:
    forward, arriving, groups = _Chain(names.FORWARD), _Chain(names.INPUT), _Chain(names.GROUPS)
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
            forward.add(match, names.GROUPS)
        arriving.add(_from(port.id), names.out_of(port.id))
        groups.add(_to(port.id), names.into(port.id))
        groups.add(_from(port.id), names.out_of(port.id))
        chains |= _render_port(port, family)
    # The ports' chains have let it pass.
    groups.add(f"-m conntrack --ctdir ORIGINAL -m connmark --mark {ENDED:#x}", "CONNMARK --set-xmark 0x0/0xffffffff")
    groups.add("", "ACCEPT")
    shared = (forward, arriving, groups, _render_state(), _render_fallback())
    return {**{chain.name: chain.rules for chain in shared}, **chains}


def _to(port_id: str) -> str:
    return f"-m physdev --physdev-out {names.tap(port_id)} --physdev-is-bridged"


def _from(port_id: str) -> str:
    """From an instance, also what the host itself would take or route."""
    return f"-m physdev --physdev-in {names.tap(port_id)}"


def _render_state() -> _Chain:
    """Packets that belong to a connection, other than those in its opening direction."""
    chain = _Chain(names.STATE)
    chain.add("-m conntrack --ctstate INVALID", "DROP")
    chain.add(f"-m connmark --mark {ENDED:#x}", "DROP")
    chain.add("", "ACCEPT")
    return chain


def _render_fallback() -> _Chain:
    """What no rule allows. A connection that one allowed before has lost that rule."""
    chain = _Chain(names.FALLBACK)
    chain.add("", f"CONNMARK --set-xmark {ENDED:#x}/0xffffffff")
    chain.add("", "DROP")
    return chain


def _render_port(port: LocalPort, family: int) -> Chains:
    into, out, sources = (_Chain(name(port.id)) for name in (names.into, names.out_of, names.sources))
    _add_sources(sources, port, family)
    out.add("-m physdev ! --physdev-is-bridged", "DROP")
    out.add("", sources.name)
    out.add(matches.udp(_DHCP_SERVER[family], _DHCP_CLIENT[family]), "DROP")
    out.add(matches.udp(_DHCP_CLIENT[family], _DHCP_SERVER[family]), "RETURN")
    into.add(matches.udp(_DHCP_SERVER[family], _DHCP_CLIENT[family]), "RETURN")
    if family == 6:
        out.add(matches.icmp(134, family), "DROP")
        for chain, kinds in ((out, _NEIGHBOUR_OUT), (into, _NEIGHBOUR_IN)):
            for kind in kinds:
                chain.add(matches.icmp(kind, family), "RETURN")
    for chain, direction in ((out, "egress"), (into, "ingress")):
        _add_rules(chain, port, family, direction)
    return {chain.name: chain.rules for chain in (into, out, sources)}


def _add_sources(chain: _Chain, port: LocalPort, family: int) -> None:
    for mac, prefix in sorted(port.sources):
        if ip_network(prefix).version == family:
            chain.add(f"-s {prefix} -m mac --mac-source {mac}", "RETURN")
    for mac in sorted(port.macs):
        if family == 4:
            asking = [f"-s 0.0.0.0/32 {matches.udp(_DHCP_CLIENT[4], _DHCP_SERVER[4])}"]
        else:
            asking = [f"-s ::/128 {matches.icmp(kind, 6)}" for kind in _UNADDRESSED]
        for match in asking:
            chain.add(f"{match} -m mac --mac-source {mac}", "RETURN")
    chain.add("", "DROP")


def _add_rules(chain: _Chain, port: LocalPort, family: int, direction: str) -> None:
    def allow(*, stateful: bool) -> None:
        for rule in _rules_of(port, family, stateful=stateful):
            match = matches.render_match(rule) if rule.direction == direction else None
            if match is not None:
                chain.add(match, "RETURN")

    allow(stateful=False)
    if is_tracked(port):
        chain.add("-m conntrack --ctstate INVALID,RELATED", names.STATE)
        chain.add("-m conntrack --ctstate ESTABLISHED --ctdir REPLY", names.STATE)
        allow(stateful=True)
    chain.add("", names.FALLBACK)


def _rules_of(port: LocalPort, family: int, *, stateful: bool) -> list[EffectiveRule]:
    chosen = (rule for rule in port.rules if rule.family == family and rule.stateful == stateful)
    return sorted(chosen, key=EffectiveRule.order)


# --- sets ---


def render_sets(ports: Iterable[LocalPort], remotes: Mapping[str, frozenset[str]]) -> dict[str, AddressSet]:
    """The members of every group that a rule names, once for all ports and rules."""
    uses = {(rule.remote, rule.family) for port in ports if port.secured for rule in port.rules if rule.remote}
    sets = {}
    for remote, family in sorted(uses):
        name = names.address_set(remote, family)
        members = {part for address in remotes.get(remote, ()) for part in _members(address, family)}
        sets[name] = AddressSet(name, family, frozenset(members), capacity=CAPACITY)
    return sets


@lru_cache(maxsize=65536)
def _members(address: str, family: int) -> tuple[str, ...]:
    """An address as members of a set, which takes no prefix of length 0: its halves say the same."""
    network = ip_network(address, strict=False)
    if network.version != family:
        return ()
    parts = [network] if network.prefixlen else network.subnets()
    return tuple(canonical_member(str(part)) for part in parts)
