"""Canonical text of matches and actions, so that a flow read back from a bridge equals the one that was sent.

`ovs-ofctl` prints flows in another form than it was given: `ip` for an Ethernet type, `dl_vlan` for bits of a tag, host
bits of a prefix cut off. Here every value of a match is a number under a mask, and every field has one name, so that two
spellings of one match are one text.
"""

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from neutrino.caches import cached

# Whether a packet is a fragment, and whether it is one after the first: keywords, to value and mask.
_FRAGMENTS = {"no": (0, 3), "yes": (1, 1), "first": (1, 3), "later": (3, 3), "not_later": (0, 2)}
_FRAGMENT_WORDS = {numbers: word for word, numbers in _FRAGMENTS.items()}


class _Notation(NamedTuple):
    """How the values of a field are written."""

    parse: Callable[[str], int]
    format: Callable[[int], str]


_DECIMAL = _Notation(lambda text: int(text, 0), str)
_HEX = _Notation(lambda text: int(text, 0), hex)
_MAC = _Notation(lambda text: int(text.replace(":", ""), 16), lambda number: number.to_bytes(6, "big").hex(":"))
_IPV4 = _Notation(lambda text: int(IPv4Address(text)), lambda number: str(IPv4Address(number)))
_IPV6 = _Notation(lambda text: int(IPv6Address(text)), lambda number: str(IPv6Address(number)))
_FRAGMENT = _Notation(lambda text: _FRAGMENTS[text][0], lambda number: _FRAGMENT_WORDS[number, 3])

_REGISTERS = tuple(f"reg{number}" for number in range(16))
_FIELDS: dict[str, tuple[int, _Notation]] = {
    name: (width, notation)
    for width, notation, names in (
        (2, _FRAGMENT, ("nw_frag",)),
        (6, _DECIMAL, ("ip_dscp",)),
        (8, _DECIMAL, ("nw_proto", "nw_tos", "nw_ttl", "icmp_type", "icmp_code", "nd_options_type", "ct_nw_proto")),
        (16, _DECIMAL, ("ct_zone", "tp_src", "tp_dst", "tcp_flags", "arp_op", "ct_tp_src", "ct_tp_dst")),
        (16, _HEX, ("dl_type", "vlan_tci")),
        (32, _DECIMAL, ("in_port", "conj_id", "ct_state", "nd_reserved")),
        (32, _HEX, ("ct_mark", *_REGISTERS)),
        (32, _IPV4, ("nw_src", "nw_dst", "arp_spa", "arp_tpa", "ct_nw_src", "ct_nw_dst")),
        (48, _MAC, ("dl_src", "dl_dst", "arp_sha", "arp_tha", "nd_sll", "nd_tll")),
        (64, _HEX, ("tun_id", "metadata")),
        (128, _IPV6, ("ipv6_src", "ipv6_dst", "nd_target", "ct_ipv6_src", "ct_ipv6_dst")),
    )
    for name in names
}
_ALIASES = {
    **{f"eth_{part}": f"dl_{part}" for part in ("src", "dst", "type")},
    **{f"ip_{part}": f"nw_{part}" for part in ("proto", "frag", "src", "dst")},
    **{f"icmpv6_{part}": f"icmp_{part}" for part in ("type", "code")},
    **{f"{protocol}_{end}": f"tp_{end}" for protocol in ("tcp", "udp", "sctp") for end in ("src", "dst")},
    "tunnel_id": "tun_id",
    # The names in `move` and `learn`.
    **{f"NXM_OF_{part}": part.lower() for part in ("IN_PORT", "VLAN_TCI", "ARP_SPA", "ARP_TPA")},
    **{f"NXM_OF_ETH_{part}": f"dl_{part.lower()}" for part in ("SRC", "DST")},
    **{f"NXM_NX_{part}": part.lower() for part in ("ARP_SHA", "ARP_THA", "IPV6_SRC", "IPV6_DST", "TUN_ID")},
    **{f"NXM_NX_{register.upper()}": register for register in _REGISTERS},
}
CT_BITS = {"new": 0x01, "est": 0x02, "rel": 0x04, "rpl": 0x08, "inv": 0x10, "trk": 0x20, "snat": 0x40, "dnat": 0x80}
# Keywords for an Ethernet type, or for that of IP and a protocol.
_ETHER_TYPES = {"arp": 0x0806, "rarp": 0x8035, "mpls": 0x8847, "mplsm": 0x8848, "ip": 0x0800, "ipv6": 0x86DD}
_KEYWORDS: dict[str, tuple[int, int | None]] = {
    **{name: (ether_type, None) for name, ether_type in _ETHER_TYPES.items()},
    **{name: (0x0800, number) for name, number in {"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1}.items()},
    **{name: (0x86DD, number) for name, number in {"tcp6": 6, "udp6": 17, "sctp6": 132, "icmp6": 58}.items()},
}
_KEYWORD_OF = {numbers: keyword for keyword, numbers in _KEYWORDS.items()}
_VLAN_PRESENT, _VLAN_EXACT = 0x1000, 0x1FFF

# --- fields ---


def field_name(name: str) -> str:
    """The canonical name of a field: `dl_src` for `eth_src` and for `NXM_OF_ETH_SRC[]`."""
    bare = name.partition("[")[0]
    known = _ALIASES.get(bare, bare)
    if known not in _FIELDS:
        raise ValueError(f"unknown field {name!r}")
    return known


def parse_number(field: str, text: str) -> int:
    return _FIELDS[field][1].parse(text)


def format_number(field: str, number: int) -> str:
    return _FIELDS[field][1].format(number)


def _parse_value(field: str, text: str) -> tuple[int, int]:
    """The number and the mask of `value` or `value/mask`."""
    if field == "ct_state":
        return _parse_ct_state(text)
    if field == "nw_frag":
        return _FRAGMENTS[text]
    value, slash, mask = text.partition("/")
    width, notation = _FIELDS[field]
    ones = (1 << width) - 1
    if mask.isdigit() and notation in (_IPV4, _IPV6):
        ones ^= (1 << (width - int(mask))) - 1
    elif slash:
        ones = parse_number(field, mask)
    return parse_number(field, value) & ones, ones


def _parse_ct_state(text: str) -> tuple[int, int]:
    value = mask = 0
    for part in text.replace("+", " +").replace("-", " -").split():
        bit = CT_BITS[part[1:]]
        mask |= bit
        value |= bit if part[0] == "+" else 0
    return value, mask


def _format_value(field: str, value: int, mask: int) -> str:
    if field == "ct_state":
        return "".join(("+" if value & bit else "-") + name for name, bit in CT_BITS.items() if mask & bit)
    if field == "nw_frag":
        return _FRAGMENT_WORDS[value, mask]
    width, notation = _FIELDS[field]
    ones, prefix = (1 << width) - 1, mask.bit_count()
    if mask == ones:
        return notation.format(value)
    if notation in (_IPV4, _IPV6) and mask == ones ^ ((1 << (width - prefix)) - 1):
        return f"{notation.format(value)}/{prefix}"
    if notation in (_IPV4, _IPV6, _MAC):
        return f"{notation.format(value)}/{notation.format(mask)}"
    return f"{value:#x}/{mask:#x}"


# --- matches ---

_Field = tuple[str, tuple[int, int], str]
"""A field's name, its value and mask, and its canonical text."""


@cached(maxsize=16384)  # a port's addresses and ofport are in many flows
def _read(part: str) -> tuple[_Field, ...]:
    name, equals, text = part.partition("=")
    if not equals:
        ether_type, protocol = _KEYWORDS[name]
        read = (_field("dl_type", ether_type, 0xFFFF),)
        return read if protocol is None else (*read, _field("nw_proto", protocol, 0xFF))
    if name == "dl_vlan":
        return (_field("vlan_tci", _VLAN_PRESENT | int(text, 0), _VLAN_EXACT),)
    field = field_name(name)
    number, mask = _parse_value(field, text)
    return (_field(field, number, mask),) if mask else ()  # an empty mask matches everything


def _field(field: str, value: int, mask: int) -> _Field:
    if field == "vlan_tci" and mask == _VLAN_EXACT and value & _VLAN_PRESENT:
        text = f"dl_vlan={value & 0xFFF}"
    elif field == "vlan_tci":
        text = f"vlan_tci={value:#06x}/{mask:#06x}" if mask != 0xFFFF else f"vlan_tci={value:#06x}"
    else:
        text = f"{field}={_format_value(field, value, mask)}"
    return field, (value, mask), text


def match_fields(text: str) -> Iterator[_Field]:
    """The fields of a match in any of the forms that ovs-ofctl reads and prints."""
    for part in text.split(","):
        if part and not part.isspace():
            yield from _read(part.strip())


def canonical_match(text: str) -> str:
    fields = {field[0]: field for field in match_fields(text)}
    words = _take_keyword(fields) if "dl_type" in fields else []
    return ",".join([*words, *(fields[field][2] for field in sorted(fields))])


def _take_keyword(fields: dict[str, _Field]) -> list[str]:
    """The keyword of an Ethernet type, or of it and a protocol, which it replaces in `fields`."""
    (ether_type, _), protocol = fields["dl_type"][1], fields.get("nw_proto")
    if protocol is not None and (both := _KEYWORD_OF.get((ether_type, protocol[1][0]))) is not None:
        del fields["dl_type"], fields["nw_proto"]
        return [both]
    keyword = _KEYWORD_OF.get((ether_type, None))
    if keyword is None:
        return []
    del fields["dl_type"]
    return [keyword]


# --- actions ---

_BOUNDARY = re.compile(r"[(),]")
_LEARN_SETTINGS = ("table", "idle_timeout", "hard_timeout", "priority", "cookie", "limit")
_LEARN_FLAGS = ("delete_learned",)


def split_actions(text: str) -> tuple[str, ...]:
    """The actions of a list, split at the commas outside of parentheses."""
    parts: list[str] = []
    depth = start = 0
    for boundary in _BOUNDARY.finditer(text):
        character = boundary[0]
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : boundary.start()].strip())
            start = boundary.end()
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def arguments(action: str) -> str:
    """The text between the parentheses of an action."""
    return action[action.index("(") + 1 : action.rindex(")")]


def parse_set_field(action: str) -> tuple[str, int]:
    """The field and the number of `set_field:value->field`; `vlan_vid` keeps its name."""
    value, _, name = action.removeprefix("set_field:").partition("->")
    if name == "vlan_vid":
        return name, int(value, 0)
    field = field_name(name)
    return field, parse_number(field, value)


def _cached_if_short(canonical: Callable[[str], str]) -> Callable[[str], str]:
    """Caches short texts. A long one lists every port of a network and changes with each port."""
    short = cached(maxsize=16384)(canonical)
    return lambda text: short(text) if len(text) <= 200 else canonical(text)


@_cached_if_short
def canonical_actions(text: str) -> str:
    if text in ("", "drop"):
        return "drop"
    parts = [_canonical_action(split_action) for split_action in split_actions(text)]
    if all(part.startswith("conjunction(") for part in parts):
        parts.sort()  # a set: their order has no meaning
    return ",".join(parts)


@_cached_if_short
def _canonical_action(action: str) -> str:
    if action.startswith("set_field:"):
        field, number = parse_set_field(action)
        name = action.rpartition("->")[2]
        return f"set_field:{number if field == 'vlan_vid' else format_number(field, number)}->{name}"
    if action.startswith("ct("):
        parts = split_actions(arguments(action))
        inner = [f"exec({canonical_actions(arguments(part))})" for part in parts if part.startswith("exec(")]
        return f"ct({','.join(sorted(part for part in parts if not part.startswith('exec(')) + inner)})"
    if action.startswith("clone("):
        return f"clone({canonical_actions(arguments(action))})"
    if action.startswith("learn("):
        return _canonical_learn(action)
    if action == "strip_vlan":
        return "pop_vlan"
    if action.startswith("goto_table:"):
        return f"resubmit(,{action.removeprefix('goto_table:')})"
    return action


def _canonical_learn(action: str) -> str:
    parts = split_actions(arguments(action))
    settings = dict(part.split("=", 1) for part in parts if part.partition("=")[0] in _LEARN_SETTINGS)
    given = [f"{name}={int(settings[name], 0)}" for name in _LEARN_SETTINGS if int(settings.get(name, "0"), 0)]
    flags = [part for part in parts if part in _LEARN_FLAGS]
    # The rest is a match and actions, whose order has a meaning.
    rest = [part for part in parts if part.partition("=")[0] not in (*_LEARN_SETTINGS, *_LEARN_FLAGS)]
    return f"learn({','.join(given + flags + rest)})"
