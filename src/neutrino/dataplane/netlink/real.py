"""The real namespaces of this machine.

A socket is opened inside the namespace for each call and closed after it: that takes a tenth of a millisecond, while a
socket that is kept goes on speaking with a namespace that was deleted, and keeps it and its devices alive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterable, Iterator, Sequence

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.changes import Change, SetDevice, SetSysctl
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.offload import read_tx_checksum, set_tx_checksum
from neutrino.dataplane.netlink.places import Places
from neutrino.dataplane.netlink.reading import Reader
from neutrino.dataplane.netlink.sysctls import check_name, read_sysctls, write_sysctl
from neutrino.dataplane.netlink.values import Device, NamespaceState, Neighbour
from neutrino.dataplane.netlink.rtnetlink import RouteSocket
from neutrino.dataplane.netlink.writing import Writer


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
        names = [check_name(name) for name in sysctls]
        with _refusals(namespace, "cannot be read"), self._conversation(namespace, names) as talk:
            reader = talk.reader
            devices = reader.read_devices()
            return NamespaceState(
                devices={name: talk.with_offload(device) for name, device in devices.items()},
                addresses=reader.read_addresses(),
                routes=reader.read_routes(),
                rules=reader.read_rules(),
                neighbours=reader.read_neighbours(),
                sysctls=talk.sysctls,
            )

    def read_device(self, namespace: str, name: str) -> Device | None:
        with _refusals(namespace, f"device {name} cannot be read"), self._conversation(namespace) as talk:
            found = talk.reader.read_device(name)
            return talk.with_offload(found) if found else None

    def read_learned(self, namespace: str) -> frozenset[Neighbour]:
        with _refusals(namespace, "cannot be read"), self._conversation(namespace) as talk:
            talk.reader.read_devices()
            return talk.reader.read_neighbours(learned=True)

    def apply(self, namespace: str, changes: Iterable[Change]) -> None:
        given = tuple(changes)
        if not given:
            return
        with _refusals(namespace, "cannot be changed"), self._conversation(namespace) as talk:
            writer = Writer(talk.route, talk.reader, self._namespaces)
            for change in given:
                with _refusals(namespace, change.text()):
                    self._carry_out(namespace, change, writer, talk)

    def _carry_out(self, namespace: str, change: Change, writer: Writer, talk: _Conversation) -> None:
        if isinstance(change, SetSysctl):
            self._namespaces.run(namespace, lambda: write_sysctl(change.name, change.value))
            return
        writer.carry_out(change)
        if isinstance(change, SetDevice) and change.tx_checksum is not None:
            set_tx_checksum(talk.control, change.name, on=change.tx_checksum)

    @contextlib.contextmanager
    def _conversation(self, namespace: str, sysctls: Sequence[str] = ()) -> Iterator[_Conversation]:
        talk = self._namespaces.run(namespace, lambda: _Conversation(namespace, self._namespaces, sysctls))
        try:
            yield talk
        finally:
            talk.close()


class _Conversation:
    """The sockets of one call. Made inside the namespace, used from outside."""

    def __init__(self, namespace: str, namespaces: Namespaces, sysctls: Sequence[str]) -> None:
        self.sysctls = read_sysctls(sysctls)
        self.route = RouteSocket()
        try:
            self.control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        except OSError:
            self.route.close()
            raise
        self.reader = Reader(self.route, namespace, Places(self.route, namespaces))

    def close(self) -> None:
        self.route.close()
        self.control.close()

    def with_offload(self, device: Device) -> Device:
        if device.kind != "veth":
            return device
        try:
            on = read_tx_checksum(self.control, device.name)
        except OSError:
            return device  # it went meanwhile
        return device if on else dataclasses.replace(device, tx_checksum=False)


@contextlib.contextmanager
def _refusals(namespace: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NetlinkError(f"{namespace or 'host'}: {what}: {error.strerror or error}") from error
