"""The canonical form of elements of sets and maps, so that rendered elements compare equal with those in nft's JSON.

`key` or `key : value`; parts of a concatenation are joined with ` . `. Addresses are in Python's notation, a prefix of
one address as that address, protocols and marks as decimal numbers, and device names in quotes, because some would be
keywords of nft otherwise.

An element of a set may have a limit of its own (`limit`), which follows its key. A rule that finds the element matches
only packets over that limit.
"""

import ipaddress
from typing import Any

from neutrino.caches import cached
from neutrino.model.objects import Object

_LIMIT = " limit "
_UNITS = {
    "bytes": 1,
    "kbytes": 1024,
    "mbytes": 1024**2,
    "gbytes": 1024**3,
}  # nft lists the largest that divides the rate
_PROTOCOLS = {"icmp": "1", "tcp": "6", "udp": "17", "dccp": "33", "icmpv6": "58", "ipv6-icmp": "58", "sctp": "132"}


@cached(maxsize=8192)  # a router's elements are compared at every change of one of them
def canonical_element(text: str, type_: str) -> str:
    """`type_` is that of the set or map, such as `ifname . ipv4_addr : verdict`."""
    text, limited, limit_text = text.partition(_LIMIT)
    types = [side.split(" . ") for side in type_.split(" : ")]
    sides = [side.split(" . ") for side in text.strip().split(" : ")]
    if [len(side) for side in sides] != [len(side) for side in types]:
        raise ValueError(f"element {text}: not of type {type_}")
    words = (map(_canonical_word, *pair) for pair in zip(sides, types, strict=True))
    return " : ".join(" . ".join(side) for side in words) + limited + limit_text


def key_of(element: str) -> str:
    return element.partition(" : ")[0].partition(_LIMIT)[0]


def limit(rate: int, burst: int, *, packets: bool = False) -> str:
    """The statement of packets over a rate, in bytes or packets a second.

    The kernel's token bucket holds `burst` packets, but of bytes the rate of one second and `burst` more.
    """
    if packets:
        return f"limit rate over {rate}/second burst {burst} packets"
    return f"limit rate over {rate} bytes/second burst {burst} bytes"


def _canonical_word(word: str, type_: str) -> str:
    word = word.strip().strip('"')
    if type_ == "ifname":
        return f'"{word}"'
    if type_ == "inet_proto":
        return _PROTOCOLS.get(word, word)
    if word[:2].lower() == "0x":
        return str(int(word, 16))
    first, dash, last = word.partition("-")
    if dash and type_.endswith("_addr"):
        return f"{_ip(first)}-{_ip(last)}"
    return _ip(word) or word.lower() if type_.endswith("_addr") else word


def _ip(word: str) -> str:
    try:
        network = ipaddress.ip_network(word)
    except ValueError:
        return ""
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def element_from_json(value: object, type_: str) -> str:
    """One element of what `nft -j` lists: of a map, a pair."""
    sides = value if isinstance(value, list) else [value]
    return canonical_element(" : ".join(map(_side, sides)), type_)


def _side(value: Any) -> str:
    match value:
        case {"elem": {"val": inner, "limit": {"rate": rate, "burst": burst, "per": "second", "inv": True} as found}}:
            if found.get("rate_unit", "packets") == "packets":
                return f"{_side(inner)} {limit(rate, burst, packets=True)}"
            rate, burst = rate * _UNITS[found["rate_unit"]], burst * _UNITS[found["burst_unit"]]
            return f"{_side(inner)} {limit(rate, burst)}"
        case {"elem": {"val": inner}}:  # with a comment, a counter or a time
            return _side(inner)
        case {"concat": parts}:
            return " . ".join(_side(part) for part in parts)
        case {"prefix": {"addr": address, "len": length}}:
            return f"{address}/{length}"
        case {"range": [first, last]}:
            return f"{_side(first)}-{_side(last)}"
        case {"jump": {"target": target}}:
            return f"jump {target}"
        case {"goto": {"target": target}}:
            return f"goto {target}"
        case {"accept": _} | {"drop": _} | {"return": _} | {"continue": _}:
            return str(next(iter(value)))
        case str() | int():
            return str(value)
        case _:
            return repr(value)  # of a kind that we never render: it equals nothing


def type_from_json(found: Object) -> str:
    """The type of a set or map, as it is written."""
    sides = [found["type"], *([found["map"]] if "map" in found else [])]
    return " : ".join(" . ".join(side) if isinstance(side, list) else side for side in sides)
