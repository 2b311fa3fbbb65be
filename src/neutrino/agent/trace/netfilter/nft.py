"""A small evaluator of nft rules: what the chains of a hook do with a packet. Pure.

Input is the JSON of `nft -j -n list ruleset`, as the kernel has it now, rules of others included. The expressions that this
project renders are understood, and the common ones besides. A rule with another expression counts as not matching, and is
noted: the answer says so instead of guessing.
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final, TypeGuard

from neutrino.dataplane.inspection.api import Ruleset
from neutrino.model.objects import Values

ACCEPT, DROP, REJECT, RETURN = "accept", "drop", "reject", "return"
INVALID, ESTABLISHED, NEW = 1, 2, 8  # bits of the connection state
SOURCE_NAT, DESTINATION_NAT = 16, 32  # bits of the connection status
_FAMILIES: Final = {4: ("ip", "inet"), 6: ("ip6", "inet")}
_PROTOCOLS: Final = {"tcp": 6, "udp": 17, "sctp": 132, "dccp": 33, "udplite": 136, "icmp": 1, "icmpv6": 58}
_WITH_PORTS: Final = (6, 17, 33, 132, 136)
_IGNORED: Final = ("counter", "log", "quota", "comment", "meter", "ct helper", "xt", "queue")
_ETHERNET: Final = 1  # type of devices
_DEPTH: Final = 16


class NotUnderstood(Exception):
    """An expression that this evaluator does not know."""


@dataclasses.dataclass
class NftPacket:
    """A packet in netfilter; rules change its addresses and marks."""

    source: str
    destination: str
    protocol: int
    source_port: int = 0
    destination_port: int = 0  # of ICMP: the type
    icmp_code: int = 0
    size: int = 84
    ttl: int = 64
    iif: str = ""
    oif: str = ""
    mark: int = 0
    tcp_flags: int = 2
    ct_state: int = NEW
    ct_status: int = 0
    ct_mark: int = 0
    reply: bool = False
    eth_src: str = ""
    # Addresses of its connection by direction, source and destination; empty: there is none.
    ct_addresses: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    @property
    def version(self) -> int:
        return 6 if ":" in self.source else 4


@dataclasses.dataclass(frozen=True)
class Hit:
    """A rule that decided something about the packet."""

    table: str  # family and name
    chain: str
    effect: str  # accept, drop, reject, dnat, snat, redirect, mark …
    text: str = ""
    commented: bool = True  # rules of ours carry their checksum as comment
    note: str = ""
    counter: str = ""


@dataclasses.dataclass(frozen=True)
class Chain:
    table: str
    name: str
    hook: str = ""
    kind: str = ""
    priority: int = 0
    policy: str = ACCEPT


class Rules:
    """All tables of a namespace."""

    def __init__(self, ruleset: Ruleset) -> None:
        self._chains: dict[tuple[str, str], Chain] = {}
        self._rules: defaultdict[tuple[str, str], list[Values]] = defaultdict(list)
        self._sets: dict[tuple[str, str], list[Any]] = {}
        for item in ruleset:
            for what, value in item.items():
                table = f"{value.get('family')} {value.get('table')}"
                if what == "chain":
                    words = value.get("hook", ""), value.get("type", ""), int(value.get("prio", 0))
                    chain = Chain(table, value["name"], *words, value.get("policy", ACCEPT))
                    self._chains[table, value["name"]] = chain
                elif what == "rule":
                    self._rules[table, value["chain"]].append(value)
                elif what in ("set", "map"):
                    self._sets[table, value["name"]] = value.get("elem", [])

    def base_chains(self, hook: str, version: int) -> list[Chain]:
        """Return the base chains of a hook, in the order in which packets pass them."""
        found = [
            chain
            for chain in self._chains.values()
            if chain.hook == hook and chain.table.partition(" ")[0] in _FAMILIES[version]
        ]
        return sorted(found, key=lambda each: each.priority)

    def run(self, chain: Chain, packet: NftPacket, hits: list[Hit]) -> str:
        """The verdict of a base chain; what rules did on the way is in `hits`."""
        verdict = self._run(chain.table, chain.name, packet, hits, 0)
        if verdict in (ACCEPT, DROP, REJECT):
            return verdict
        if chain.policy == DROP:
            hits.append(Hit(chain.table, chain.name, DROP, note="the chain's policy"))
        return chain.policy

    def _run(self, table: str, chain: str, packet: NftPacket, hits: list[Hit], depth: int) -> str:
        if depth > _DEPTH:
            raise NotUnderstood(f"chains of {table} are nested too deeply")
        for rule in self._rules[table, chain]:
            verdict = self._rule(table, rule, packet, hits, depth)
            if verdict == RETURN:
                return RETURN
            if verdict:
                return verdict
        return ""

    def _rule(self, table: str, rule: Values, packet: NftPacket, hits: list[Hit], depth: int) -> str:
        text = f"{table} {rule['chain']}: {json.dumps(rule.get('expr', []), separators=(',', ':'))}"
        commented, counter = "comment" in rule, ""
        try:
            for expression in rule.get("expr", ()):
                ((name, value),) = expression.items()
                if name == "match":
                    if not self._match(table, value, packet):
                        return ""
                elif name == "counter" and isinstance(value, str):
                    counter = value
                elif name == "limit":
                    if isinstance(value, Mapping) and value.get("inv"):  # matches what is over the limit
                        return ""
                elif name in (ACCEPT, DROP, RETURN):
                    if name != RETURN:
                        hits.append(Hit(table, rule["chain"], name, text, commented, counter=counter))
                    return str(name)
                elif name == REJECT:
                    hits.append(Hit(table, rule["chain"], REJECT, text, commented, counter=counter))
                    return REJECT
                elif name in ("jump", "goto"):
                    verdict = self._run(table, value["target"], packet, hits, depth + 1)
                    if verdict in (ACCEPT, DROP, REJECT):
                        return verdict
                    if name == "goto":
                        return RETURN
                elif name == "vmap":
                    verdict = self._vmap(table, value, packet, hits, depth)
                    if verdict:
                        return verdict
                elif name in ("dnat", "snat", "redirect", "masquerade"):
                    done = self._translate(table, name, value or {}, packet)
                    if not done:
                        return ""
                    hits.append(Hit(table, rule["chain"], name, text, commented, note=done))
                    return ACCEPT
                elif name == "mangle":
                    self._mangle(table, value, packet)
                elif name not in _IGNORED and name not in ("set", "notrack", "last"):
                    raise NotUnderstood(name)
        except (NotUnderstood, KeyError, TypeError, ValueError) as error:
            hits.append(Hit(table, rule["chain"], "unknown", text, note=f"the rule is not understood here: {error}"))
        return ""

    # --- matches ------------------------------------------------------------------------------------------------------

    def _match(self, table: str, match: Values, packet: NftPacket) -> bool:
        left = self._value(table, match["left"], packet)
        if left is None:  # the packet has no such header
            return False
        op, right = str(match["op"]), match["right"]
        if op == "in" or (op == "!" and isinstance(left, int)):  # bits
            bits = 0
            for each in right if isinstance(right, list) else [right]:
                bits |= int(each)
            return bool(left & bits) == (op == "in")
        if op in ("<", ">", "<=", ">="):
            number = int(right)
            return bool({"<": left < number, ">": left > number, "<=": left <= number, ">=": left >= number}[op])
        found = self._equals(table, left, right, packet)
        return found == (op == "==")

    def _equals(self, table: str, left: Any, right: Any, packet: NftPacket) -> bool:
        if isinstance(right, str) and right.startswith("@"):
            return self._element(table, left, self._sets.get((table, right[1:]), ())) is not None
        if isinstance(right, Mapping):
            if "set" in right:
                return self._element(table, left, right["set"]) is not None
            if "prefix" in right or "range" in right or "concat" in right:
                return _covers(right, left)
            return bool(left == self._value(table, right, packet))
        if isinstance(right, list):
            return any(self._equals(table, left, each, packet) for each in right)
        return _covers(right, left)

    def _element(self, table: str, key: Any, elements: Any) -> Any:
        """The element of a set that has the key, or the value of a map; None if there is none."""
        for element in elements:
            limited, held = False, element
            if isinstance(held, Mapping) and "elem" in held:
                held = held["elem"]
                limited = bool(held.get("limit", {}).get("inv"))
                held = held["val"]
            is_map = isinstance(held, list)
            if _covers(held[0] if is_map else held, key):
                if limited:  # the packet is under the element's rate
                    return None
                return held[1] if is_map else True
        return None

    def _vmap(self, table: str, value: Values, packet: NftPacket, hits: list[Hit], depth: int) -> str:
        found = self._lookup(table, value, packet)
        if not isinstance(found, Mapping):
            return ""
        ((name, target),) = found.items()
        if name in ("jump", "goto"):
            verdict = self._run(table, target["target"], packet, hits, depth + 1)
            if verdict in (ACCEPT, DROP, REJECT):
                return verdict
            return RETURN if name == "goto" else ""
        return str(name)

    def _lookup(self, table: str, value: Values, packet: NftPacket) -> Any:
        """The value of a map for a packet."""
        key, data = self._value(table, value["key"], packet), value["data"]
        if key is None or (isinstance(key, tuple) and None in key):
            return None
        elements = self._sets.get((table, data[1:]), ()) if isinstance(data, str) else data["set"]
        return self._element(table, key, elements)

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, table: str, value: Any, packet: NftPacket) -> Any:
        if not isinstance(value, Mapping):
            return value
        ((name, inner),) = value.items()
        match name:
            case "meta":
                return _meta(inner["key"], packet)
            case "payload":
                return _payload(inner.get("protocol", ""), inner.get("field", ""), packet)
            case "ct":
                return _connection(inner["key"], packet, inner.get("dir", ""))
            case "concat":
                return tuple(self._value(table, each, packet) for each in inner)
            case "&" | "|" | "^":
                first, second = (self._number(table, each, packet) for each in inner)
                if first is None or second is None:
                    return None
                return first & second if name == "&" else first | second if name == "|" else first ^ second
            case "map":
                return self._lookup(table, inner, packet)
        raise NotUnderstood(name)

    def _number(self, table: str, value: Any, packet: NftPacket) -> int | None:
        if isinstance(value, list):  # flags
            return sum(int(each) for each in value)
        found = self._value(table, value, packet)
        return None if found is None else int(found)

    # --- changes ------------------------------------------------------------------------------------------------------

    def _mangle(self, table: str, value: Values, packet: NftPacket) -> None:
        ((kind, key),) = value["key"].items()
        number = self._number(table, value["value"], packet)
        if kind == "meta" and key["key"] == "mark":
            packet.mark = number or 0
        elif kind == "ct" and key["key"] == "mark":
            packet.ct_mark = number or 0
        elif not (kind == "payload" or (kind == "meta" and key["key"] in ("priority", "pkttype"))):
            raise NotUnderstood(f"change of {kind} {key.get('key')}")

    def _translate(self, table: str, name: str, value: Values, packet: NftPacket) -> str:
        """The translation in words; empty if a map has no entry for the packet, so that the rule does not match."""
        address = self._value(table, value["addr"], packet) if "addr" in value else None
        if "addr" in value and address is None:
            return ""
        port = value.get("port")
        if isinstance(address, Mapping):  # an address and a port
            address, port = address["concat"]
        if isinstance(port, Mapping):
            port = port["range"][0] if "range" in port else None
        if name == "dnat":
            packet.destination = str(address) if address is not None else packet.destination
            packet.destination_port = int(port) if port is not None else packet.destination_port
            packet.ct_status |= DESTINATION_NAT
            return f"destination becomes {_end(packet.destination, packet.destination_port, packet)}"
        if name == "redirect":
            packet.destination_port = int(port) if port is not None else packet.destination_port
            packet.ct_status |= DESTINATION_NAT
            return f"redirected to port {packet.destination_port} of this namespace"
        if address is not None:
            packet.source = str(address)
        packet.source_port = int(port) if port is not None else packet.source_port
        packet.ct_status |= SOURCE_NAT
        return f"source becomes {packet.source}" if name == "snat" else "source becomes the device's address"


def _end(address: str, port: int, packet: NftPacket) -> str:
    return f"{address} port {port}" if packet.protocol in _WITH_PORTS else address


def _meta(key: str, packet: NftPacket) -> int | str:
    known: dict[str, int | str] = {
        "iifname": packet.iif,
        "oifname": packet.oif,
        "iif": packet.iif,  # nft prints indexes as names
        "oif": packet.oif,
        "l4proto": packet.protocol,
        "mark": packet.mark,
        "nfproto": 2 if packet.version == 4 else 10,
        "protocol": 0x0800 if packet.version == 4 else 0x86DD,
        "length": packet.size,
        "iiftype": _ETHERNET,
    }
    if key not in known:
        raise NotUnderstood(f"meta {key}")
    return known[key]


def _payload(protocol: str, field: str, packet: NftPacket) -> int | str | None:
    """None where the packet has no such header."""
    known: dict[str, int | str]
    if protocol in ("ip", "ip6"):
        if packet.version != (4 if protocol == "ip" else 6):
            return None
        known = {
            "saddr": packet.source,
            "daddr": packet.destination,
            "protocol": packet.protocol,
            "nexthdr": packet.protocol,
            "ttl": packet.ttl,
            "hoplimit": packet.ttl,
            "length": packet.size,
            "dscp": 0,
        }
    elif protocol == "ether":
        known = {"saddr": packet.eth_src}
    elif protocol == "th" or _PROTOCOLS.get(protocol) == packet.protocol:
        if packet.protocol in (1, 58):
            known = {"type": packet.destination_port, "code": packet.icmp_code}
        else:
            known = {"sport": packet.source_port, "dport": packet.destination_port, "flags": packet.tcp_flags}
        if protocol == "th" and packet.protocol not in _WITH_PORTS:
            return None
    elif protocol in _PROTOCOLS:
        return None
    else:
        raise NotUnderstood(f"header {protocol or 'raw'}")
    if field not in known:
        raise NotUnderstood(f"{protocol} {field}")
    return known[field]


def _connection(key: str, packet: NftPacket, direction: str) -> int | str | None:
    """None where the packet has no such connection."""
    family, _, side = key.rpartition(" ")
    if side in ("saddr", "daddr") and direction:
        if direction not in packet.ct_addresses or family != ("ip" if packet.version == 4 else "ip6"):
            return None
        return packet.ct_addresses[direction][side == "daddr"]
    known = {
        "state": packet.ct_state,
        "status": packet.ct_status,
        "mark": packet.ct_mark,
        "direction": int(packet.reply),
    }
    if key not in known:
        raise NotUnderstood(f"ct {key}")
    return known[key]


def _covers(pattern: Any, value: Any) -> bool:
    """Whether a literal, prefix, range, wildcard or concatenation of these has the value."""
    if isinstance(pattern, Mapping):
        if "concat" in pattern:
            parts = pattern["concat"]
            return isinstance(value, tuple) and all(_covers(*both) for both in zip(parts, value, strict=True))
        if "prefix" in pattern:
            address, length = pattern["prefix"]["addr"], pattern["prefix"]["len"]
            if isinstance(address, int):
                return bool(int(value) >> (32 - length) == address >> (32 - length))
            network = ip_network(f"{address}/{length}", strict=False)
            return _is_address(value) and ip_address(value) in network
        if "range" in pattern:
            first, last = pattern["range"]
            if isinstance(first, str) and _is_address(first):
                own = ip_address(value)
                low, high = ip_address(first), ip_address(last)
                return own.version == low.version and int(low) <= int(own) <= int(high)
            return int(first) <= int(value) <= int(last)
        raise NotUnderstood(str(next(iter(pattern))))
    if isinstance(pattern, str) and isinstance(value, str):
        if pattern.endswith("*"):
            return value.startswith(pattern[:-1])
        if _is_address(pattern) and _is_address(value):
            return ip_address(pattern) == ip_address(value)
    return bool(pattern == value)


def _is_address(text: object) -> TypeGuard[str]:
    if not isinstance(text, str):
        return False
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def firewall_groups(hits: list[Hit]) -> Iterator[str]:
    """Ids of the firewall groups whose chains or counters decided."""
    for hit in hits:
        for name in (hit.chain, hit.counter):
            for prefix in ("firewall_ingress_", "firewall_egress_"):
                if name.startswith(prefix):
                    yield name.removeprefix(prefix).removeprefix("reply_")
