"""Carries out changes by rtnetlink. A change that is in force already is no error."""

import contextlib
import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink import tc
from neutrino.dataplane.netlink.api import (
    Change,
    DeleteDevice,
    DeleteItem,
    MoveDevice,
    NetlinkError,
    SetDevice,
    SetItem,
    SetVeth,
)
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.reading import ADDRESS, LINK, NEIGHBOUR, ROUTE, RULE, SCOPES, Reader
from neutrino.dataplane.netlink.rtnetlink import RouteSocket, attribute, nested, number, text
from neutrino.dataplane.netlink.values import Address, Neighbour, Route, Rule

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_SCOPE_NUMBERS = {name: value for value, name in SCOPES.items()}
_REPLACE = linux.NLM_F_CREATE | linux.NLM_F_REPLACE
_NEW = linux.NLM_F_CREATE | linux.NLM_F_EXCL
# Messages that set traffic control; the type that deletes follows each.
_TC_TYPES = {tc.Qdisc: linux.RTM_NEWQDISC, tc.Class: linux.RTM_NEWTCLASS, tc.Filter: linux.RTM_NEWTFILTER}


class Writer:
    """`reader` asks on the same socket."""

    def __init__(self, route_socket: RouteSocket, reader: Reader, namespaces: Namespaces) -> None:
        self._socket = route_socket
        self._reader = reader
        self._namespaces = namespaces
        self._indices: dict[str, int] = {}

    def carry_out(self, change: Change) -> None:
        match change:
            case SetItem(Address() as address):
                self._socket.do(linux.RTM_NEWADDR, _REPLACE, self._address(address))
            case DeleteItem(Address() as address):
                with _tolerated(errno.EADDRNOTAVAIL, errno.ENODEV):
                    self._socket.do(linux.RTM_DELADDR, 0, self._address(address, only_key=True))
            case SetItem(Route() as route):
                self._socket.do(linux.RTM_NEWROUTE, _REPLACE, self._route(route))
            case DeleteItem(Route() as route):
                with _tolerated(errno.ESRCH, errno.ENODEV):
                    self._socket.do(linux.RTM_DELROUTE, 0, self._route(route, delete=True))
            case SetItem(Rule() as rule):
                with _tolerated(errno.EEXIST):
                    self._socket.do(linux.RTM_NEWRULE, _NEW, _rule(rule, mark=True))
            case DeleteItem(Rule() as rule):
                with _tolerated(errno.ENOENT):
                    self._socket.do(linux.RTM_DELRULE, 0, _rule(rule, mark=False))
            case SetItem(Neighbour() as neighbour):
                self._socket.do(linux.RTM_NEWNEIGH, _REPLACE, self._neighbour(neighbour))
            case DeleteItem(Neighbour() as neighbour):
                with _tolerated(errno.ENOENT, errno.ENODEV):
                    self._socket.do(linux.RTM_DELNEIGH, 0, self._neighbour(neighbour))
            case SetItem(tc.Qdisc() | tc.Class() | tc.Filter() as item):
                self._socket.do(_TC_TYPES[type(item)], _REPLACE, tc.encode(item, self._index(item.device)))
            case DeleteItem(tc.Qdisc() | tc.Class() | tc.Filter() as item):
                with _tolerated(errno.ENOENT, errno.EINVAL, errno.ENODEV):
                    body = tc.encode(item, self._index(item.device), delete=True)
                    self._socket.do(_TC_TYPES[type(item)] + 1, 0, body)
            case _:
                self._device_change(change)

    # --- devices ---

    def _device_change(self, change: Change) -> None:
        self._indices.clear()  # a device of the same name may be another from now on
        match change:
            case SetVeth():
                self._set_veth(change)
            case SetDevice():
                self._set_device(change)
            case MoveDevice(name, to):
                self._move(name, to)
            case DeleteDevice(name):
                with _tolerated(errno.ENODEV):
                    self._socket.do(linux.RTM_DELLINK, 0, _link() + text(linux.IFLA_IFNAME, name))

    def _set_veth(self, change: SetVeth) -> None:
        # Another device of that name is refused: deleting it could cut off what somebody else plugged.
        there = self._reader.read_device(change.name)
        if there is not None:
            where = (there.peer, there.peer_namespace)
            if there.kind != "veth" or where != (change.peer, change.peer_namespace):
                raise NetlinkError(f"{change.name} exists as {there.kind or 'hardware'} with peer {where}")
            return
        mtu = number(linux.IFLA_MTU, change.mtu) if change.mtu else b""
        mac = attribute(linux.IFLA_ADDRESS, _mac(change.mac)) if change.mac else b""
        with self._namespace(change.peer_namespace) as there_fd:
            peer = _link() + text(linux.IFLA_IFNAME, change.peer) + number(linux.IFLA_NET_NS_FD, there_fd) + mtu
            info = nested(
                linux.IFLA_LINKINFO,
                text(linux.IFLA_INFO_KIND, "veth"),
                nested(linux.IFLA_INFO_DATA, attribute(linux.VETH_INFO_PEER, peer)),
            )
            body = _link() + text(linux.IFLA_IFNAME, change.name) + mac + mtu + info
            self._socket.do(linux.RTM_NEWLINK, _NEW, body)

    def _set_device(self, change: SetDevice) -> None:
        flags, mask = (linux.IFF_UP if change.up else 0, linux.IFF_UP) if change.up is not None else (0, 0)
        attributes = b""
        if change.mac:
            attributes += attribute(linux.IFLA_ADDRESS, _mac(change.mac))
        if change.mtu:
            attributes += number(linux.IFLA_MTU, change.mtu)
        if change.alias is not None:
            attributes += attribute(linux.IFLA_IFALIAS, change.alias.encode())
        index = self._index(change.name)
        if attributes or mask:
            self._socket.do(linux.RTM_NEWLINK, 0, _link(index, flags, mask) + attributes)

    def _move(self, name: str, to: str) -> None:
        index = _find(self._socket, name)
        if index:
            with self._namespace(to) as there:
                self._socket.do(linux.RTM_NEWLINK, 0, _link(index) + number(linux.IFLA_NET_NS_FD, there))
            return
        with contextlib.closing(self._namespaces.run(to, RouteSocket)) as elsewhere:
            if not _find(elsewhere, name):
                raise _no_device(name)

    @contextlib.contextmanager
    def _namespace(self, name: str) -> Iterator[int]:
        descriptor = self._namespaces.open(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _index(self, name: str) -> int:
        index = self._indices.get(name) or _find(self._socket, name)
        if not index:
            raise _no_device(name)
        self._indices[name] = index
        return index

    # --- what is on devices ---

    def _address(self, address: Address, *, only_key: bool = False) -> bytes:
        interface = ipaddress.ip_interface(address.address)
        length = interface.network.prefixlen
        scope = _SCOPE_NUMBERS[address.scope]
        index = self._index(address.device)
        body = ADDRESS.pack(_FAMILIES[interface.version], length, 0, scope, index)
        body += attribute(linux.IFA_LOCAL, interface.ip.packed) + attribute(linux.IFA_ADDRESS, interface.ip.packed)
        if only_key:
            return body
        if interface.version == 4 and length < 31:  # a /31 or /32 has no broadcast address
            body += attribute(linux.IFA_BROADCAST, interface.network.broadcast_address.packed)
        if address.nodad:
            body += number(linux.IFA_FLAGS, linux.IFA_F_NODAD)
        # Without a lifetime, an address that was deprecated by hand would stay so.
        return body + attribute(linux.IFA_CACHEINFO, struct.pack("=IIII", linux.FOREVER, linux.FOREVER, 0, 0))

    def _route(self, route: Route, *, delete: bool = False) -> bytes:
        network = ipaddress.ip_network(route.destination)
        # Without a gateway the destination is on the link; deleting looks at no scope.
        scope = linux.RT_SCOPE_LINK if not route.via and network.version == 4 else linux.RT_SCOPE_UNIVERSE
        body = ROUTE.pack(
            _FAMILIES[network.version],
            network.prefixlen,
            0,
            0,
            0,  # the table is an attribute: here it has no room
            0 if delete else route.protocol,
            linux.RT_SCOPE_NOWHERE if delete else scope,
            linux.RTN_UNICAST,
            linux.RTNH_F_ONLINK if route.onlink else 0,
        )
        body += number(linux.RTA_TABLE, route.table)
        if network.prefixlen:
            body += attribute(linux.RTA_DST, network.network_address.packed)
        if route.via:
            body += attribute(linux.RTA_GATEWAY, ipaddress.ip_address(route.via).packed)
        if route.device:
            body += number(linux.RTA_OIF, self._index(route.device))
        if route.metric:
            body += number(linux.RTA_PRIORITY, route.metric)
        if route.source:
            body += attribute(linux.RTA_PREFSRC, ipaddress.ip_address(route.source).packed)
        return body

    def _neighbour(self, neighbour: Neighbour) -> bytes:
        ip = ipaddress.ip_address(neighbour.address)
        index = self._index(neighbour.device)
        body = NEIGHBOUR.pack(_FAMILIES[ip.version], index, linux.NUD_PERMANENT, 0, 0)
        return body + attribute(linux.NDA_DST, ip.packed) + attribute(linux.NDA_LLADDR, _mac(neighbour.mac))


def _rule(rule: Rule, *, mark: bool) -> bytes:
    source = ipaddress.ip_network(rule.source) if rule.source else None
    destination = ipaddress.ip_network(rule.destination) if rule.destination else None
    lengths = (destination.prefixlen if destination else 0, source.prefixlen if source else 0)
    body = RULE.pack(_FAMILIES[rule.version], *lengths, 0, 0, linux.FR_ACT_TO_TBL, 0)
    body += number(linux.FRA_PRIORITY, rule.priority) + number(linux.FRA_TABLE, rule.table)
    if source:
        body += attribute(linux.FRA_SRC, source.network_address.packed)
    if destination:
        body += attribute(linux.FRA_DST, destination.network_address.packed)
    if rule.iif:
        body += text(linux.FRA_IIFNAME, rule.iif)
    if rule.mark or rule.mask:
        body += number(linux.FRA_FWMARK, rule.mark) + number(linux.FRA_FWMASK, rule.mask)
    if mark:
        body += attribute(linux.FRA_PROTOCOL, bytes([rule.protocol]))
    return body


def _find(route_socket: RouteSocket, name: str) -> int:
    """The index of a device, 0 if there is none of that name."""
    try:
        answer = route_socket.get(linux.RTM_GETLINK, _link() + text(linux.IFLA_IFNAME, name))
    except OSError as error:
        if error.errno == errno.ENODEV:
            return 0
        raise
    index: int = LINK.unpack_from(answer)[2]
    return index


def _no_device(name: str) -> OSError:
    return OSError(errno.ENODEV, f"there is no device {name}")


def _link(index: int = 0, flags: int = 0, mask: int = 0) -> bytes:
    return LINK.pack(socket.AF_UNSPEC, 0, index, flags, mask)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


@contextlib.contextmanager
def _tolerated(*numbers: int) -> Iterator[None]:
    """Ignores errors that mean that the change is in force already."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise
