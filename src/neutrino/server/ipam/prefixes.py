"""Arithmetic of prefixes as spans of numbers: union, difference, and the lowest free prefix. Pure.

A span is the first and the last address of a prefix. A pool with thousands of subnets, or a whole IPv6 /40, is searched in
one pass over its allocated prefixes, never over its free ones.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

Span = tuple[int, int]
BITS = {4: 32, 6: 128}
QUOTA_UNIT = {4: 32, 6: 64}  # a pool's quota counts /32s, or /64s


@lru_cache(maxsize=65536)
def parse(cidr: str) -> tuple[int, int, int]:
    """IP version, first and last address of a CIDR; cached, because every allocation reads all subnets of its pool."""
    network = ipaddress.ip_network(cidr)
    first = int(network.network_address)
    return network.version, first, first + network.num_addresses - 1


def version(cidr: str) -> int:
    return parse(cidr)[0]


def length(cidr: str) -> int:
    return int(cidr.rpartition("/")[2])


def spans(cidrs: Iterable[str]) -> list[Span]:
    """The CIDRs as sorted spans; overlapping and adjacent ones are joined."""
    joined: list[Span] = []
    for _, first, last in sorted(parse(cidr) for cidr in cidrs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def cidrs(of: Iterable[Span], ip_version: int) -> list[str]:
    """The fewest CIDRs that are exactly these spans."""
    kind = ipaddress.IPv4Address if ip_version == 4 else ipaddress.IPv6Address
    return [
        str(network) for first, last in of for network in ipaddress.summarize_address_range(kind(first), kind(last))
    ]


def compact(of: Sequence[str]) -> list[str]:
    """The same addresses in the fewest prefixes; all of one IP version."""
    return cidrs(spans(of), version(of[0])) if of else []


def subtract(whole: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """The parts of `whole` that are not in `taken`; both are sorted and joined, as `spans` returns them."""
    left: list[Span] = []
    position = 0
    for first, last in whole:
        while position < len(taken) and taken[position][1] < first:
            position += 1
        at = position
        while at < len(taken) and taken[at][0] <= last:
            if taken[at][0] > first:
                left.append((first, taken[at][0] - 1))
            first = max(first, taken[at][1] + 1)
            at += 1
        if first <= last:
            left.append((first, last))
    return left


def overlap(one: Iterable[str], other: Iterable[str]) -> bool:
    whole = spans(one)
    return subtract(whole, spans(other)) != whole


def covers(whole: Sequence[str], part: Sequence[str]) -> bool:
    """Whether every address of `part` is in `whole`, which may be of either IP version."""
    versions = {version(cidr) for cidr in part}
    return all(
        not subtract(spans(c for c in part if version(c) == v), spans(c for c in whole if version(c) == v))
        for v in versions
    )


def lowest_free(pool: Sequence[str], taken: Iterable[str], prefixlen: int) -> str | None:
    """The lowest prefix of this length in the pool that overlaps nothing taken."""
    if not pool:
        return None
    ip_version = version(pool[0])
    size = 1 << (BITS[ip_version] - prefixlen)
    for first, last in subtract(spans(pool), spans(taken)):
        start = -(-first // size) * size  # a prefix begins at a multiple of its size
        if start + size - 1 <= last:
            return f"{ipaddress.IPv4Address(start) if ip_version == 4 else ipaddress.IPv6Address(start)}/{prefixlen}"
    return None


def is_free(pool: Sequence[str], taken: Iterable[str], cidr: str) -> bool:
    """Whether the pool holds the whole CIDR and nothing taken overlaps it."""
    ip_version, first, last = parse(cidr)
    if not pool or version(pool[0]) != ip_version:
        return False
    return any(a <= first and last <= b for a, b in subtract(spans(pool), spans(taken)))


def within_quota(ip_version: int, used: Iterable[str], prefixlen: int, quota: int) -> bool:
    """Whether one more prefix of this length leaves the used ones within a quota in units of /32 or /64."""
    bits = BITS[ip_version]
    addresses = sum(1 << (bits - length(cidr)) for cidr in used) + (1 << (bits - prefixlen))
    return addresses <= quota << (bits - QUOTA_UNIT[ip_version])
