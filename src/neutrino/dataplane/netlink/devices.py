"""The devices of a namespace by rtnetlink, and their checksum offload by ethtool's ioctl."""

import contextlib
import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Iterable, Iterator

from neutrino.dataplane.netlink.api import DeleteDevice, MoveDevice, NetlinkChange, NetlinkError, SetDevice, SetVeth
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import HOST, Device
from neutrino.dataplane.protocols import linux
from neutrino.dataplane.protocols import rtnetlink as nl

_LINK = struct.Struct("=BxHiII")  # family, hardware type, index, flags, mask of flags
# Without the interface counters, which are the largest part of a message about a device and are not used.
_NO_STATISTICS = nl.number(linux.IFLA_EXT_MASK, linux.RTEXT_FILTER_SKIP_STATS)
_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM, _SET_TX_CHECKSUM = 0x16, 0x17
_CHECKSUM_KINDS = ("veth", "openvswitch", "tun")  # veth pairs, and internal ports of both datapaths


class Devices:
    """`route` is a socket inside the namespace called `here`."""

    def __init__(self, route: nl.NetlinkSocket, here: str, namespaces: Namespaces) -> None:
        self._route = route
        self._here = here
        self._namespaces = namespaces
        self._names: dict[int, str] = {}
        self._indices: dict[str, int] = {}
        self._namespace_names: dict[int, str] = {}
        self._namespace_ids = self._list_namespace_ids()

    # --- reading ---

    def read(self) -> dict[str, Device]:
        contents = self._route.list(linux.RTM_GETLINK, _link() + _NO_STATISTICS)
        links = [(content, nl.read_attributes(content, _LINK.size)) for content in contents]
        # Names first: both ends of a veth pair may be here, and each refers to the other by its index.
        self._names = {_LINK.unpack_from(content)[2]: found.text(linux.IFLA_IFNAME) for content, found in links}
        devices = (self._decode(content, found) for content, found in links)
        return {device.name: device for device in devices}

    def read_one(self, name: str) -> Device | None:
        content = self._get(_link() + nl.text(linux.IFLA_IFNAME, name))
        return self._decode(content, nl.read_attributes(content, _LINK.size)) if content else None

    def index(self, name: str) -> int:
        index = self._indices.get(name) or _find(self._route, name)
        if not index:
            raise _no_device(name)
        self._indices[name] = index
        return index

    def _get(self, question: bytes) -> bytes:
        """The answer about one device; empty where there is none, or it is in a namespace that we may not read."""
        try:
            return self._route.get(linux.RTM_GETLINK, question + _NO_STATISTICS)
        except OSError:
            return b""

    def _decode(self, content: bytes, found: nl.Attributes) -> Device:
        _, _, index, flags, _ = _LINK.unpack_from(content)
        name, kind = found.text(linux.IFLA_IFNAME), found.nested(linux.IFLA_LINKINFO).text(linux.IFLA_INFO_KIND)
        peer, peer_namespace, tx_checksum = "", None, True
        if kind == "veth":
            peer, peer_namespace = self._peer(found.number(linux.IFLA_LINK), found.get(linux.IFLA_LINK_NETNSID))
        if kind in _CHECKSUM_KINDS:
            with contextlib.suppress(OSError):  # deleted since it was listed
                tx_checksum = bool(self._ethtool(name, _GET_TX_CHECKSUM))
        return Device(
            name=name,
            kind=kind,
            mac=found.mac(linux.IFLA_ADDRESS),
            mtu=found.number(linux.IFLA_MTU),
            up=bool(flags & linux.IFF_UP),
            carrier=bool(found.number(linux.IFLA_CARRIER)),
            peer=peer,
            peer_namespace=peer_namespace,
            alias=found.text(linux.IFLA_IFALIAS),
            tx_checksum=tx_checksum,
            index=index,
        )

    def _peer(self, index: int, elsewhere: bytes | None) -> tuple[str, str | None]:
        """The other end of a veth pair and its namespace; empty if it is being deleted. `elsewhere`: the namespace's id."""
        if elsewhere is None:
            return self._names.get(index) or _name(self._get(_link(index))), self._here
        (namespace_id,) = struct.unpack("=i", elsewhere)
        there = nl.attribute(linux.IFLA_TARGET_NETNSID, elsewhere)
        answer = self._get(_link(index) + there) if namespace_id >= 0 else b""
        return (_name(answer), self._namespace_name(namespace_id)) if answer else ("", None)

    # --- names of other namespaces ---

    def _namespace_name(self, wanted: int) -> str | None:
        """The name of the namespace that has this id here; None where no named one has it.

        Each namespace numbers others for itself, and the kernel does not map an id to a name. So it is asked for the id of
        one name after another, the host's first (it nearly always is that one), and only as far as needed.
        """
        while wanted not in self._namespace_names:
            found = next(self._namespace_ids, None)
            if found is None:
                return None
            self._namespace_names.setdefault(*found)
        return self._namespace_names[wanted]

    def _list_namespace_ids(self) -> Iterator[tuple[int, str]]:
        yield from self._ids_of([HOST])
        yield from self._ids_of(sorted(self._namespaces.names()))  # a look at each name: not before it is needed

    def _ids_of(self, names: Iterable[str]) -> Iterator[tuple[int, str]]:
        for name in names:
            with contextlib.suppress(OSError, NetlinkError):  # deleted since it was listed
                with self._namespaces.open(name) as descriptor:
                    body = struct.pack("=Bxxx", socket.AF_UNSPEC) + nl.number(linux.NETNSA_FD, descriptor)
                    answer = nl.read_attributes(self._route.get(linux.RTM_GETNSID, body), 4)
                yield struct.unpack("=i", answer[linux.NETNSA_NSID])[0], name

    # --- changing ---

    def apply(self, change: NetlinkChange) -> None:
        # A device of the same name may be another one from now on: an address would be set on the wrong index.
        self._indices.clear()
        match change:
            case SetVeth():
                self._set_veth(change)
            case SetDevice():
                self._set(change)
            case MoveDevice(name, to):
                self._move(name, to)
            case DeleteDevice(name):
                with nl.tolerated(errno.ENODEV):
                    self._route.do(linux.RTM_DELLINK, 0, _link() + nl.text(linux.IFLA_IFNAME, name))

    def _set_veth(self, change: SetVeth) -> None:
        # Another device of that name is refused: deleting it could cut off a port of another program.
        there = self.read_one(change.name)
        if there is not None:
            where = (there.peer, there.peer_namespace)
            if there.kind != "veth" or where != (change.peer, change.peer_namespace):
                raise NetlinkError(f"{change.name} exists as {there.kind or 'hardware'} with peer {where}")
            return
        mtu = nl.number(linux.IFLA_MTU, change.mtu) if change.mtu else b""
        with self._namespaces.open(change.peer_namespace) as namespace:
            peer = _link() + nl.text(linux.IFLA_IFNAME, change.peer) + nl.number(linux.IFLA_NET_NS_FD, namespace) + mtu
            info = nl.nested(
                linux.IFLA_LINKINFO,
                nl.text(linux.IFLA_INFO_KIND, "veth"),
                nl.nested(linux.IFLA_INFO_DATA, nl.attribute(linux.VETH_INFO_PEER, peer)),
            )
            name, address = nl.text(linux.IFLA_IFNAME, change.name), nl.mac(linux.IFLA_ADDRESS, change.mac)
            body = _link() + name + address + mtu + info
            self._route.do(linux.RTM_NEWLINK, linux.NLM_F_CREATE | linux.NLM_F_EXCL, body)

    def _set(self, change: SetDevice) -> None:
        attributes = nl.mac(linux.IFLA_ADDRESS, change.mac)
        if change.mtu:
            attributes += nl.number(linux.IFLA_MTU, change.mtu)
        if change.alias is not None:
            attributes += nl.attribute(linux.IFLA_IFALIAS, change.alias.encode())
        # With an empty mask the device stays up or down as it is.
        flags, mask = linux.IFF_UP if change.up else 0, linux.IFF_UP if change.up is not None else 0
        index = self.index(change.name)
        if attributes or mask:
            self._route.do(linux.RTM_NEWLINK, 0, _link(index, flags, mask) + attributes)
        # Open vSwitch's userspace datapath does not fill in checksums that a veth left to hardware, and receivers drop
        # such packets: the end inside the namespace has to compute them itself.
        if change.tx_checksum is not None and bool(self._ethtool(change.name, _GET_TX_CHECKSUM)) != change.tx_checksum:
            self._ethtool(change.name, _SET_TX_CHECKSUM, int(change.tx_checksum))

    def _move(self, name: str, to: str) -> None:
        index = _find(self._route, name)
        if index:
            with self._namespaces.open(to) as namespace:
                self._route.do(linux.RTM_NEWLINK, 0, _link(index) + nl.number(linux.IFLA_NET_NS_FD, namespace))
            return
        with contextlib.closing(self._namespaces.run(to, nl.NetlinkSocket)) as elsewhere:
            if not _find(elsewhere, name):  # it was not moved already either
                raise _no_device(name)

    def _ethtool(self, device: str, command: int, value: int = 0) -> int:
        name = device.encode()
        if len(name) > 15:  # the ioctl would take the first 15 bytes for the name of another device
            raise _no_device(device)
        words = ctypes.create_string_buffer(struct.pack("=II", command, value), 8)
        # The kernel takes ioctls of devices on sockets of any family.
        fcntl.ioctl(self._route, _SIOCETHTOOL, struct.pack("16sP16x", name, ctypes.addressof(words)))
        answer: int = struct.unpack("=II", words.raw)[1]
        return answer


def _link(index: int = 0, flags: int = 0, mask: int = 0) -> bytes:
    return _LINK.pack(socket.AF_UNSPEC, 0, index, flags, mask)


def _find(route: nl.NetlinkSocket, name: str) -> int:
    """The index of a device, 0 if there is none of that name."""
    index: int = 0
    with nl.tolerated(errno.ENODEV):
        _, _, index, _, _ = _LINK.unpack_from(route.get(linux.RTM_GETLINK, _link() + nl.text(linux.IFLA_IFNAME, name)))
    return index


def _no_device(name: str) -> OSError:
    return OSError(errno.ENODEV, f"there is no device {name}")


def _name(content: bytes) -> str:
    return nl.read_attributes(content, _LINK.size, until=linux.IFLA_IFNAME).text(linux.IFLA_IFNAME)
