"""The netlink driver: reads and changes the namespaces of this machine.

A socket is opened inside the namespace for each call and closed after it, which takes a tenth of a millisecond. A
socket that is kept would go on addressing a namespace that was deleted and created anew, and would keep the old one
with its devices alive.
"""

import contextlib
import functools
import socket
from collections.abc import Iterable, Iterator

from neutrino.dataplane.netlink.api import Change, DeleteItem, NetlinkError, SetItem, SetSysctl, check_sysctl
from neutrino.dataplane.netlink.devices import Devices
from neutrino.dataplane.netlink.items import delete_item, list_items, list_tc, set_item
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.rtnetlink import NetlinkSocket
from neutrino.dataplane.netlink.values import Address, Device, NamespaceState, Neighbour, Route, Rule


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
            return session.read()

    def read_device(self, namespace: str, name: str) -> Device | None:
        with _refusals(namespace, f"device {name} cannot be read"), self._session(namespace) as session:
            return session.devices.read_one(name)

    def apply(self, namespace: str, changes: Iterable[Change]) -> None:
        given = tuple(changes)
        if not given:
            return
        with _refusals(namespace, "cannot be changed"), self._session(namespace) as session:
            for change in given:
                with _refusals(namespace, change.text()):
                    if isinstance(change, SetSysctl):
                        self._namespaces.run(namespace, functools.partial(_write_sysctl, change.name, change.value))
                    else:
                        session.apply(change)

    @contextlib.contextmanager
    def _session(self, namespace: str, sysctls: Iterable[str] = ()) -> Iterator["_Session"]:
        session = self._namespaces.run(namespace, lambda: _Session(namespace, self._namespaces, sysctls))
        try:
            yield session
        finally:
            session.close()


class _Session:
    """The sockets of one call: opened by a thread inside the namespace, used from outside of it."""

    def __init__(self, namespace: str, namespaces: Namespaces, sysctls: Iterable[str]) -> None:
        self._sysctls = _read_sysctls(sysctls)
        self._route = NetlinkSocket()
        try:
            self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        except OSError:
            self._route.close()
            raise
        self.devices = Devices(self._route, self._control, namespace, namespaces)

    def close(self) -> None:
        self._route.close()
        self._control.close()

    def read(self) -> NamespaceState:
        devices = self.devices.read()
        by_index = {device.index: device for device in devices.values()}
        return NamespaceState(
            devices=devices,
            addresses=list_items(self._route, Address, by_index),
            routes=list_items(self._route, Route, by_index),
            rules=list_items(self._route, Rule, by_index),
            neighbours=list_items(self._route, Neighbour, by_index),
            sysctls=self._sysctls,
            tc=list_tc(self._route, by_index),
        )

    def apply(self, change: Change) -> None:
        match change:
            case SetItem(item):
                set_item(self._route, item, self.devices.index)
            case DeleteItem(item):
                delete_item(self._route, item, self.devices.index)
            case _:
                self.devices.apply(change)


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
