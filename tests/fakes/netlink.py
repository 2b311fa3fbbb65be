"""The namespaces of a host in memory: they refuse what the kernel refuses, and drop what it drops by itself. Announcements
are recorded.
"""

from __future__ import annotations

import ipaddress
import itertools
import threading
from collections.abc import Iterable

from neutrino.dataplane.netlink.api import (
    DeleteDevice,
    DeleteItem,
    MoveDevice,
    NetlinkChange,
    NetlinkError,
    SetDevice,
    SetItem,
    SetSysctl,
    SetVeth,
    check_sysctl,
)
from neutrino.dataplane.netlink.values import HOST, Device, NamespaceState
from tests.fakes.netlink_stack import FakeDevice, FakeStack


class FakeNetlink:
    """`applied` is what was asked for, in order, for tests to look at."""

    def __init__(self) -> None:
        self._stacks: dict[str, FakeStack] = {HOST: FakeStack(HOST)}
        self._lock = threading.RLock()
        self._macs = (f"02:00:00:00:{number // 256:02x}:{number % 256:02x}" for number in itertools.count(1))
        self.applied: list[tuple[str, tuple[NetlinkChange, ...]]] = []
        self.announced: list[tuple[str, str, str]] = []  # namespace, device, address

    def stack(self, namespace: str) -> FakeStack:
        """The namespace itself: another object when one of the same name is made anew."""
        if namespace not in self._stacks:
            raise NetlinkError(f"namespace {namespace} does not exist")
        return self._stacks[namespace]

    def add_device(self, namespace: str, name: str, kind: str = "openvswitch") -> None:
        """A device that somebody else made, such as a port of Open vSwitch."""
        stack = self.stack(namespace)
        stack.add(FakeDevice(name, stack, kind=kind, mac=next(self._macs)))

    def namespaces(self) -> frozenset[str]:
        return frozenset(self._stacks) - {HOST}

    def has_namespace(self, name: str) -> bool:
        return name in self.namespaces()

    def create_namespace(self, name: str) -> None:
        if name in (".", "..") or "/" in name or not 0 < len(name) < 256:
            raise NetlinkError(f"{name!r} is not a valid name of a namespace")
        with self._lock:
            self._stacks.setdefault(name, FakeStack(name))

    def delete_namespace(self, name: str) -> None:
        with self._lock:
            stack = self._stacks.pop(name, None)
            for device in list(stack.devices.values()) if stack else []:
                if device.name in device.stack.devices:
                    _destroy(device)

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        names = [check_sysctl(name) for name in sysctls]
        with self._lock:
            return self.stack(namespace).state(names)

    def read_device(self, namespace: str, name: str) -> Device | None:
        with self._lock:
            found = self.stack(namespace).devices.get(name)
            return found.value() if found else None

    def apply(self, namespace: str, changes: Iterable[NetlinkChange]) -> None:
        given = tuple(changes)
        if not given:
            return
        with self._lock:
            self.applied.append((namespace, given))
            stack = self.stack(namespace)
            for change in given:
                try:
                    self._carry_out(stack, change)
                except NetlinkError as error:
                    raise NetlinkError(f"{namespace or 'host'}: {change.text()}: {error}") from error

    def announce(self, namespace: str, device: str, addresses: Iterable[str], *, router: bool = False) -> None:
        found = self.read_device(namespace, device)
        if found is None or not found.up:
            raise NetlinkError(f"{namespace or 'host'}: {device}: addresses cannot be announced: it is not up")
        self.announced += [(namespace, device, str(ipaddress.ip_address(address))) for address in addresses]

    def _carry_out(self, stack: FakeStack, change: NetlinkChange) -> None:
        match change:
            case SetItem(item):
                stack.set_item(item)
            case DeleteItem(item):
                stack.delete_item(item)
            case SetSysctl(name, value):
                stack.set_sysctl(check_sysctl(name), value)
            case _:
                self._device_change(stack, change)

    def _device_change(self, stack: FakeStack, change: NetlinkChange) -> None:
        match change:
            case SetVeth():
                self._set_veth(stack, change)
            case SetDevice():
                _set_device(stack, change)
            case MoveDevice(name, to):
                self._move(stack, name, self.stack(to))
            case DeleteDevice(name):
                if name == "lo":
                    raise NetlinkError("Operation not supported")
                if name in stack.devices:
                    _destroy(stack.devices[name])

    def _set_veth(self, stack: FakeStack, change: SetVeth) -> None:
        found = stack.devices.get(change.name)
        if found is not None:
            value = found.value()
            where = (value.peer, value.peer_namespace)
            if value.kind != "veth" or where != (change.peer, change.peer_namespace):
                raise NetlinkError(f"{change.name} exists as {value.kind or 'hardware'} with peer {where}")
            return
        peer_stack = self.stack(change.peer_namespace)
        if change.peer in peer_stack.devices or (peer_stack is stack and change.peer == change.name):
            raise NetlinkError(f"{change.peer}: File exists")
        mtu = change.mtu or 1500
        here = FakeDevice(change.name, stack, "veth", change.mac or next(self._macs), mtu)
        peer = FakeDevice(change.peer, peer_stack, "veth", next(self._macs), mtu)
        here.peer, peer.peer = peer, here
        stack.add(here)
        peer_stack.add(peer)

    def _move(self, stack: FakeStack, name: str, to: FakeStack) -> None:
        if name not in stack.devices and name in to.devices:
            return
        device = stack.get(name)
        if name == "lo":
            raise NetlinkError("Invalid argument")
        if to is stack:
            return
        if name in to.devices:
            raise NetlinkError("File exists")
        stack.remove(device)
        to.add(device)


def _set_device(stack: FakeStack, change: SetDevice) -> None:
    device = stack.get(change.name)
    device.mac = change.mac.lower() or device.mac
    device.mtu = change.mtu or device.mtu
    if change.alias is not None:
        device.alias = change.alias
    if change.tx_checksum is not None:
        device.tx_checksum = change.tx_checksum
    if change.up:
        device.up = True
    elif change.up is False:
        stack.set_down(device)


def _destroy(device: FakeDevice) -> None:
    device.stack.remove(device)
    if device.peer is not None:
        device.peer.stack.remove(device.peer)
