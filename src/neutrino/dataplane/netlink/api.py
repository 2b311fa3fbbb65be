"""The netlink driver: errors and the protocol.

Actual state is read as `values`; `changes` are values too, so that a plan can be printed before it is applied. Each
change names the state to reach. The kernel has no transaction over several of them: they are applied in order, and the
first that is refused ends it.

The namespace `""` is the agent's own.
"""

from collections.abc import Iterable
from typing import Protocol

from neutrino.dataplane.netlink.changes import Change
from neutrino.dataplane.netlink.values import Device, NamespaceState


class NetlinkError(Exception):
    """The kernel refused a request. Of several changes, those before it are in force."""


class NamespaceMissing(NetlinkError):
    """There is no namespace of that name."""


class Netlink(Protocol):
    """All calls may block for some milliseconds, and may be made from any thread."""

    def namespaces(self) -> frozenset[str]: ...

    def create_namespace(self, name: str) -> None:
        """No error if it exists."""
        ...

    def delete_namespace(self, name: str) -> None:
        """Removes the name; the kernel destroys the namespace when no process is in it any more."""
        ...

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        """`sysctls` that this kernel does not have are missing from the result."""
        ...

    def read_device(self, namespace: str, name: str) -> Device | None:
        """One device alone: reading all of the host's takes long where it has many."""
        ...

    def apply(self, namespace: str, changes: Iterable[Change]) -> None: ...


def check_sysctl(name: str) -> str:
    """The name, if it is a path such as net/ipv4/ip_forward; ValueError otherwise."""
    parts = name.split("/")
    if parts[0] != "net" or len(parts) < 3 or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name}: not a path such as net/ipv4/ip_forward")
    return name
