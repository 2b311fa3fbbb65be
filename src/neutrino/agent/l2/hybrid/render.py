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

Of ports with logs, packets that open a connection and that a rule allows, and packets that are dropped for their source,
their state or for want of a rule, are copied to netfilter's log, limited in rate (`Logging`).

Into an instance it is the same with i<port>. As every packet of the opening direction needs a rule, removing a rule ends
connections in both directions, as in the native firewall. ARP, neighbour advertisements and tags are checked on the
integration bridge, as for other ports.

Names of chains, sets and devices are those that operators of OpenStack know. By them an agent without memory recognises its
own: a chain or a set by the beginning of its name, a rule in a chain of others by the mark in its comment. The mark is also
how rules are compared: iptables prints rules in another form than it takes them, so each has a checksum of its own text.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network

from neutrino.agent.l2.desired import EffectiveRule, LocalPort, Remotes
from neutrino.agent.l2.packets import NEIGHBOUR_IN, NEIGHBOUR_OUT, UNADDRESSED
from neutrino.caches import cached
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.dataplane.iptables.api import AddressSet, Chains, Rule, Tables, canonical_member
from neutrino.model.packet_log import ACCEPT, DROP

_DCCP, _UDPLITE = 33, 136
# The match of a protocol's ports; UDP-Lite has none of its own.
_PORTS = {
    TCP: "-m tcp --dport",
    UDP: "-m udp --dport",
    SCTP: "-m sctp --dport",
    **dict.fromkeys((_DCCP, _UDPLITE), "-m multiport --dports"),
}
ENDED = 1  # the connmark of a connection that no rule allows any more
CAPACITY = 1 << 20  # members of a set at most; ipset's default is 65536
FAMILIES = (4, 6)

_DHCP = {4: (68, 67), 6: (546, 547)}  # ports of client and server

PREFIX = "neutron-openvswi-"
FORWARD = f"{PREFIX}FORWARD"
INPUT = f"{PREFIX}INPUT"
PREROUTING = f"{PREFIX}PREROUTING"
GROUPS = f"{PREFIX}sg-chain"
FALLBACK = f"{PREFIX}sg-fallback"
STATE = f"{PREFIX}state"
LOG_CHAINS = {ACCEPT: f"{PREFIX}log-accept", DROP: f"{PREFIX}log-drop"}
NFLOG_GROUP = 0x6E6C
_FASTEST = 10_000  # a second: what the match "limit" can count

_MARK = "neutrino:"
_SETS = ("NIPv4", "NIPv6")
_SET_LENGTH = 31  # of a set's name, in the kernel
_CHAIN_ID, _DEVICE_ID = 10, 11  # characters of a port's id that fit into a name

Line = tuple[str, str]
"""The match and the target of a rule, without its chain and mark."""
# Packets that did not come through a bridge are the host's own traffic.
_NOT_BRIDGED: Line = ("-m physdev ! --physdev-is-in", "RETURN")


class ConflictingPorts(Exception):
    """Two ports whose ids begin alike would share chains, and so rules."""


@dataclasses.dataclass(frozen=True)
class Logging:
    """The ports whose accepted and dropped packets are copied to netfilter's log, by their ids."""

    accepted: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    rate: int = 100  # packets a second, for each event and IP version
    burst: int = 25

    def __bool__(self) -> bool:
        return bool(self.accepted or self.dropped)


NO_LOGS = Logging()


@dataclasses.dataclass(frozen=True)
class DesiredRules:
    """The desired state: all our chains, rules in chains of others, and sets."""

    tables: Mapping[int, Tables]  # by family
    jumps: Tables  # rules of ours in the chains of others, the same for both families
    sets: Mapping[str, AddressSet]


def render(
    ports: Sequence[LocalPort],
    blocked: Iterable[str],
    remotes: Remotes,
    zones: Mapping[str, int],
    logging: Logging = NO_LOGS,
) -> DesiredRules:
    """The desired state for hybrid ports. `blocked`: ids of ports that must not talk."""
    silent = sorted(blocked)
    _check([*(port.id for port in ports), *silent])
    if not ports and not silent:
        return DesiredRules({family: {} for family in FAMILIES}, {}, {})
    jumps = {"raw": {"PREROUTING": [("", PREROUTING)]}, "filter": {"FORWARD": [("", FORWARD)], "INPUT": [("", INPUT)]}}
    tables = {
        family: {
            "raw": _marked({PREROUTING: _tracking(ports, zones, family)}),
            "filter": _marked(_filtering(ports, silent, family, logging)),
        }
        for family in FAMILIES
    }
    return DesiredRules(
        tables, {table: _marked(chains) for table, chains in jumps.items()}, render_sets(ports, remotes)
    )


def _check(port_ids: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for port_id in port_ids:
        chain = port_chain("i", port_id)
        other = first.setdefault(chain, port_id)
        if other != port_id:
            raise ConflictingPorts(f"ports {other} and {port_id} have the same chain {chain}")


def _tracking(ports: Sequence[LocalPort], zones: Mapping[str, int], family: int) -> Iterator[Line]:
    """The conntrack zone of a packet; the first matching rule decides."""
    yield _NOT_BRIDGED
    for port in ports:
        devices = {"egress": port_device("tap", port.id), "ingress": port_device("qvb", port.id)}
        for rule in _rules_of(port, family, stateful=False):
            match = render_match(rule)
            if match is not None and port.id in zones:
                yield f"-m physdev --physdev-in {devices[rule.direction]} {match}".rstrip(), "CT --notrack"
        tracking = f"CT --zone {zones[port.id]}" if port.id in zones else "CT --notrack"
        for device in devices.values():
            yield f"-m physdev --physdev-in {device}", tracking


def is_tracked(port: LocalPort) -> bool:
    """Whether a port needs a zone: connections of unfiltered ports and of stateless groups are not tracked."""
    return port.secured and port.stateful


# --- filtering ---


def _filtering(
    ports: Sequence[LocalPort], silent: Iterable[str], family: int, logging: Logging
) -> dict[str, list[Line]]:
    forward, arriving = [_NOT_BRIDGED], [_NOT_BRIDGED]
    groups: list[Line] = []
    chains: dict[str, list[Line]] = {}
    for port_id in silent:
        forward += [(_to(port_id), "DROP"), (_from(port_id), "DROP")]
        arriving.append((_from(port_id), "DROP"))
    for port in ports:
        into, out = _to(port.id), _from(port.id)
        if not port.secured:
            forward += [(into, "ACCEPT"), (f"{out} --physdev-is-bridged", "ACCEPT")]  # bridged: not to the host itself
            continue
        forward += [(into, GROUPS), (out, GROUPS)]
        arriving.append((out, port_chain("o", port.id)))
        groups += [(into, port_chain("i", port.id)), (out, port_chain("o", port.id))]
        chains |= _render_port(port, family, logging)
    # Here the ports' chains have allowed the packet.
    allowed_again = f"-m conntrack --ctdir ORIGINAL -m connmark --mark {ENDED:#x}"
    groups += [(allowed_again, "CONNMARK --set-xmark 0x0/0xffffffff"), ("", "ACCEPT")]
    return {
        FORWARD: forward,
        INPUT: arriving,
        GROUPS: groups,
        # Packets of a connection that are not in its opening direction.
        STATE: [
            ("-m conntrack --ctstate INVALID", "DROP"),
            (f"-m connmark --mark {ENDED:#x}", "DROP"),
            ("", "ACCEPT"),
        ],
        # Packets that no rule allows. If they are of a connection, the rule that had allowed it is gone.
        FALLBACK: [("", f"CONNMARK --set-xmark {ENDED:#x}/0xffffffff"), ("", "DROP")],
        **chains,
        **(_logging(logging) if logging else {}),
    }


def _logging(logging: Logging) -> dict[str, list[Line]]:
    """Chains that copy a packet and return: the agent finds its port by the bridge's device, the event by the prefix."""
    limit = f"-m limit --limit {min(logging.rate, _FASTEST)}/second --limit-burst {min(logging.burst, _FASTEST)}"
    target = f"NFLOG --nflog-group {NFLOG_GROUP} --nflog-prefix"
    return {chain: [(limit, f"{target} {event}")] for event, chain in LOG_CHAINS.items()}


def _to(port_id: str) -> str:
    return f"-m physdev --physdev-out {port_device('tap', port_id)} --physdev-is-bridged"


def _from(port_id: str) -> str:
    """Match packets from an instance, including packets to the host itself and those it would route."""
    return f"-m physdev --physdev-in {port_device('tap', port_id)}"


def _render_port(port: LocalPort, family: int, logging: Logging) -> dict[str, list[Line]]:
    client, server = _DHCP[family]
    request, reply = _udp(client, server), _udp(server, client)
    sources = port_chain("s", port.id)
    out = [("-m physdev ! --physdev-is-bridged", "DROP"), ("", sources), (reply, "DROP"), (request, "RETURN")]
    into = [(reply, "RETURN")]
    if family == 6:
        out += [(_icmp(134, 6), "DROP"), *((_icmp(kind, 6), "RETURN") for kind in NEIGHBOUR_OUT)]
        into += ((_icmp(kind, 6), "RETURN") for kind in NEIGHBOUR_IN)
    return {
        port_chain("i", port.id): [*into, *_rules(port, family, "ingress", logging)],
        port_chain("o", port.id): [*out, *_rules(port, family, "egress", logging)],
        sources: [*_sources(port, family), *_log_drop(port, logging), ("", "DROP")],
    }


def _sources(port: LocalPort, family: int) -> Iterator[Line]:
    for mac, prefix in sorted(port.sources):
        if ip_network(prefix).version == family:
            yield f"-s {prefix} -m mac --mac-source {mac}", "RETURN"
    if family == 4:
        unaddressed = [f"-s 0.0.0.0/32 {_udp(*_DHCP[4])}"]
    else:
        unaddressed = [f"-s ::/128 {_icmp(kind, 6)}" for kind in UNADDRESSED]
    for mac in sorted(port.macs):
        for match in unaddressed:
            yield f"{match} -m mac --mac-source {mac}", "RETURN"


def _rules(port: LocalPort, family: int, direction: str, logging: Logging) -> Iterator[Line]:
    def allow(*, stateful: bool) -> Iterator[Line]:
        for rule in _rules_of(port, family, stateful=stateful):
            match = render_match(rule) if rule.direction == direction else None
            if match is None:
                continue
            if stateful and port.id in logging.accepted:
                yield f"{match} -m conntrack --ctstate NEW".lstrip(), LOG_CHAINS[ACCEPT]
            yield match, "RETURN"

    yield from allow(stateful=False)
    if is_tracked(port):
        yield from _log_drop(port, logging, "-m conntrack --ctstate INVALID")
        yield from _log_drop(port, logging, f"-m conntrack --ctdir REPLY -m connmark --mark {ENDED:#x}")
        yield "-m conntrack --ctstate INVALID,RELATED", STATE
        yield "-m conntrack --ctstate ESTABLISHED --ctdir REPLY", STATE
        yield from allow(stateful=True)
    yield from _log_drop(port, logging)
    yield "", FALLBACK


def _log_drop(port: LocalPort, logging: Logging, match: str = "") -> Iterator[Line]:
    if port.id in logging.dropped:
        yield match, LOG_CHAINS[DROP]


def _rules_of(port: LocalPort, family: int, *, stateful: bool) -> list[EffectiveRule]:
    chosen = (rule for rule in port.rules if rule.family == family and rule.stateful == stateful)
    return sorted(chosen, key=repr)  # a stable order: rules in another order would be restored anew


def render_sets(ports: Iterable[LocalPort], remotes: Remotes) -> dict[str, AddressSet]:
    """The sets of remote groups, each once for all ports and rules."""
    uses = {(rule.remote, rule.family) for port in ports if port.secured for rule in port.rules if rule.remote}
    sets = {}
    for remote, family in sorted(uses):
        name = set_name(remote, family)
        members = {part for address in remotes.get(remote, ()) for part in _members(address, family)}
        sets[name] = AddressSet(name, family, frozenset(members), capacity=CAPACITY)
    return sets


@cached(maxsize=65536)
def _members(address: str, family: int) -> tuple[str, ...]:
    """An address as members of a set, which takes no prefix of length 0: its two halves instead."""
    network = ip_network(address, strict=False)
    if network.version != family:
        return ()
    parts = [network] if network.prefixlen else network.subnets()
    return tuple(canonical_member(str(part)) for part in parts)


def _icmp(kind: int, family: int, code: int | None = None) -> str:
    number = f"{kind}" if code is None else f"{kind}/{code}"
    if family == 4:
        return f"-p {ICMP} -m icmp --icmp-type {number}"
    return f"-p {ICMPV6} -m icmp6 --icmpv6-type {number}"


def _udp(source: int, destination: int) -> str:
    return f"-p {UDP} -m udp --sport {source} --dport {destination}"


@cached(maxsize=4096)
def render_match(rule: EffectiveRule) -> str | None:
    """The match of a rule, without its port; None if iptables cannot match what the rule asks for.

    Such a rule allows nothing, rather than too much.
    """
    remote, kind = _render_remote(rule), _render_kind(rule)
    return None if remote is None or kind is None else f"{remote} {kind}".strip()


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
    return f"-p {protocol} {_PORTS[protocol]} {ports}" if protocol in _PORTS else None


# --- names and marks ---


def port_chain(kind: str, port_id: str) -> str:
    """A chain of a port: of packets into it (`i`), out of it (`o`), or of its source addresses (`s`)."""
    return f"{PREFIX}{kind}{port_id[:_CHAIN_ID]}"


def port_device(kind: str, port_id: str) -> str:
    """A device of a port's bridge, on the instance's side (`tap`) or the network's (`qvb`)."""
    return f"{kind}{port_id[:_DEVICE_ID]}"


def set_name(remote: str, family: int) -> str:
    """The set of a remote's members; a remote is `group:<id>` or `addresses:<id>`."""
    return f"NIPv{family}{remote.partition(':')[2]}"[:_SET_LENGTH]


def temporary_set(name: str) -> str:
    """The name of a set that is filled and then swapped with another."""
    return f"{name[:5]}new-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def is_our_chain(name: str) -> bool:
    return name.startswith(PREFIX)


def is_our_set(name: str) -> bool:
    return name.startswith(_SETS)


def _marked(chains: Mapping[str, Iterable[Line]]) -> Chains:
    return {name: tuple(_marked_rule(name, *line) for line in lines) for name, lines in chains.items()}


@cached(maxsize=65536)
def _marked_rule(chain: str, match: str, target: str) -> Rule:
    """A rule with our mark, the checksum of its text."""
    checksum = hashlib.blake2b(f"{chain} {match} {target}".encode(), digest_size=6).hexdigest()
    return Rule(f"{match} -m comment --comment {_MARK}{checksum} -j {target}".lstrip())


def mark_of(rule: Rule) -> str:
    """The checksum in a rule's comment; empty if the rule is not ours."""
    return rule.comment.removeprefix(_MARK) if rule.comment.startswith(_MARK) else ""
