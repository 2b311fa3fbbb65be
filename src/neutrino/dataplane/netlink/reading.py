"""Reads a namespace by rtnetlink and decodes the messages into values.

`Reader` dumps on one socket, devices first: addresses, routes, neighbours and qdiscs name devices by index.
"""

import socket
import struct
from collections.abc import Callable, Mapping

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink import tc
from neutrino.dataplane.netlink.rtnetlink import (
    RouteSocket,
    as_number,
    as_text,
    find_attribute,
    number,
    read_attributes,
    text,
)
from neutrino.dataplane.netlink.values import Address, Device, Neighbour, Route, Rule

LINK = struct.Struct("=BxHiII")  # family, hardware type, index, flags, mask of flags
ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
# Family, lengths of destination and source, tos, table, protocol, scope, type, flags.
ROUTE = struct.Struct("=BBBBBBBBI")
RULE = struct.Struct("=BBBBBxxBI")  # family, lengths of destination and source, tos, table, action, flags
NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type

SCOPES = {
    linux.RT_SCOPE_UNIVERSE: "global",
    linux.RT_SCOPE_SITE: "site",
    linux.RT_SCOPE_LINK: "link",
    linux.RT_SCOPE_HOST: "host",
}
_VERSIONS = {socket.AF_INET: 4, socket.AF_INET6: 6}
_EVERYWHERE = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}  # noqa: S104 nothing listens there
_BITS = {socket.AF_INET: 32, socket.AF_INET6: 128}
_IPV6_METRIC = 1024  # what the kernel takes for 0

_ANY_LINK = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
_NO_STATISTICS = number(linux.IFLA_EXT_MASK, linux.RTEXT_FILTER_SKIP_STATS)


class Reader:
    """`here` is the name of the namespace; `name_of` finds the name of another one by its id here."""

    def __init__(self, route_socket: RouteSocket, here: str, name_of: Callable[[int], str | None]) -> None:
        self._socket = route_socket
        self._here = here
        self._name_of = name_of
        self._names: dict[int, str] = {}
        self._macs: dict[int, str] = {}

    def read_devices(self) -> dict[str, Device]:
        contents = self._socket.list(linux.RTM_GETLINK, _ANY_LINK + _NO_STATISTICS)
        links = [(content, read_attributes(content, LINK.size)) for content in contents]
        self._names = {LINK.unpack_from(content)[2]: as_text(found[linux.IFLA_IFNAME]) for content, found in links}
        devices = (self._device(content, found) for content, found in links)
        return {device.name: device for device in devices}

    def read_device(self, name: str) -> Device | None:
        content = self._link(_ANY_LINK + text(linux.IFLA_IFNAME, name))
        return self._device(content, read_attributes(content, LINK.size)) if content else None

    def _link(self, question: bytes) -> bytes:
        """The answer about one device; empty where there is none, or it is in a namespace that we may not read."""
        try:
            return self._socket.get(linux.RTM_GETLINK, question + _NO_STATISTICS)
        except OSError:
            return b""

    def _device(self, content: bytes, found: Mapping[int, bytes]) -> Device:
        _, _, index, flags, _ = LINK.unpack_from(content)
        kind = as_text(read_attributes(found.get(linux.IFLA_LINKINFO, b""), 0).get(linux.IFLA_INFO_KIND))
        peer, peer_namespace = self._peer(found) if kind == "veth" else ("", None)
        self._macs[index] = found.get(linux.IFLA_ADDRESS, b"").hex(":")
        return Device(
            name=as_text(found[linux.IFLA_IFNAME]),
            kind=kind,
            mac=self._macs[index],
            mtu=as_number(found.get(linux.IFLA_MTU)),
            up=bool(flags & linux.IFF_UP),
            carrier=bool(as_number(found.get(linux.IFLA_CARRIER))),
            peer=peer,
            peer_namespace=peer_namespace,
            alias=as_text(found.get(linux.IFLA_IFALIAS)),
            index=index,
        )

    def _peer(self, found: Mapping[int, bytes]) -> tuple[str, str | None]:
        index = as_number(found.get(linux.IFLA_LINK))
        elsewhere = found.get(linux.IFLA_LINK_NETNSID)
        if elsewhere is None:
            return self._name(index), self._here
        (namespace_id,) = struct.unpack("=i", elsewhere)
        if namespace_id < 0:
            return "", None  # its namespace is being deleted
        answer = self._link(
            LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0) + number(linux.IFLA_TARGET_NETNSID, namespace_id)
        )
        if not answer:
            return "", None  # deleted since this end was listed
        return as_text(find_attribute(answer, LINK.size, linux.IFLA_IFNAME)), self._name_of(namespace_id)

    def _name(self, index: int) -> str:
        if index and index not in self._names:
            answer = self._link(LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0))
            self._names[index] = as_text(find_attribute(answer, LINK.size, linux.IFLA_IFNAME))
        return self._names.get(index, "")

    def read_addresses(self) -> frozenset[Address]:
        contents = self._socket.list(linux.RTM_GETADDR, ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
        return frozenset(found for found in map(self._address, contents) if found is not None)

    def _address(self, content: bytes) -> Address | None:
        family, length, _, scope, index = ADDRESS.unpack_from(content)
        found = read_attributes(content, ADDRESS.size)
        packed = found.get(linux.IFA_LOCAL) or found.get(linux.IFA_ADDRESS)
        if packed is None or index not in self._names or family not in _VERSIONS:
            return None
        flags = as_number(found.get(linux.IFA_FLAGS))  # the header's flags have no room for newer ones
        ipv6 = family == socket.AF_INET6
        return Address(
            device=self._names[index],
            address=f"{socket.inet_ntop(family, packed)}/{length}",
            scope=SCOPES.get(scope, str(scope)),
            nodad=ipv6 and bool(flags & linux.IFA_F_NODAD),
            by_kernel=_by_kernel(packed, flags if ipv6 else 0, found.get(linux.IFA_PROTO), self._macs.get(index, "")),
        )

    def read_routes(self) -> frozenset[Route]:
        routes = set()
        for family in _VERSIONS:
            body = ROUTE.pack(family, 0, 0, 0, 0, 0, 0, linux.RTN_UNICAST, 0)
            for content in self._socket.list(linux.RTM_GETROUTE, body):
                route = self._route(content)
                if route is not None:
                    routes.add(route)
        return frozenset(routes)

    def _route(self, content: bytes) -> Route | None:
        family, length, _, _, table, protocol, _, type_, flags = ROUTE.unpack_from(content)
        # Cloned routes are the cache of IPv6 (path MTUs, redirects).
        if type_ != linux.RTN_UNICAST or flags & linux.RTM_F_CLONED or family not in _VERSIONS:
            return None
        found = read_attributes(content, ROUTE.size)
        metric = as_number(found.get(linux.RTA_PRIORITY))
        return Route(
            destination=_prefix(family, found.get(linux.RTA_DST), length) or f"{_EVERYWHERE[family]}/0",
            device=self._names.get(as_number(found.get(linux.RTA_OIF)), ""),
            via=_ip(family, found.get(linux.RTA_GATEWAY)),
            table=as_number(found.get(linux.RTA_TABLE)) or table,
            metric=0 if family == socket.AF_INET6 and metric == _IPV6_METRIC else metric,
            onlink=bool(flags & linux.RTNH_F_ONLINK),
            source=_ip(family, found.get(linux.RTA_PREFSRC)),
            protocol=protocol,
        )

    def read_rules(self) -> frozenset[Rule]:
        contents = self._socket.list(linux.RTM_GETRULE, RULE.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0))
        return frozenset(found for found in map(_rule, contents) if found is not None)

    def read_neighbours(self) -> frozenset[Neighbour]:
        """The permanent ones."""
        neighbours = set()
        for content in self._socket.list(linux.RTM_GETNEIGH, NEIGHBOUR.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
            family, index, state, _, _ = NEIGHBOUR.unpack_from(content)
            found = read_attributes(content, NEIGHBOUR.size)
            if state & linux.NUD_PERMANENT and index in self._names and family in _VERSIONS:
                mac = found.get(linux.NDA_LLADDR, b"").hex(":")
                neighbours.add(Neighbour(self._names[index], _ip(family, found.get(linux.NDA_DST)), mac))
        return frozenset(neighbours)

    def read_tc(self) -> frozenset[tc.TcItem]:
        """One dump where no device has a qdisc of ours; classes and filters are asked for below those alone."""
        found: set[tc.TcItem | None] = set()
        for content in self._socket.list(linux.RTM_GETQDISC, tc.TC_MESSAGE.pack(0, 0, 0, 0, 0)):
            index = tc.TC_MESSAGE.unpack_from(content)[1]
            name = self._names.get(index, "")
            qdisc = tc.decode_qdisc(content, name) if name else None
            if qdisc is None:
                continue
            found.add(qdisc)
            body = tc.TC_MESSAGE.pack(0, index, 0, qdisc.handle << 16, 0)
            found |= {tc.decode_class(each, name) for each in self._socket.list(linux.RTM_GETTCLASS, body)}
            found |= {tc.decode_filter(each, name) for each in self._socket.list(linux.RTM_GETTFILTER, body)}
        return frozenset(each for each in found if each is not None)


def _rule(content: bytes) -> Rule | None:
    family, to_length, from_length, _, table, action, flags = RULE.unpack_from(content)
    # Inverted rules and those that drop are not ours, and `Rule` cannot represent them.
    if action != linux.FR_ACT_TO_TBL or family not in _VERSIONS or flags & linux.FIB_RULE_INVERT:
        return None
    found = read_attributes(content, RULE.size)
    return Rule(
        priority=as_number(found.get(linux.FRA_PRIORITY)),
        version=_VERSIONS[family],
        source=_prefix(family, found.get(linux.FRA_SRC), from_length),
        destination=_prefix(family, found.get(linux.FRA_DST), to_length),
        iif=as_text(found.get(linux.FRA_IIFNAME)),
        mark=as_number(found.get(linux.FRA_FWMARK)),
        mask=as_number(found.get(linux.FRA_FWMASK)),
        table=as_number(found.get(linux.FRA_TABLE)) or table,
        protocol=as_number(found.get(linux.FRA_PROTOCOL)),
    )


def _ip(family: int, packed: bytes | None) -> str:
    return socket.inet_ntop(family, packed) if packed else ""


def _prefix(family: int, packed: bytes | None, length: int) -> str:
    return f"{socket.inet_ntop(family, packed)}/{length}" if packed else ""


_LOOPBACK = bytes(15) + b"\1"


def _by_kernel(packed: bytes, flags: int, protocol: bytes | None, mac: str) -> bool:
    """Whether the kernel added the address by itself. Kernels from 5.18 report it; for older ones it is inferred."""
    if flags & (linux.IFA_F_TEMPORARY | linux.IFA_F_STABLE_PRIVACY | linux.IFA_F_MANAGETEMPADDR):
        return True
    if protocol is not None:
        return linux.IFAPROT_UNSPEC < protocol[0] <= linux.IFAPROT_KERNEL_RA
    if len(packed) == 4:
        return packed[0] == 127
    return packed in (_LOOPBACK, link_local(mac))


def link_local(mac: str) -> bytes:
    """The IPv6 link-local address that the kernel derives from a MAC (EUI-64)."""
    octets = bytearray(bytes.fromhex(mac.replace(":", "")))
    if len(octets) != 6:
        return b""
    octets[0] ^= 2
    return b"\xfe\x80" + bytes(6) + bytes(octets[:3]) + b"\xff\xfe" + bytes(octets[3:])
