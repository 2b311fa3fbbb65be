"""The haproxy processes that Neutron's agents run for metadata, in namespaces that our proxy listens in.

Both listen at the same address for a moment: haproxy and our agent open their sockets with SO_REUSEPORT, as the same user.
By SIGUSR1 haproxy closes its sockets, completes the requests that it has, and exits. So there is always a listener, and no
request is broken off.
"""

import dataclasses
import logging
import signal
from collections.abc import Collection, Iterator

from neutrino.agent.leftovers.recognise import neutron_daemon
from neutrino.dataplane.process.api import ForeignProcess, ForeignProcesses

LOG = logging.getLogger(__name__)
PROGRAM = "haproxy"


@dataclasses.dataclass(frozen=True)
class NeutronProxies:
    """Blocking. Each call reads all of /proc, once for all namespaces."""

    processes: ForeignProcesses

    def find(self, namespaces: Collection[str]) -> list[str]:
        """The namespaces that have one."""
        return sorted({name for name, _ in self._inside(namespaces)})

    def end(self, namespaces: Collection[str]) -> None:
        """End them; returns before they have completed their requests."""
        for name, process in self._inside(namespaces):
            if self.processes.send(process, signal.SIGUSR1):
                LOG.info("%s: our metadata proxy replaces haproxy (%d) of Neutron's agent", name, process.pid)

    def _inside(self, namespaces: Collection[str]) -> Iterator[tuple[str, ForeignProcess]]:
        for name, processes in self.processes.by_namespace(namespaces).items() if namespaces else ():
            for process in processes:
                if neutron_daemon(process, name.partition("-")[2]) == PROGRAM:
                    yield name, process
