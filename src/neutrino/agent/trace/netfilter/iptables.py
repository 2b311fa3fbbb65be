"""A small evaluator of iptables rules: what the filter chains do with a packet on the bridge of a hybrid port. Pure.

Input is what iptables-save and ipset save print. The matches that the hybrid firewall renders are understood. A rule with
another match counts as not matching, and is noted.
"""

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from neutrino.dataplane.iptables.api import AddressSet, Chains, Rule

ACCEPT, DROP, REJECT, RETURN = "ACCEPT", "DROP", "REJECT", "RETURN"
_TERMINAL: Final = (ACCEPT, DROP, REJECT)
_PROTOCOLS: Final = {
    "tcp": 6,
    "udp": 17,
    "sctp": 132,
    "icmp": 1,
    "ipv6-icmp": 58,
    "icmpv6": 58,
    "dccp": 33,
    "udplite": 136,
}
_WITHOUT_VALUE: Final = ("--physdev-is-in", "--physdev-is-out", "--physdev-is-bridged")
_TWO_VALUES: Final = ("--match-set", "--tcp-flags")
_FLAGS: Final = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32, "ALL": 63, "NONE": 0}
_DEPTH: Final = 16


@dataclasses.dataclass(frozen=True)
class BridgedPacket:
    """A packet that crosses a Linux bridge, from one of its devices to another; or one that is routed."""

    mac: str  # of its sender
    source: str
    destination: str
    protocol: int
    source_port: int = 0
    destination_port: int = 0  # of ICMP: the type
    icmp_code: int = 0
    device_in: str = ""  # "" as of a packet that this machine sends
    device_out: str = ""
    bridge: str = ""  # that it crosses; empty: it is routed
    tcp_flags: int = 2
    state: str = "NEW"
    reply: bool = False
    mark: int = 0


@dataclasses.dataclass(frozen=True)
class Verdict:
    result: str  # ACCEPT, DROP or REJECT
    chain: str = ""
    rule: Rule | None = None
    unknown: tuple[str, ...] = ()  # matches that are not understood


def evaluate(
    chains: Chains, sets: Mapping[str, AddressSet], start: str, packet: BridgedPacket, policy: str = ACCEPT
) -> Verdict:
    """The verdict of a chain of the kernel. By its policy, it has no rule."""
    unknown: list[str] = []
    found = _run(chains, sets, start, packet, unknown, 0)
    if found is None:
        return Verdict(policy, start if policy != ACCEPT else "", unknown=tuple(unknown))
    return Verdict(found[1].target, *found, tuple(unknown))


def _run(
    chains: Chains,
    sets: Mapping[str, AddressSet],
    chain: str,
    packet: BridgedPacket,
    unknown: list[str],
    depth: int,
) -> tuple[str, Rule] | None:
    for rule in chains.get(chain, ()) if depth < _DEPTH else ():
        if not _matches(rule, sets, packet, unknown):
            continue
        if rule.target in _TERMINAL:
            return chain, rule
        if rule.target == RETURN:
            return None
        if rule.target in chains:
            found = _run(chains, sets, rule.target, packet, unknown, depth + 1)
            if found is not None:
                return found
    return None


def _matches(rule: Rule, sets: Mapping[str, AddressSet], packet: BridgedPacket, unknown: list[str]) -> bool:
    for negated, option, value in _options(rule.text):
        try:
            found = _match(option, value, sets, packet)
        except (ValueError, KeyError):
            found = None
        if found is None:
            unknown.append(f"{option} {value}".strip())
            return False
        if found == negated:
            return False
    return True


def _options(text: str) -> Iterator[tuple[bool, str, str]]:
    """Matches of a rule, each with whether it is negated; its target, comment and names of modules are left out."""
    words, negated = shlex.split(text), False
    place = 0
    while place < len(words):
        word = words[place]
        if word == "!":
            negated, place = True, place + 1
            continue
        if word in _WITHOUT_VALUE:
            yield negated, word, ""
            negated, place = False, place + 1
            continue
        if word in ("-j", "-g"):
            return
        value, place = words[place + 1] if place + 1 < len(words) else "", place + 2
        if word in _TWO_VALUES:
            value, place = f"{value} {words[place] if place < len(words) else ''}", place + 1
        if word not in ("-m", "--comment"):
            yield negated, word, value
            negated = False


def _match(option: str, value: str, sets: Mapping[str, AddressSet], packet: BridgedPacket) -> bool | None:
    """None: not understood."""
    match option:
        case "-s" | "-d":
            own = packet.source if option == "-s" else packet.destination
            return ip_address(own) in ip_network(value, strict=False)
        case "-p":
            return packet.protocol == (_PROTOCOLS.get(value) if value in _PROTOCOLS else int(value))
        case "--physdev-in" | "--physdev-out":
            return value == (packet.device_in if option == "--physdev-in" else packet.device_out)
        case "--physdev-is-in" | "--physdev-is-out" | "--physdev-is-bridged":
            return True
        case "-i" | "-o":
            device = packet.bridge or (packet.device_in if option == "-i" else packet.device_out)
            return device.startswith(value[:-1]) if value.endswith("+") else device == value
        case "--tcp-flags":
            looked_at, set_ = (sum(_FLAGS[name] for name in part.split(",")) for part in value.split())
            return packet.tcp_flags & looked_at == set_
        case "--mac-source":
            return value.lower() == packet.mac.lower()
        case "--sport" | "--dport" | "--sports" | "--dports":
            port = packet.source_port if option.startswith("--s") else packet.destination_port
            return any(_in_range(each, port) for each in value.split(","))
        case "--icmp-type" | "--icmpv6-type":
            kind, _, code = value.partition("/")
            return packet.destination_port == int(kind) and (not code or packet.icmp_code == int(code))
        case "--ctstate" | "--state":
            return packet.state in value.split(",")
        case "--ctdir":
            return packet.reply == (value == "REPLY")
        case "--mark":
            number, _, mask = value.partition("/")
            return packet.mark & int(mask or "0xffffffff", 0) == int(number, 0)
        case "--limit" | "--limit-burst":  # of logs: what is not logged goes on too
            return True
        case "--match-set":
            name, _, side = value.partition(" ")
            own = packet.source if side.startswith("src") else packet.destination
            members = sets[name].members if name in sets else frozenset[str]()
            return any(ip_address(own) in ip_network(member) for member in members)
    return None


def _in_range(text: str, port: int) -> bool:
    first, colon, last = text.partition(":")
    return int(first) <= port <= int(last) if colon else port == int(first)
