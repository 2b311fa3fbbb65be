"""The netlink driver: reads and changes the namespaces of this machine.

A socket is opened inside the namespace for each call and closed after it, which takes a tenth of a millisecond. A
socket that is kept would go on addressing a namespace that was deleted and created anew, and would keep the old one
with its devices alive.
"""

import contextlib
import functools
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator

from neutrino.dataplane.netlink.api import DeleteItem, NetlinkChange, NetlinkError, SetItem, SetSysctl, check_sysctl
from neutrino.dataplane.netlink.devices import Devices
from neutrino.dataplane.netlink.items import delete_item, list_items, set_item
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import Address, Device, NamespaceState, Neighbour, ProxyNeighbour, Route, Rule
from neutrino.dataplane.protocols.rtnetlink import NetlinkSocket

_RAW = socket.SOCK_RAW | socket.SOCK_CLOEXEC
_ETH_ARP, _ETH_IPV6 = 0x0806, 0x86DD
_BROADCAST = b"\xff" * 6
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_ALL_NODES = ipaddress.IPv6Address("ff02::1").packed
_ARP_REQUEST, _ARP_REPLY = 1, 2
_ICMPV6, _NEIGHBOUR_ADVERTISEMENT = 58, 136
_ROUTER, _OVERRIDE = 0x80000000, 0x20000000
_TARGET_LINK_ADDRESS = 2


class RealNetlink:
    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces = namespaces or Namespaces()

    def namespaces(self) -> frozenset[str]:
        return self._namespaces.names()

    def has_namespace(self, name: str) -> bool:
        return self._namespaces.exists(name)

    def create_namespace(self, name: str) -> None:
        self._namespaces.create(name)

    def delete_namespace(self, name: str) -> None:
        self._namespaces.delete(name)

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        names = [check_sysctl(name) for name in sysctls]
        with _refusals(namespace, "cannot be read"):
            values, opened = self._namespaces.run(namespace, lambda: (_read_sysctls(names), NetlinkSocket()))
            with contextlib.closing(opened) as route:
                devices = Devices(route, namespace, self._namespaces).read()
                by_index = {device.index: device for device in devices.values()}
                return NamespaceState(
                    devices=devices,
                    addresses=list_items(route, Address, by_index),
                    routes=list_items(route, Route, by_index),
                    rules=list_items(route, Rule, by_index),
                    neighbours=list_items(route, Neighbour, by_index),
                    proxies=list_items(route, ProxyNeighbour, by_index),
                    sysctls=values,
                )

    def read_device(self, namespace: str, name: str) -> Device | None:
        with _refusals(namespace, f"device {name} cannot be read"), self._open(namespace) as route:
            return Devices(route, namespace, self._namespaces).read_one(name)

    def apply(self, namespace: str, changes: Iterable[NetlinkChange]) -> None:
        given = tuple(changes)
        if not given:
            return
        with _refusals(namespace, "cannot be changed"), self._open(namespace) as route:
            devices = Devices(route, namespace, self._namespaces)
            for change in given:
                with _refusals(namespace, change.text()):
                    match change:
                        case SetItem(item):
                            set_item(route, item, devices.index)
                        case DeleteItem(item):
                            delete_item(route, item, devices.index)
                        case SetSysctl(name, value):
                            self._namespaces.run(namespace, functools.partial(_write_sysctl, name, value))
                        case _:
                            devices.apply(change)

    def announce(self, namespace: str, device: str, addresses: Iterable[str], *, router: bool = False) -> None:
        with (
            _refusals(namespace, f"{device}: addresses cannot be announced"),
            # Protocol 0: the socket receives nothing.
            self._namespaces.run(namespace, lambda: socket.socket(socket.AF_PACKET, _RAW, 0)) as sender,
        ):
            sender.bind((device, 0))
            mac = sender.getsockname()[4]  # the device's current one, whichever the port has
            for address in addresses:
                for frame in render_announcement(mac, address, router=router):
                    sender.send(frame)

    def _open(self, namespace: str) -> contextlib.closing[NetlinkSocket]:
        """A socket that a thread opens inside the namespace, to be used from outside of it."""
        return contextlib.closing(self._namespaces.run(namespace, NetlinkSocket))


@contextlib.contextmanager
def _refusals(namespace: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NetlinkError(f"{namespace or 'host'}: {what}: {error.strerror or error}") from error


# --- announcements ---


def render_announcement(mac: bytes, address: str, *, router: bool = False) -> tuple[bytes, ...]:
    """The Ethernet frames that announce an address on a link: gratuitous ARP, or an unsolicited neighbour advertisement.

    Without them, neighbours send to the MAC that had the address before until their cache expires. For IPv4 both a request
    and a reply are sent, because some switches and systems handle only one of them.
    """
    ip = ipaddress.ip_address(address)
    if ip.version == 4:
        ethernet = struct.pack("!6s6sH", _BROADCAST, mac, _ETH_ARP)
        head = struct.pack("!HHBB", 1, 0x0800, 6, 4)
        # In a request the target's MAC is empty; in a reply it is the sender's own.
        question = struct.pack("!H6s4s6s4s", _ARP_REQUEST, mac, ip.packed, bytes(6), ip.packed)
        answer = struct.pack("!H6s4s6s4s", _ARP_REPLY, mac, ip.packed, mac, ip.packed)
        return ethernet + head + question, ethernet + head + answer
    flags = _OVERRIDE | (_ROUTER if router else 0)
    option = struct.pack("!BB6s", _TARGET_LINK_ADDRESS, 1, mac)
    message = struct.pack("!BBHI16s", _NEIGHBOUR_ADVERTISEMENT, 0, 0, flags, ip.packed) + option
    pseudo = struct.pack("!16s16sIxxxB", ip.packed, _ALL_NODES, len(message), _ICMPV6)
    message = message[:2] + struct.pack("!H", _checksum(pseudo + message)) + message[4:]
    # Hop limit 255: receivers ignore neighbour discovery with any other, which may have been forwarded (RFC 4861).
    packet = struct.pack("!IHBB16s16s", 6 << 28, len(message), _ICMPV6, 255, ip.packed, _ALL_NODES) + message
    return (struct.pack("!6s6sH", _ALL_NODES_MAC, mac, _ETH_IPV6) + packet,)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


# --- sysctls: of the namespace that the calling thread is in ---


def _read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """Those that this kernel has."""
    found = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            found[name] = _read_sysctl(name)
    return found


def _write_sysctl(name: str, value: str) -> None:
    if _read_sysctl(check_sysctl(name)) != value:
        with open(f"/proc/sys/{name}", "w") as file:
            file.write(value)


def _read_sysctl(name: str) -> str:
    with open(f"/proc/sys/{name}") as file:
        return " ".join(file.read().split())
