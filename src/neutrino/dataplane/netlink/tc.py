"""Traffic control of devices: qdiscs, classes and filters, as values, and their plan.

What is supported is what routers shape with: a root qdisc (`tbf` for a whole device; `htb` with classes below it and
u32 filters that choose a class by IPv4 address), and `ingress` or `clsact`. A packet can also be classified by an nft
rule: `meta priority set 1:10` puts it into class 10 of qdisc 1.

Values hold what the kernel stores (bytes a second, and the burst in the kernel's clock ticks), so that what is read
back compares equal with what was set. Make them with `tbf`, `htb`, `htb_class` and `u32_filter`. Qdiscs with handle 0
are the kernel's defaults and are not read.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable
from typing import Final

_TICKS: Final = 15_625_000  # of the kernel's packet scheduler in a second: one is 64 ns
_MOST_BYTES: Final = (1 << 32) - 1


@dataclasses.dataclass(frozen=True, order=True)
class Qdisc:
    """The root qdisc of a device, or its `ingress` or `clsact` qdisc, which has handle ffff:."""

    device: str
    kind: str
    handle: int = 1
    rate: int = 0  # tbf: bytes a second
    burst: int = 0  # tbf: in ticks at that rate
    limit: int = 0  # tbf: bytes that may wait
    default: int = 0  # htb: the class of packets that nothing classifies; 0: they are not shaped

    @property
    def key(self) -> tuple[object, ...]:
        return "qdisc", self.device, self.kind, self.handle, self.default  # the kernel cannot change an htb's default


@dataclasses.dataclass(frozen=True, order=True)
class Class:
    """A class below the root of an htb qdisc."""

    device: str
    handle: int  # of the qdisc
    minor: int
    rate: int = 0
    ceil: int = 0
    burst: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        return "class", self.device, self.handle, self.minor


@dataclasses.dataclass(frozen=True, order=True)
class Filter:
    """Packets of one source or destination prefix go to a class; the kernel finds the lowest priority first."""

    device: str
    handle: int  # of the qdisc
    priority: int
    minor: int = 0  # of the class
    source: str = ""
    destination: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        return "filter", self.device, self.handle, self.priority


TcItem = Qdisc | Class | Filter


def tbf(device: str, *, kbit: int, burst: int, limit: int, handle: int = 1) -> Qdisc:
    """A token bucket for all that leaves a device: `burst` bytes at once, `limit` bytes waiting."""
    rate = _rate(kbit)
    return Qdisc(device, "tbf", handle, rate, ticks(burst, rate), limit)


def htb(device: str, *, default: int = 0, handle: int = 1) -> Qdisc:
    return Qdisc(device, "htb", handle, default=default)


def htb_class(device: str, minor: int, *, kbit: int, ceil_kbit: int = 0, burst: int = 16384, handle: int = 1) -> Class:
    rate = _rate(kbit)
    return Class(device, handle, minor, rate, _rate(ceil_kbit or kbit), ticks(burst, rate))


def u32_filter(
    device: str, minor: int, *, priority: int, source: str = "", destination: str = "", handle: int = 1
) -> Filter:
    if bool(source) == bool(destination):
        raise ValueError("a filter matches either a source or a destination")
    prefixes = (str(ipaddress.IPv4Network(each)) if each else "" for each in (source, destination))
    return Filter(device, handle, priority, minor, *prefixes)


def _rate(kbit: int) -> int:
    if not 0 < kbit * 125 <= _MOST_BYTES:
        raise ValueError(f"{kbit} kbit/s: not a rate that the kernel stores")
    return kbit * 125


def ticks(burst: int, rate: int) -> int:
    """The time that `burst` bytes take at this rate, in the unit in which the kernel stores a burst."""
    return max(1, burst * _TICKS // rate)


# --- the plan ---


def plan_tc(desired: Iterable[TcItem], actual: Iterable[TcItem]) -> tuple[tuple[TcItem, ...], tuple[TcItem, ...]]:
    """What to delete, then what to set, each in the order in which the kernel takes it. Pure.

    A qdisc or class whose parameters differ is changed in place: packets that wait in it stay. A filter is replaced. A
    deleted qdisc takes along its classes and filters.
    """
    wanted, there = {each.key: each for each in desired}, {each.key: each for each in actual}
    gone = {key for key in there if key not in wanted}
    heads = {(each.device, each.handle) for key in gone if isinstance(each := there[key], Qdisc)}
    # Deleted with their qdisc: deleting them singly would fail, and those that are wanted have to be set again.
    lost = {key for key, each in there.items() if not isinstance(each, Qdisc) and (each.device, each.handle) in heads}
    replaced = {key for key in there.keys() - lost if isinstance(there[key], Filter) and there[key] != wanted.get(key)}
    new = [each for key, each in wanted.items() if key in lost or there.get(key) != each]
    delete = [there[key] for key in ((gone - lost) | replaced)]
    return tuple(sorted(delete, key=_order, reverse=True)), tuple(sorted(new, key=_order))


def _order(item: TcItem) -> tuple[object, ...]:
    return (Qdisc, Class, Filter).index(type(item)), item.key
