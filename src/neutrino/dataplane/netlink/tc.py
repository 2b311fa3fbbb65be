"""Traffic control of devices: qdiscs, classes and filters, as values, with their netlink encoding and their plan.

What is supported is what routers shape with: a root qdisc (`tbf` for a whole device; `htb` with classes below it and
u32 filters that choose a class by IPv4 address), and `ingress` or `clsact`. A packet can also be classified by an nft
rule: `meta priority set 1:10` puts it into class 10 of qdisc 1.

Values hold what the kernel stores (bytes a second, and the burst in the kernel's clock ticks), so that what is read
back compares equal with what was set. Make them with `tbf`, `htb`, `htb_class` and `u32_filter`. Qdiscs with handle 0
are the kernel's defaults and are not read.
"""

import dataclasses
import ipaddress
import socket
import struct
from collections.abc import Iterable
from typing import Final

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink.rtnetlink import as_number, as_text, attribute, nested, number, read_attributes, text

TC_MESSAGE: Final = struct.Struct("=BxxxiIII")  # family, device index, handle, parent, info
_RATE: Final = struct.Struct("=BBHhHI")  # cell log, link layer, overhead, cell alignment, minimum, bytes a second
_SELECTOR: Final = struct.Struct("=BBBxHHhhI")  # flags, offset shift, keys, offset mask, offset, two more, hash mask
_MATCH: Final = struct.Struct("!II")  # mask, value
_OFFSETS: Final = struct.Struct("=ii")  # offset in the packet, mask of a variable offset
_ETHERNET: Final = 1  # link layer: with it the kernel needs no table of rates
_TICKS: Final = 15_625_000  # of the kernel's packet scheduler in a second
_SOURCE_OFFSET, _DESTINATION_OFFSET = 12, 16  # in an IPv4 header
_IP: Final = socket.htons(0x0800)
_INGRESS_HANDLE: Final = 0xFFFF
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
    return Qdisc(device, "tbf", handle, rate, _ticks(burst, rate), limit)


def htb(device: str, *, default: int = 0, handle: int = 1) -> Qdisc:
    return Qdisc(device, "htb", handle, default=default)


def htb_class(device: str, minor: int, *, kbit: int, ceil_kbit: int = 0, burst: int = 16384, handle: int = 1) -> Class:
    rate = _rate(kbit)
    return Class(device, handle, minor, rate, _rate(ceil_kbit or kbit), _ticks(burst, rate))


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


def _ticks(burst: int, rate: int) -> int:
    return max(1, burst * _TICKS // rate)


# --- the plan ---


def plan_tc(desired: Iterable[TcItem], actual: Iterable[TcItem]) -> tuple[tuple[TcItem, ...], tuple[TcItem, ...]]:
    """What to delete, then what to set, each in the order in which the kernel takes it. Pure.

    A qdisc or class whose parameters differ is changed in place: packets that wait in it stay. A filter is replaced. A
    qdisc that goes takes along its classes and filters.
    """
    wanted, there = {each.key: each for each in desired}, {each.key: each for each in actual}
    gone = {key for key in there if key not in wanted}
    heads = {(each.device, each.handle) for key in gone if isinstance(each := there[key], Qdisc)}
    # With their qdisc: deleting them singly would fail, and those that are wanted have to be set again.
    lost = {key for key, each in there.items() if not isinstance(each, Qdisc) and (each.device, each.handle) in heads}
    replaced = {key for key in there.keys() - lost if isinstance(there[key], Filter) and there[key] != wanted.get(key)}
    new = [each for key, each in wanted.items() if key in lost or there.get(key) != each]
    delete = [there[key] for key in ((gone - lost) | replaced)]
    return tuple(sorted(delete, key=_order, reverse=True)), tuple(sorted(new, key=_order))


def _order(item: TcItem) -> tuple[object, ...]:
    return (Qdisc, Class, Filter).index(type(item)), item.key


# --- encoding ---


def encode(item: TcItem, index: int, *, delete: bool = False) -> bytes:
    """The body of a message that sets or deletes it on the device with this index."""
    major = item.handle << 16
    match item:
        case Qdisc():
            ingress = item.handle == _INGRESS_HANDLE
            head = TC_MESSAGE.pack(0, index, major, linux.TC_H_INGRESS if ingress else linux.TC_H_ROOT, 0)
            kind, options = item.kind, _qdisc_options(item)
        case Class():
            head = TC_MESSAGE.pack(0, index, major | item.minor, major, 0)
            parameters = struct.pack("=IIIII", item.burst, _ticks(1600, item.ceil or 1), 0, 0, 0)
            kind, options = "htb", attribute(linux.TCA_HTB_PARMS, _spec(item.rate) + _spec(item.ceil) + parameters)
        case Filter():
            head = TC_MESSAGE.pack(0, index, 0, major, item.priority << 16 | _IP)
            kind, options = "u32", number(linux.TCA_U32_CLASSID, major | item.minor) + _selector(item)
    body = head + text(linux.TCA_KIND, kind)
    return body if delete or not options else body + nested(linux.TCA_OPTIONS, options)


def _qdisc_options(qdisc: Qdisc) -> bytes:
    match qdisc.kind:
        case "tbf":
            parameters = struct.pack("=III", qdisc.limit, qdisc.burst, 0)
            return attribute(linux.TCA_TBF_PARMS, _spec(qdisc.rate) + bytes(_RATE.size) + parameters)
        case "htb":
            # Version 3, and a tenth of its rate for each class at a time.
            return attribute(linux.TCA_HTB_INIT, struct.pack("=IIIII", 3, 10, qdisc.default, 0, 0))
    return b""


def _spec(rate: int) -> bytes:
    return _RATE.pack(0, _ETHERNET, 0, -1, 0, rate)


def _selector(item: Filter) -> bytes:
    network = ipaddress.IPv4Network(item.source or item.destination)
    offset = _SOURCE_OFFSET if item.source else _DESTINATION_OFFSET
    mask, value = int(network.netmask), int(network.network_address)
    key = _MATCH.pack(mask, value) + _OFFSETS.pack(offset, 0)
    return attribute(linux.TCA_U32_SEL, _SELECTOR.pack(linux.TC_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + key)


# --- decoding ---


def decode_qdisc(content: bytes, device: str) -> Qdisc | None:
    """None for one that the kernel made by itself."""
    _, _, handle, _, _ = TC_MESSAGE.unpack_from(content)
    found = read_attributes(content, TC_MESSAGE.size)
    kind, options = _kind(found), read_attributes(found.get(linux.TCA_OPTIONS, b""), 0)
    if not handle >> 16:
        return None
    if kind == "tbf" and linux.TCA_TBF_PARMS in options:
        parameters = options[linux.TCA_TBF_PARMS]
        limit, burst, _ = struct.unpack_from("=III", parameters, 2 * _RATE.size)
        return Qdisc(device, kind, handle >> 16, _RATE.unpack_from(parameters)[-1], burst, limit)
    default = struct.unpack_from("=I", options[linux.TCA_HTB_INIT], 8)[0] if linux.TCA_HTB_INIT in options else 0
    return Qdisc(device, kind, handle >> 16, default=default if kind == "htb" else 0)


def decode_class(content: bytes, device: str) -> Class | None:
    _, _, handle, _, _ = TC_MESSAGE.unpack_from(content)
    found = read_attributes(content, TC_MESSAGE.size)
    parameters = read_attributes(found.get(linux.TCA_OPTIONS, b""), 0).get(linux.TCA_HTB_PARMS)
    if _kind(found) != "htb" or parameters is None:
        return None
    rate, ceil = (_RATE.unpack_from(parameters, offset)[-1] for offset in (0, _RATE.size))
    burst = struct.unpack_from("=I", parameters, 2 * _RATE.size)[0]
    return Class(device, handle >> 16, handle & 0xFFFF, rate, ceil, burst)


def decode_filter(content: bytes, device: str) -> Filter | None:
    """None for the hash tables that the kernel lists with u32 filters. One that we never make matches no address."""
    _, _, _, parent, info = TC_MESSAGE.unpack_from(content)
    found = read_attributes(content, TC_MESSAGE.size)
    options = read_attributes(found.get(linux.TCA_OPTIONS, b""), 0)
    if _kind(found) == "u32" and linux.TCA_U32_SEL not in options:
        return None
    minor = as_number(options.get(linux.TCA_U32_CLASSID)) & 0xFFFF
    prefixes = {"source": "", "destination": ""}
    selector = options.get(linux.TCA_U32_SEL, b"")
    if _kind(found) == "u32" and _SELECTOR.unpack_from(selector)[2] == 1:
        mask, value = _MATCH.unpack_from(selector, _SELECTOR.size)
        offset, _ = _OFFSETS.unpack_from(selector, _SELECTOR.size + _MATCH.size)
        name = {_SOURCE_OFFSET: "source", _DESTINATION_OFFSET: "destination"}.get(offset)
        if name:
            prefixes[name] = f"{ipaddress.IPv4Address(value)}/{mask.bit_count()}"
    return Filter(device, parent >> 16, info >> 16, minor, **prefixes)


def _kind(found: dict[int, bytes]) -> str:
    return as_text(found.get(linux.TCA_KIND))
