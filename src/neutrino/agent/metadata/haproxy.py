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


@dataclasses.dataclass
class NeutronProxies:
    """Blocking. Each call reads all of /proc, once for all namespaces.

    One that has been signalled may take half a minute until it exits, for the requests and connections that it has.
    """

    processes: ForeignProcesses
    _signalled: set[ForeignProcess] = dataclasses.field(default_factory=set, init=False)

    def find(self, namespaces: Collection[str]) -> list[str]:
        """The namespaces that have one that is not ending."""
        return sorted({name for name, _ in self._inside(namespaces)})

    def end(self, namespaces: Collection[str]) -> None:
        """End them; returns before they have completed their requests."""
        for name, process in self._inside(namespaces):
            if self.processes.send(process, signal.SIGUSR1):
                self._signalled.add(process)
                LOG.info("%s: our metadata proxy replaces haproxy (%d) of Neutron's agent", name, process.pid)

    def _inside(self, namespaces: Collection[str]) -> Iterator[tuple[str, ForeignProcess]]:
        for name, processes in self.processes.by_namespace(namespaces).items() if namespaces else ():
            for process in processes:
                if neutron_daemon(process, name.partition("-")[2]) == PROGRAM and process not in self._signalled:
                    yield name, process
