"""Conntrack entries of a namespace, as DHCP and routers flush them."""

from collections.abc import Iterable

from neutrino.dataplane.conntrack.api import ConntrackFlush
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.netlink.namespaces import Namespaces


class NamespaceConntrack:
    """Flushed by a thread inside the namespace.

    Given the namespace's name, the netlink library would fork this process to enter it, and end the child by a SIGTERM,
    which our event loop would see too: both share the descriptor that signals are written to.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        several = tuple(entries)
        Namespaces().run(self._namespace, lambda: KernelConntrack().flush(several))
