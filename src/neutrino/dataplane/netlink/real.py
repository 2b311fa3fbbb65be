"""The netlink driver: reads and changes the namespaces of this machine.

A socket is opened inside the namespace for each call and closed after it, which takes a tenth of a millisecond. A
socket that is kept would go on addressing a namespace that was deleted and created anew, and would keep the old one
with its devices alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import functools
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink.api import Change, NetlinkError, SetDevice, SetSysctl, check_sysctl
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.reading import Reader
from neutrino.dataplane.netlink.rtnetlink import RouteSocket, number, read_attributes
from neutrino.dataplane.netlink.values import HOST, Device, NamespaceState
from neutrino.dataplane.netlink.writing import Writer

_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM, _SET_TX_CHECKSUM = 0x16, 0x17


class RealNetlink:
    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces = namespaces or Namespaces()

    def namespaces(self) -> frozenset[str]:
        return self._namespaces.names()

    def create_namespace(self, name: str) -> None:
        self._namespaces.create(name)

    def delete_namespace(self, name: str) -> None:
        self._namespaces.delete(name)

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        names = [check_sysctl(name) for name in sysctls]
        with _refusals(namespace, "cannot be read"), self._session(namespace, names) as session:
            reader = session.reader
            devices = reader.read_devices()
            return NamespaceState(
                devices={name: session.with_offload(device) for name, device in devices.items()},
                addresses=reader.read_addresses(),
                routes=reader.read_routes(),
                rules=reader.read_rules(),
                neighbours=reader.read_neighbours(),
                sysctls=session.sysctls,
                tc=reader.read_tc(),
            )

    def read_device(self, namespace: str, name: str) -> Device | None:
        with _refusals(namespace, f"device {name} cannot be read"), self._session(namespace) as session:
            found = session.reader.read_device(name)
            return session.with_offload(found) if found else None

    def apply(self, namespace: str, changes: Iterable[Change]) -> None:
        given = tuple(changes)
        if not given:
            return
        with _refusals(namespace, "cannot be changed"), self._session(namespace) as session:
            writer = Writer(session.route, session.reader, self._namespaces)
            for change in given:
                with _refusals(namespace, change.text()):
                    if isinstance(change, SetSysctl):
                        self._namespaces.run(namespace, functools.partial(_write_sysctl, change.name, change.value))
                        continue
                    writer.carry_out(change)
                    if isinstance(change, SetDevice) and change.tx_checksum is not None:
                        _set_tx_checksum(session.control, change.name, on=change.tx_checksum)

    @contextlib.contextmanager
    def _session(self, namespace: str, sysctls: Sequence[str] = ()) -> Iterator[_Session]:
        session = self._namespaces.run(namespace, lambda: _Session(namespace, self._namespaces, sysctls))
        try:
            yield session
        finally:
            session.close()


class _Session:
    """The sockets of one call: opened by a thread inside the namespace, used from outside of it."""

    def __init__(self, namespace: str, namespaces: Namespaces, sysctls: Sequence[str]) -> None:
        self.sysctls = _read_sysctls(sysctls)
        self.route = RouteSocket()
        try:
            self.control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        except OSError:
            self.route.close()
            raise
        self.reader = Reader(self.route, namespace, _NamespaceIds(self.route, namespaces))

    def close(self) -> None:
        self.route.close()
        self.control.close()

    def with_offload(self, device: Device) -> Device:
        if device.kind != "veth":
            return device
        try:
            on = bool(_ethtool(self.control, device.name, _GET_TX_CHECKSUM, 0))
        except OSError:
            return device  # deleted since it was listed
        return device if on else dataclasses.replace(device, tx_checksum=False)


class _NamespaceIds:
    """Finds the name of a namespace by the id under which the kernel names it, as for the other end of a veth pair.

    Each namespace numbers others for itself, and the kernel does not map an id to a name. So it is asked for the id of
    one name after another, the host's first (it nearly always is that one), and only as far as needed.
    """

    def __init__(self, route: RouteSocket, namespaces: Namespaces) -> None:
        self._route = route
        self._namespaces = namespaces
        self._known: dict[int, str] = {}
        self._names: Iterator[str] | None = None

    def __call__(self, wanted: int) -> str | None:
        """None where no named namespace has this id."""
        if self._names is None:
            self._names = iter([HOST, *sorted(self._namespaces.names())])
        while wanted not in self._known:
            name = next(self._names, None)
            if name is None:
                return None
            self._known.setdefault(self._id(name), name)
        return self._known[wanted]

    def _id(self, name: str) -> int:
        try:
            descriptor = self._namespaces.open(name)
        except NetlinkError:
            return -1  # deleted since it was listed
        try:
            body = struct.pack("=Bxxx", socket.AF_UNSPEC) + number(linux.NETNSA_FD, descriptor)
            answer = read_attributes(self._route.get(linux.RTM_GETNSID, body), 4)
        except OSError:
            return -1
        finally:
            os.close(descriptor)
        found: int = struct.unpack("=i", answer[linux.NETNSA_NSID])[0]
        return found


@contextlib.contextmanager
def _refusals(namespace: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NetlinkError(f"{namespace or 'host'}: {what}: {error.strerror or error}") from error


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


# --- checksum offload, by ethtool's ioctl ---


def _set_tx_checksum(control: socket.socket, device: str, *, on: bool) -> None:
    # Open vSwitch's userspace datapath does not fill in checksums that a veth left to hardware, and receivers drop such
    # packets: the end inside the namespace has to compute them itself.
    if bool(_ethtool(control, device, _GET_TX_CHECKSUM, 0)) != on:
        _ethtool(control, device, _SET_TX_CHECKSUM, int(on))


def _ethtool(control: socket.socket, device: str, command: int, value: int) -> int:
    name = device.encode()
    if len(name) > 15:
        raise OSError(errno.ENODEV, f"there is no device {device}")
    words = ctypes.create_string_buffer(struct.pack("=II", command, value), 8)
    fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", name, ctypes.addressof(words)))
    answer: int = struct.unpack("=II", words.raw)[1]
    return answer
