"""The driver of SR-IOV cards: rtnetlink and sysfs of the agent's own namespace."""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols import rtnetlink as nl
from neutrino.dataplane.sriov.api import NO_MAC, Card, Function, LinkState, SetFunction, Setting, Settings, SriovError
from neutrino.dataplane.sriov.sysfs import Slot, read_slots

_LINK = struct.Struct("=BxHiII")  # family, hardware type, index, flags, mask of flags
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
_WITH_FUNCTIONS = nl.number(linux.IFLA_EXT_MASK, linux.RTEXT_FILTER_VF | linux.RTEXT_FILTER_SKIP_STATS)
_GROUP_LINK = 1  # RTMGRP_LINK
_UNSUPPORTED = (errno.EOPNOTSUPP, 524)  # 524: ENOTSUPP of the kernel, which some drivers return
_EVENTS = 1 << 16

# The attribute of each setting, and its structure after the number of the function.
_ATTRIBUTES = {
    Setting.LINK_STATE: linux.IFLA_VF_LINK_STATE,
    Setting.SPOOF_CHECK: linux.IFLA_VF_SPOOFCHK,
    Setting.TRUST: linux.IFLA_VF_TRUST,
}


class RealSriov:
    def __init__(self, root: Path = Path("/sys")) -> None:
        self._root = root

    def read(self, devices: Iterable[str]) -> Mapping[str, Card]:
        found: dict[str, Card] = {}
        with _opened() as route:
            for device in devices:
                link = _get(route, device)
                if link is not None:
                    slots = read_slots(device, self._root)
                    found[device] = Card(device, tuple(_functions(route, link, slots)))
        return found

    def set(self, change: SetFunction) -> None:
        with _opened() as route, _refusals(change.text()):
            body = nl.nested(linux.IFLA_VFINFO_LIST, nl.nested(linux.IFLA_VF_INFO, encode(change)))
            route.do(linux.RTM_SETLINK, 0, _LINK.pack(0, 0, _index(route, change.device), 0, 0) + body)

    def forwarded(self, device: str) -> frozenset[str]:
        with _opened() as route, _refusals(f"forwarding entries of {device} cannot be read"):
            index = _index(route, device)
            head = _NEIGHBOUR.pack(socket.AF_BRIDGE, index, 0, 0, 0)
            entries = route.list(linux.RTM_GETNEIGH, head)
        return frozenset(mac for entry in entries if (mac := _static_mac(entry, index)))

    def forward(self, device: str, mac: str) -> None:
        with _refusals(f"{mac} cannot be forwarded to {device}"), nl.tolerated(errno.EEXIST):
            self._forwarding(linux.RTM_NEWNEIGH, linux.NLM_F_CREATE | linux.NLM_F_EXCL, device, mac)

    def unforward(self, device: str, mac: str) -> None:
        with _refusals(f"{mac} cannot be removed from {device}"), nl.tolerated(errno.ENOENT, errno.ENODEV):
            self._forwarding(linux.RTM_DELNEIGH, 0, device, mac)

    def watch(self) -> "NetlinkEvents":
        return NetlinkEvents()

    def _forwarding(self, type_: int, flags: int, device: str, mac: str) -> None:
        with contextlib.closing(nl.NetlinkSocket()) as route:
            head = _NEIGHBOUR.pack(socket.AF_BRIDGE, _index(route, device), linux.NUD_PERMANENT, linux.NTF_SELF, 0)
            route.do(type_, flags, head + nl.mac(linux.NDA_LLADDR, mac))


class NetlinkEvents:
    """Notifications on devices, of which the kernel sends one for each change of a function too."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, linux.NETLINK_ROUTE
        )
        self._socket.bind((0, _GROUP_LINK))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> None:
        while True:
            try:
                self._socket.recv(_EVENTS)
            except BlockingIOError:
                return
            except OSError as error:  # more than fit: that something has changed is known all the same
                if error.errno != errno.ENOBUFS:
                    raise

    def close(self) -> None:
        self._socket.close()


def encode(change: SetFunction) -> bytes:
    """The attribute that sets one setting of a function."""
    match change.setting:
        case Setting.VLAN:
            return nl.attribute(linux.IFLA_VF_VLAN, struct.pack("=III", change.index, change.value, 0))
        case Setting.MAX_RATE:
            rates = change.other, change.value
        case Setting.MIN_RATE:
            rates = change.value, change.other
        case _:
            value = struct.pack("=II", change.index, change.value)
            return nl.attribute(_ATTRIBUTES[change.setting], value)
    return nl.attribute(linux.IFLA_VF_RATE, struct.pack("=III", change.index, *rates))


def decode(content: bytes) -> tuple[int, str, Settings]:
    """The number, the MAC and the settings of a function, of its IFLA_VF_INFO."""
    found = nl.read_attributes(content, 0)
    (index,), mac = struct.unpack_from("=I", found[linux.IFLA_VF_MAC]), found[linux.IFLA_VF_MAC][4:10].hex(":")
    _, min_rate, max_rate = _numbers(found, linux.IFLA_VF_RATE, 3)
    _, link_state = _numbers(found, linux.IFLA_VF_LINK_STATE, 2)
    settings = Settings(
        vlan=_numbers(found, linux.IFLA_VF_VLAN, 3)[1],
        spoof_check=_flag(found, linux.IFLA_VF_SPOOFCHK),
        trust=_flag(found, linux.IFLA_VF_TRUST),
        link_state=LinkState(link_state) if link_state in list(LinkState) else LinkState.AUTO,
        max_rate=max_rate,
        min_rate=min_rate,
    )
    return index, mac, settings


def _numbers(found: nl.Attributes, type_: int, number: int) -> tuple[int, ...]:
    content = found.get(type_, b"")
    return struct.unpack_from(f"={number}I", content) if len(content) >= 4 * number else (0,) * number


def _flag(found: nl.Attributes, type_: int) -> bool | None:
    """On, off, or None: drivers without the setting leave it at -1, or the kernel is older than it."""
    if type_ not in found:
        return None
    value = _numbers(found, type_, 2)[1]
    return bool(value) if value in (0, 1) else None


def _functions(route: nl.NetlinkSocket, link: bytes, slots: Mapping[int, Slot]) -> Iterator[Function]:
    listed = nl.read_attributes(link, _LINK.size).get(linux.IFLA_VFINFO_LIST, b"")
    for content in nl.read_list(listed):
        index, mac, settings = decode(content)
        slot = slots.get(index)
        if slot is None:  # it is being created or removed
            continue
        if slot.macvtap:
            above = _get(route, slot.macvtap)
            mac = nl.read_attributes(above, _LINK.size).mac(linux.IFLA_ADDRESS) if above is not None else ""
        elif slot.devices or mac == NO_MAC:
            mac = ""
        yield Function(index, slot.pci_slot, mac, settings)


def _static_mac(entry: bytes, wanted: int) -> str:
    """The MAC of an entry of the device itself, if it is a static unicast one."""
    _, index, state, flags, _ = _NEIGHBOUR.unpack_from(entry)
    if index != wanted or not flags & linux.NTF_SELF or not state & linux.NUD_PERMANENT:
        return ""
    mac = nl.read_attributes(entry, _NEIGHBOUR.size).mac(linux.NDA_LLADDR)
    return "" if not mac or int(mac[:2], 16) & 1 else mac


def _get(route: nl.NetlinkSocket, device: str) -> bytes | None:
    try:
        head = _LINK.pack(0, 0, 0, 0, 0) + nl.text(linux.IFLA_IFNAME, device)
        return route.get(linux.RTM_GETLINK, head + _WITH_FUNCTIONS)
    except OSError as error:
        if error.errno == errno.ENODEV:
            return None
        raise SriovError(f"{device} cannot be read: {error.strerror}") from error


def _index(route: nl.NetlinkSocket, device: str) -> int:
    link = _get(route, device)
    if link is None:
        raise SriovError(f"there is no device {device}")
    index: int = _LINK.unpack_from(link)[2]
    return index


@contextlib.contextmanager
def _opened() -> Iterator[nl.NetlinkSocket]:
    try:
        route = nl.NetlinkSocket()
    except OSError as error:
        raise SriovError(f"netlink: {error.strerror}") from error
    with contextlib.closing(route):
        yield route


@contextlib.contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SriovError(f"{what}: {error.strerror}", is_unsupported=error.errno in _UNSUPPORTED) from error
