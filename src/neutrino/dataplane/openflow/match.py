"""What a flow matches: canonical text, so that a match read back from a bridge equals the one that was sent."""

from __future__ import annotations

from functools import lru_cache

from neutrino.dataplane.openflow.fields import KEYWORDS, all_ones, field_name, format_value, parse_value

Match = dict[str, tuple[int, int]]
"""Field, to value and mask."""

_VLAN_PRESENT = 0x1000
_VLAN_EXACT = 0x1FFF
_BY_NUMBERS = {numbers: keyword for keyword, numbers in KEYWORDS.items()}


@lru_cache(maxsize=65536)
def _parsed(text: str) -> tuple[tuple[str, tuple[int, int]], ...]:
    match: Match = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            ether_type, protocol = KEYWORDS[name]
            match["dl_type"] = (ether_type, 0xFFFF)
            if protocol is not None:
                match["nw_proto"] = (protocol, 0xFF)
        elif name == "dl_vlan":
            match["vlan_tci"] = (_VLAN_PRESENT | int(value, 0), _VLAN_EXACT)
        else:
            field = field_name(name)
            number, mask = parse_value(field, value)
            if mask:  # a mask of nothing matches everything
                match[field] = (number, mask)
    return tuple(sorted(match.items()))


def parse_match(text: str) -> Match:
    """The fields of a match in any of the forms that ovs-ofctl reads and writes."""
    return dict(_parsed(text))


def _format(match: Match) -> str:
    fields = dict(match)
    parts: list[str] = []
    ether_type, protocol = fields.get("dl_type"), fields.get("nw_proto")
    if ether_type is not None:
        keyword = _BY_NUMBERS.get((ether_type[0], protocol[0])) if protocol is not None else None
        if keyword is not None:
            del fields["nw_proto"]
        else:
            keyword = _BY_NUMBERS.get((ether_type[0], None))
        if keyword is not None:
            del fields["dl_type"]
            parts.append(keyword)
    for field in sorted(fields):
        value, mask = fields[field]
        if field == "vlan_tci" and mask == _VLAN_EXACT and value & _VLAN_PRESENT:
            parts.append(f"dl_vlan={value & 0xFFF}")
        elif field == "vlan_tci":
            parts.append(f"vlan_tci={value:#06x}/{mask:#06x}" if mask != all_ones(field) else f"vlan_tci={value:#06x}")
        else:
            parts.append(f"{field}={format_value(field, value, mask)}")
    return ",".join(parts)


@lru_cache(maxsize=65536)
def canonical_match(text: str) -> str:
    return _format(dict(_parsed(text)))


def accepts(match: Match, packet: dict[str, int]) -> bool:
    """Whether a packet, given as its fields, is matched; a field that it does not have is zero."""
    return all(packet.get(field, 0) & mask == value for field, (value, mask) in match.items())
