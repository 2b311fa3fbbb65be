"""Addresses, routes, policy rules and neighbours by rtnetlink: set, delete and list items of any type.

The table at the end has what differs between the types. Messages name a device by its index: encoding gets a function that
finds it, decoding the devices of the namespace by index.
"""

import dataclasses
import errno
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from neutrino.dataplane.netlink.api import Item
from neutrino.dataplane.netlink.values import (
    IPV6_METRIC,
    Address,
    Device,
    Neighbour,
    NextHop,
    ProxyNeighbour,
    Route,
    Rule,
)
from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols import rtnetlink as nl
from neutrino.model.addresses import link_local

T = TypeVar("T")
Index = Callable[[str], int]
Devices = Mapping[int, Device]

_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
# Family, lengths of destination and source, tos, table, protocol, scope, type, flags.
_ROUTE = struct.Struct("=BBBBBBBBI")
_NEXT_HOP = struct.Struct("=HBBi")  # length, flags, weight less one, device index
_RULE = struct.Struct("=BBBBBxxBI")  # family, lengths of destination and source, tos, table, action, flags
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_VERSIONS = {family: version for version, family in _FAMILIES.items()}
_ANYWHERE = {socket.AF_INET: "0.0.0.0/0", socket.AF_INET6: "::/0"}
_SCOPES = {
    "global": linux.RT_SCOPE_UNIVERSE,
    "site": linux.RT_SCOPE_SITE,
    "link": linux.RT_SCOPE_LINK,
    "host": linux.RT_SCOPE_HOST,
}
_SCOPE_NAMES = {number: name for name, number in _SCOPES.items()}


def set_item(route_socket: nl.NetlinkSocket, item: Item, index: Index) -> None:
    type_ = _TYPES[type(item)]
    with nl.tolerated(*(() if type_.replace else (errno.EEXIST,))):
        flag = linux.NLM_F_REPLACE if type_.replace else linux.NLM_F_EXCL
        route_socket.do(type_.new, linux.NLM_F_CREATE | flag, type_.encode(item, index, False))


def delete_item(route_socket: nl.NetlinkSocket, item: Item, index: Index) -> None:
    type_ = _TYPES[type(item)]
    with nl.tolerated(errno.ENODEV, *type_.missing):  # without its device an item is gone too
        route_socket.do(type_.new + 1, 0, type_.encode(item, index, True))


def list_items(route_socket: nl.NetlinkSocket, kind: type[T], devices: Devices) -> frozenset[T]:
    type_ = _TYPES[kind]
    items = (
        type_.decode(content, devices)
        for request in type_.requests or (bytes(type_.head.size),)
        for content in route_socket.list(type_.new + 2, request)
    )
    return frozenset(item for item in items if item is not None)


@dataclasses.dataclass(frozen=True)
class _ItemType:
    new: int  # the type of the message that sets an item; the types that delete and list follow it
    head: struct.Struct
    encode: Callable[[Any, Index, bool], bytes]  # the last argument: for a deletion
    decode: Callable[[bytes, Devices], Any | None]  # None for an item that is of no interest
    requests: tuple[bytes, ...] = ()  # that list all items, if an empty head does not
    replace: bool = True  # setting an item replaces the one with its key; without keys, an equal one is an error
    missing: tuple[int, ...] = (errno.ENOENT,)  # errors that mean that the item to delete is not there


# --- addresses ---


def _encode_address(address: Address, index: Index, delete: bool) -> bytes:
    interface = ipaddress.ip_interface(address.address)
    version, length, packed = interface.version, interface.network.prefixlen, interface.ip.packed
    body = _ADDRESS.pack(_FAMILIES[version], length, 0, _SCOPES[address.scope], index(address.device))
    body += nl.attribute(linux.IFA_LOCAL, packed) + nl.attribute(linux.IFA_ADDRESS, packed)
    if delete:
        return body
    if version == 4 and length < 31:  # a /31 or /32 has no broadcast address
        body += nl.attribute(linux.IFA_BROADCAST, interface.network.broadcast_address.packed)
    if address.nodad:
        body += nl.number(linux.IFA_FLAGS, linux.IFA_F_NODAD)
    # Without a lifetime, an address that was deprecated by hand would stay so.
    return body + nl.attribute(linux.IFA_CACHEINFO, struct.pack("=IIII", linux.FOREVER, linux.FOREVER, 0, 0))


def _decode_address(content: bytes, devices: Devices) -> Address | None:
    family, length, _, scope, index = _ADDRESS.unpack_from(content)
    found = nl.read_attributes(content, _ADDRESS.size)
    # On a point-to-point device IFA_ADDRESS is the other end; IPv6 has no IFA_LOCAL elsewhere.
    type_ = linux.IFA_LOCAL if linux.IFA_LOCAL in found else linux.IFA_ADDRESS
    if type_ not in found or index not in devices or family not in _VERSIONS:  # the device is newer than the list
        return None
    # The flags in the head have no room for newer ones.
    flags = found.number(linux.IFA_FLAGS) if family == socket.AF_INET6 else 0
    return Address(
        device=devices[index].name,
        address=found.prefix(type_, length),
        scope=_SCOPE_NAMES.get(scope, str(scope)),
        nodad=bool(flags & linux.IFA_F_NODAD),
        by_kernel=_by_kernel(found.ip(type_), flags, found, devices[index].mac),
    )


def _by_kernel(address: str, flags: int, found: nl.Attributes, device_mac: str) -> bool:
    """Whether the kernel added the address by itself. Kernels from 5.18 report it; for older ones it is inferred."""
    if flags & (linux.IFA_F_TEMPORARY | linux.IFA_F_STABLE_PRIVACY | linux.IFA_F_MANAGETEMPADDR):
        return True
    if linux.IFA_PROTO in found:
        return linux.IFAPROT_UNSPEC < found[linux.IFA_PROTO][0] <= linux.IFAPROT_KERNEL_RA
    if address.startswith("127.") or address == "::1":
        return True
    return len(device_mac) == len("02:00:00:00:00:00") and address == str(link_local(device_mac))


# --- routes ---


def _encode_route(route: Route, index: Index, delete: bool) -> bytes:
    length = int(route.destination.partition("/")[2])
    # Without a gateway the destination is on the link; deleting looks at no scope.
    on_link = not route.via and not route.next_hops and route.version == 4
    scope = linux.RT_SCOPE_LINK if on_link else linux.RT_SCOPE_UNIVERSE
    head = _ROUTE.pack(
        _FAMILIES[route.version],
        length,
        0,
        0,
        0,  # the table is an attribute: here it has no room
        0 if delete else route.protocol,
        linux.RT_SCOPE_NOWHERE if delete else scope,
        linux.RTN_UNICAST,
        linux.RTNH_F_ONLINK if route.onlink else 0,
    )
    body = head + nl.number(linux.RTA_TABLE, route.table) + nl.ip(linux.RTA_DST, route.destination if length else "")
    body += nl.ip(linux.RTA_GATEWAY, route.via) + nl.ip(linux.RTA_PREFSRC, route.source)
    if route.device:
        body += nl.number(linux.RTA_OIF, index(route.device))
    if route.next_hops and not delete:  # without them all are deleted
        body += nl.attribute(
            linux.RTA_MULTIPATH, b"".join(_encode_next_hop(next_hop, index) for next_hop in route.next_hops)
        )
    return body + nl.number(linux.RTA_PRIORITY, route.metric) if route.metric else body


def _encode_next_hop(hop: NextHop, index: Index) -> bytes:
    via, flags = nl.ip(linux.RTA_GATEWAY, hop.via), linux.RTNH_F_ONLINK if hop.onlink else 0
    return _NEXT_HOP.pack(_NEXT_HOP.size + len(via), flags, 0, index(hop.device)) + via


def _decode_next_hops(content: bytes, devices: Devices) -> Iterator[NextHop]:
    offset = 0
    while offset + _NEXT_HOP.size <= len(content):
        length, flags, _, index = _NEXT_HOP.unpack_from(content, offset)
        found = nl.read_attributes(content[offset : offset + length], _NEXT_HOP.size)
        device = devices.get(index)
        yield NextHop(device.name if device else "", found.ip(linux.RTA_GATEWAY), bool(flags & linux.RTNH_F_ONLINK))
        offset += max((length + 3) & ~3, _NEXT_HOP.size)


def _decode_route(content: bytes, devices: Devices) -> Route | None:
    family, length, _, _, table, protocol, _, type_, flags = _ROUTE.unpack_from(content)
    # Cloned routes are the cache of IPv6 (path MTUs, redirects).
    if type_ != linux.RTN_UNICAST or flags & linux.RTM_F_CLONED or family not in _VERSIONS:
        return None
    found = nl.read_attributes(content, _ROUTE.size)
    metric, device = found.number(linux.RTA_PRIORITY), devices.get(found.number(linux.RTA_OIF))
    return Route(
        destination=found.prefix(linux.RTA_DST, length) or _ANYWHERE[family],
        device=device.name if device else "",
        via=found.ip(linux.RTA_GATEWAY),
        table=found.number(linux.RTA_TABLE) or table,
        metric=0 if family == socket.AF_INET6 and metric == IPV6_METRIC else metric,
        onlink=bool(flags & linux.RTNH_F_ONLINK),
        source=found.ip(linux.RTA_PREFSRC),
        next_hops=tuple(sorted(_decode_next_hops(found.get(linux.RTA_MULTIPATH, b""), devices))),
        protocol=protocol,
    )


# --- policy rules ---


def _encode_rule(rule: Rule, index: Index, delete: bool) -> bytes:
    lengths = (int(each.partition("/")[2] or 0) for each in (rule.destination, rule.source))
    body = _RULE.pack(_FAMILIES[rule.version], *lengths, 0, 0, linux.FR_ACT_TO_TBL, 0)
    body += nl.number(linux.FRA_PRIORITY, rule.priority) + nl.number(linux.FRA_TABLE, rule.table)
    body += nl.ip(linux.FRA_SRC, rule.source) + nl.ip(linux.FRA_DST, rule.destination)
    body += nl.text(linux.FRA_IIFNAME, rule.iif)
    if rule.mark or rule.mask:
        body += nl.number(linux.FRA_FWMARK, rule.mark) + nl.number(linux.FRA_FWMASK, rule.mask)
    if rule.suppressed >= 0:
        body += nl.number(linux.FRA_SUPPRESS_PREFIXLEN, rule.suppressed)
    # Without a protocol, the kernel deletes a matching rule of any protocol.
    return body if delete else body + nl.attribute(linux.FRA_PROTOCOL, bytes([rule.protocol]))


def _decode_rule(content: bytes, devices: Devices) -> Rule | None:
    family, to_length, from_length, _, table, action, flags = _RULE.unpack_from(content)
    # Inverted rules and those that drop are not ours, and `Rule` cannot represent them.
    if action != linux.FR_ACT_TO_TBL or family not in _VERSIONS or flags & linux.FIB_RULE_INVERT:
        return None
    found = nl.read_attributes(content, _RULE.size)
    return Rule(
        priority=found.number(linux.FRA_PRIORITY),
        version=_VERSIONS[family],
        source=found.prefix(linux.FRA_SRC, from_length),
        destination=found.prefix(linux.FRA_DST, to_length),
        iif=found.text(linux.FRA_IIFNAME),
        mark=found.number(linux.FRA_FWMARK),
        mask=found.number(linux.FRA_FWMASK),
        table=found.number(linux.FRA_TABLE) or table,
        suppressed=_suppressed(found),
        protocol=found.number(linux.FRA_PROTOCOL),
    )


def _suppressed(found: nl.Attributes) -> int:
    """The kernel shows -1, as an unsigned number, where a rule suppresses nothing."""
    length = found.number(linux.FRA_SUPPRESS_PREFIXLEN) if linux.FRA_SUPPRESS_PREFIXLEN in found else 0xFFFFFFFF
    return -1 if length == 0xFFFFFFFF else length


# --- neighbours ---


def _encode_neighbour(neighbour: Neighbour, index: Index, delete: bool) -> bytes:
    family = _FAMILIES[6 if ":" in neighbour.address else 4]
    head = _NEIGHBOUR.pack(family, index(neighbour.device), linux.NUD_PERMANENT, 0, 0)
    return head + nl.ip(linux.NDA_DST, neighbour.address) + nl.mac(linux.NDA_LLADDR, neighbour.mac)


def _decode_neighbour(content: bytes, devices: Devices) -> Neighbour | None:
    """Permanent ones only: the kernel resolves the others by ARP and ND itself."""
    family, index, state, _, _ = _NEIGHBOUR.unpack_from(content)
    if not state & linux.NUD_PERMANENT or index not in devices or family not in _VERSIONS:
        return None
    found = nl.read_attributes(content, _NEIGHBOUR.size)
    return Neighbour(devices[index].name, found.ip(linux.NDA_DST), found.mac(linux.NDA_LLADDR))


def _encode_proxy(proxy: ProxyNeighbour, index: Index, delete: bool) -> bytes:
    head = _NEIGHBOUR.pack(socket.AF_INET6, index(proxy.device), linux.NUD_PERMANENT, linux.NTF_PROXY, 0)
    return head + nl.ip(linux.NDA_DST, proxy.address)


def _decode_proxy(content: bytes, devices: Devices) -> ProxyNeighbour | None:
    _, index, _, flags, _ = _NEIGHBOUR.unpack_from(content)
    if not flags & linux.NTF_PROXY or index not in devices:
        return None
    return ProxyNeighbour(devices[index].name, nl.read_attributes(content, _NEIGHBOUR.size).ip(linux.NDA_DST))


# --- all types ---

_TYPES: Mapping[type, _ItemType] = {
    Address: _ItemType(linux.RTM_NEWADDR, _ADDRESS, _encode_address, _decode_address, missing=(errno.EADDRNOTAVAIL,)),
    Route: _ItemType(
        linux.RTM_NEWROUTE,
        _ROUTE,
        _encode_route,
        _decode_route,
        # Unicast alone: each address adds local and broadcast routes as well.
        requests=tuple(_ROUTE.pack(family, 0, 0, 0, 0, 0, 0, linux.RTN_UNICAST, 0) for family in _VERSIONS),
        missing=(errno.ESRCH, errno.ENOENT),  # ENOENT: an IPv6 default route without a next hop to tell it by
    ),
    Rule: _ItemType(linux.RTM_NEWRULE, _RULE, _encode_rule, _decode_rule, replace=False),
    Neighbour: _ItemType(linux.RTM_NEWNEIGH, _NEIGHBOUR, _encode_neighbour, _decode_neighbour),
    ProxyNeighbour: _ItemType(
        linux.RTM_NEWNEIGH,
        _NEIGHBOUR,
        _encode_proxy,
        _decode_proxy,
        # The kernel lists them only where it is asked for them.
        requests=(_NEIGHBOUR.pack(socket.AF_INET6, 0, 0, linux.NTF_PROXY, 0),),
    ),
}
