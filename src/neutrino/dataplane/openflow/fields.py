"""The fields of a packet that flows match and change: one name each, values as numbers.

`ovs-ofctl` writes what it reads in another form: `ip` for an Ethernet type, `dl_vlan` for bits of a tag, host bits of a
prefix cut off. Here every value is a number under a mask, so that two spellings of one match are one value.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

WIDTHS: dict[str, int] = {
    "in_port": 32,
    "tun_id": 64,
    "metadata": 64,
    "conj_id": 32,
    "ct_state": 32,
    "ct_zone": 16,
    "ct_mark": 32,
    "dl_src": 48,
    "dl_dst": 48,
    "dl_type": 16,
    "vlan_tci": 16,
    "nw_proto": 8,
    "nw_src": 32,
    "nw_dst": 32,
    "nw_tos": 8,
    "nw_ttl": 8,
    "nw_frag": 2,
    "ipv6_src": 128,
    "ipv6_dst": 128,
    "tp_src": 16,
    "tp_dst": 16,
    "tcp_flags": 16,
    "icmp_type": 8,
    "icmp_code": 8,
    "arp_op": 16,
    "arp_spa": 32,
    "arp_tpa": 32,
    "arp_sha": 48,
    "arp_tha": 48,
    "nd_target": 128,
    "nd_sll": 48,
    "nd_tll": 48,
    "nd_reserved": 32,
    "nd_options_type": 8,
    "ct_nw_proto": 8,
    "ct_nw_src": 32,
    "ct_nw_dst": 32,
    "ct_tp_src": 16,
    "ct_tp_dst": 16,
    **{f"reg{number}": 32 for number in range(16)},
}

_MACS = {"dl_src", "dl_dst", "arp_sha", "arp_tha", "nd_sll", "nd_tll"}
_IPV4 = {"nw_src", "nw_dst", "arp_spa", "arp_tpa", "ct_nw_src", "ct_nw_dst"}
_IPV6 = {"ipv6_src", "ipv6_dst", "nd_target"}
_ADDRESSES = _IPV4 | _IPV6
_WITH_MASK = _MACS | _ADDRESSES
_HEX = {"tun_id", "metadata", "ct_mark", "vlan_tci", "dl_type", *(f"reg{number}" for number in range(16))}

_ALIASES = {
    "eth_src": "dl_src",
    "eth_dst": "dl_dst",
    "eth_type": "dl_type",
    "ip_proto": "nw_proto",
    "ip_frag": "nw_frag",
    "ip_src": "nw_src",
    "ip_dst": "nw_dst",
    "tunnel_id": "tun_id",
    "icmpv6_type": "icmp_type",
    "icmpv6_code": "icmp_code",
    **{f"{protocol}_{end}": f"tp_{end}" for protocol in ("tcp", "udp", "sctp") for end in ("src", "dst")},
}

# As `move` and `learn` name them.
_NXM = {
    "NXM_OF_IN_PORT": "in_port",
    "NXM_OF_ETH_SRC": "dl_src",
    "NXM_OF_ETH_DST": "dl_dst",
    "NXM_OF_VLAN_TCI": "vlan_tci",
    "NXM_OF_ARP_SPA": "arp_spa",
    "NXM_OF_ARP_TPA": "arp_tpa",
    "NXM_NX_ARP_SHA": "arp_sha",
    "NXM_NX_ARP_THA": "arp_tha",
    "NXM_NX_IPV6_SRC": "ipv6_src",
    "NXM_NX_IPV6_DST": "ipv6_dst",
    "NXM_NX_TUN_ID": "tun_id",
    **{f"NXM_NX_REG{number}": f"reg{number}" for number in range(16)},
}

# Whether a packet is a fragment, and whether it is one after the first: words, to value and mask.
FRAGMENTS = {"no": (0, 3), "yes": (1, 1), "first": (1, 3), "later": (3, 3), "not_later": (0, 2)}
_FRAGMENT_WORDS = {numbers: word for word, numbers in FRAGMENTS.items()}

CT_BITS = {"new": 0x01, "est": 0x02, "rel": 0x04, "rpl": 0x08, "inv": 0x10, "trk": 0x20, "snat": 0x40, "dnat": 0x80}

# Shorthand for an Ethernet type and an IP protocol.
KEYWORDS: dict[str, tuple[int, int | None]] = {
    "arp": (0x0806, None),
    "rarp": (0x8035, None),
    "mpls": (0x8847, None),
    "mplsm": (0x8848, None),
    "ip": (0x0800, None),
    "ipv6": (0x86DD, None),
    "tcp": (0x0800, 6),
    "udp": (0x0800, 17),
    "sctp": (0x0800, 132),
    "icmp": (0x0800, 1),
    "tcp6": (0x86DD, 6),
    "udp6": (0x86DD, 17),
    "sctp6": (0x86DD, 132),
    "icmp6": (0x86DD, 58),
}


def field_name(name: str) -> str:
    """The one name of a field, whatever it was called: `eth_src`, `NXM_OF_ETH_SRC[]`, `dl_src`."""
    bare = name.partition("[")[0]
    known = _NXM.get(bare) or _ALIASES.get(bare, bare)
    if known not in WIDTHS:
        raise ValueError(f"unknown field {name!r}")
    return known


def all_ones(field: str) -> int:
    return (1 << WIDTHS[field]) - 1


def parse_number(field: str, text: str) -> int:
    if field in _MACS:
        return int(text.replace(":", ""), 16)
    if field in _IPV4:
        return int(IPv4Address(text))
    if field in _IPV6:
        return int(IPv6Address(text))
    if field == "nw_frag":
        return FRAGMENTS[text][0]
    return int(text, 0)


def format_number(field: str, number: int) -> str:
    if field in _MACS:
        return ":".join(f"{number:012x}"[i : i + 2] for i in range(0, 12, 2))
    if field in _IPV4:
        return str(IPv4Address(number))
    if field in _IPV6:
        return str(IPv6Address(number))
    if field == "nw_frag":
        return _FRAGMENT_WORDS[number, all_ones(field)]
    return hex(number) if field in _HEX else str(number)


def _parse_mask(field: str, text: str) -> int:
    if text.isdigit() and field in _ADDRESSES:
        width = WIDTHS[field]
        return all_ones(field) ^ ((1 << (width - int(text))) - 1)
    return parse_number(field, text)


def parse_value(field: str, text: str) -> tuple[int, int]:
    """The number and the mask of `value` or `value/mask`."""
    if field == "ct_state":
        return _parse_ct_state(text)
    if field == "nw_frag":
        return FRAGMENTS[text]
    value, slash, mask = text.partition("/")
    ones = _parse_mask(field, mask) if slash else all_ones(field)
    return parse_number(field, value) & ones, ones


def format_value(field: str, value: int, mask: int) -> str:
    if field == "ct_state":
        return "".join(("+" if value & bit else "-") + name for name, bit in CT_BITS.items() if mask & bit)
    if field == "nw_frag":
        return _FRAGMENT_WORDS[value, mask]
    text = format_number(field, value)
    if mask == all_ones(field):
        return text
    if field in _ADDRESSES:
        prefix = mask.bit_count()
        if mask == all_ones(field) ^ ((1 << (WIDTHS[field] - prefix)) - 1):
            return f"{text}/{prefix}"
    if field in _WITH_MASK:
        return f"{text}/{format_number(field, mask)}"
    return f"{value:#x}/{mask:#x}"


@lru_cache(maxsize=256)
def _parse_ct_state(text: str) -> tuple[int, int]:
    value = mask = 0
    for sign, name in _signed(text):
        mask |= CT_BITS[name]
        if sign == "+":
            value |= CT_BITS[name]
    return value, mask


def _signed(text: str) -> list[tuple[str, str]]:
    parts = text.replace("+", " +").replace("-", " -").split()
    return [(part[0], part[1:]) for part in parts]
