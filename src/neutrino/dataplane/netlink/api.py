"""The driver of namespaces: what can be asked, and how it should be.

What is there is read as `values`; `changes` are values too, so that a plan can be printed before it is carried out. Each
says how things should be, not what to do: applied twice, the second time changes nothing. The kernel knows no transaction
over several of them: they are carried out in order, and the first that is refused ends it.

The namespace `""` is the one that the agent itself is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from neutrino.dataplane.netlink.changes import Change
from neutrino.dataplane.netlink.values import Device, NamespaceState, Neighbour


class NetlinkError(Exception):
    """The kernel refused a change or a question. Of several changes, those before it are in force."""


class NamespaceMissing(NetlinkError):
    """There is no namespace of that name."""


class Netlink(Protocol):
    """All calls may block for some milliseconds, and may be made from any thread."""

    def namespaces(self) -> frozenset[str]:
        """The names of those that have one."""
        ...

    def create_namespace(self, name: str) -> None:
        """Nothing happens if it is there."""
        ...

    def delete_namespace(self, name: str) -> None:
        """Take the name away; what is in it goes when no process is in it any more."""
        ...

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        """`sysctls` that this kernel does not have are not in the answer."""
        ...

    def read_device(self, namespace: str, name: str) -> Device | None:
        """One device alone: reading all of the host's takes long where it has many."""
        ...

    def apply(self, namespace: str, changes: Iterable[Change]) -> None: ...

    def read_learned(self, namespace: str) -> frozenset[Neighbour]:
        """Who has which address, as the kernel has found out by asking."""
        ...
