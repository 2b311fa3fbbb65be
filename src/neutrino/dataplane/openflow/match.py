"""What a flow matches: canonical text, so that a match read back from a bridge equals the one that was sent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from neutrino.dataplane.openflow.fields import KEYWORDS, all_ones, field_name, format_value, parse_value

Match = dict[str, tuple[int, int]]
"""Field, to value and mask."""

_VLAN_PRESENT = 0x1000
_VLAN_EXACT = 0x1FFF
_BY_NUMBERS = {numbers: keyword for keyword, numbers in KEYWORDS.items()}


_Read = tuple[str, tuple[int, int], str]
"""A field, its value and mask, and both as text."""


@lru_cache(maxsize=16384)  # a port's addresses and number are in many flows
def _read(part: str) -> tuple[_Read, ...]:
    name, equals, text = part.partition("=")
    if not equals:
        ether_type, protocol = KEYWORDS[name]
        read = (_field("dl_type", ether_type, 0xFFFF),)
        return read if protocol is None else (*read, _field("nw_proto", protocol, 0xFF))
    if name == "dl_vlan":
        return (_field("vlan_tci", _VLAN_PRESENT | int(text, 0), _VLAN_EXACT),)
    field = field_name(name)
    number, mask = parse_value(field, text)
    return (_field(field, number, mask),) if mask else ()  # a mask of nothing matches everything


def _field(field: str, value: int, mask: int) -> _Read:
    if field == "vlan_tci" and mask == _VLAN_EXACT and value & _VLAN_PRESENT:
        text = f"dl_vlan={value & 0xFFF}"
    elif field == "vlan_tci":
        text = f"vlan_tci={value:#06x}/{mask:#06x}" if mask != all_ones(field) else f"vlan_tci={value:#06x}"
    else:
        text = f"{field}={format_value(field, value, mask)}"
    return field, (value, mask), text


def _parts(text: str) -> Iterator[_Read]:
    for part in text.split(","):
        if part and not part.isspace():
            yield from _read(part.strip())


def parse_match(text: str) -> Match:
    """The fields of a match in any of the forms that ovs-ofctl reads and writes."""
    return dict(_parsed(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[tuple[str, tuple[int, int]], ...]:
    return tuple((field, numbers) for field, numbers, _ in _parts(text))


def canonical_match(text: str) -> str:
    fields = {read[0]: read for read in _parts(text)}
    words = _take_keyword(fields) if "dl_type" in fields else []
    return ",".join([*words, *(fields[field][2] for field in sorted(fields))])


def _take_keyword(fields: dict[str, _Read]) -> list[str]:
    """The word for an Ethernet type, with the protocol where there is one for both, in the place of the numbers."""
    (ether_type, _), protocol = fields["dl_type"][1], fields.get("nw_proto")
    if protocol is not None and (both := _BY_NUMBERS.get((ether_type, protocol[1][0]))) is not None:
        del fields["dl_type"], fields["nw_proto"]
        return [both]
    keyword = _BY_NUMBERS.get((ether_type, None))
    if keyword is None:
        return []
    del fields["dl_type"]
    return [keyword]


def accepts(match: Match, packet: dict[str, int]) -> bool:
    """Whether a packet, given as its fields, is matched; a field that it does not have is zero."""
    return all(packet.get(field, 0) & mask == value for field, (value, mask) in match.items())
