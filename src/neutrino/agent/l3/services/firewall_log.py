"""Reads the packets of router ports that firewall groups log, and writes the network log.

The rules are in the router's namespaces (`agent/l3/firewall_log.py`), and each namespace has a netfilter log of its own. So
the agent holds a socket in each namespace with a logged port, while it has one.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from neutrino.agent.l3.firewall_log import LoggedPorts, lines_of
from neutrino.agent.l3.services.api import RouterService, Serving
from neutrino.agent.network_log import NETWORK_LOG, network_log
from neutrino.agent.runtime.bucket import Bucket
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.protocols.nflog import LoggedPacket, Nflog
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 10.0  # before a log is opened again: an agent that is replaced may still read it


@dataclass(frozen=True)
class NamespaceLogs:
    """The logs of namespaces, by name."""

    open: Callable[[str], Nflog]
    identity: Callable[[str], int]  # blocks; another one if a namespace was created anew. OSError: there is none


@dataclass(eq=False)
class _Reader:
    ports: LoggedPorts
    identity: int
    task: asyncio.Task[None] | None = None


@dataclass
class FirewallLogs(RouterService):
    logged: Callable[[Router], Mapping[str, LoggedPorts]]  # by namespace
    logs: NamespaceLogs
    bucket: Bucket  # of the host, for all namespaces together
    path: str | None = None  # of the file; None: the agent's log
    can_log: bool = True  # whether the kernel has netfilter's log
    _readers: dict[str, dict[str, _Reader]] = field(default_factory=dict)  # by router and namespace
    _is_open: bool = False

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        wanted = self.logged(router)
        if wanted and not self.can_log:
            return ["firewall groups are not logged: the kernel has no netfilter log (nfnetlink_log)"]
        readers = self._readers.setdefault(router.id, {})
        for name in readers.keys() - wanted.keys():
            await _end(readers.pop(name))
        problems = []
        for name, ports in wanted.items():
            try:
                await self._read(readers, name, ports)
            except OSError as error:
                problems.append(f"firewall groups in {name} are not logged: {error}")
        if not readers:
            del self._readers[router.id]
        return problems

    async def stop(self, router_id: str, *, moved: bool) -> None:
        for reader in self._readers.pop(router_id, {}).values():
            await _end(reader)

    async def close(self) -> None:
        for router_id in [*self._readers]:
            await self.stop(router_id, moved=False)

    async def _read(self, readers: dict[str, _Reader], name: str, ports: LoggedPorts) -> None:
        identity, reader = await asyncio.to_thread(self.logs.identity, name), readers.get(name)
        if reader is not None and reader.identity == identity:
            reader.ports = ports
            return
        if reader is not None:  # its socket is in the former namespace
            await _end(reader)
        if not self._is_open:  # not before: a dry run must not open the file
            network_log(self.path)
            self._is_open = True
        readers[name] = reader = _Reader(ports, identity)
        reader.task = asyncio.create_task(self._follow(name, reader))

    async def _follow(self, name: str, reader: _Reader) -> None:
        reason = ""
        while True:
            try:
                async for copied in self.logs.open(name).read():
                    self._write(reader.ports, copied)
            except (OSError, NetlinkError) as error:
                if str(error) != reason:  # once: it may be refused for long
                    LOG.error("firewall groups in %s are not logged: %s", name, error)
                reason = str(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _write(self, ports: LoggedPorts, copied: LoggedPacket) -> None:
        try:
            found = [*lines_of(ports, copied.prefix, copied.data)]
            if found and self.bucket.take():
                for line in found:
                    logging.getLogger(NETWORK_LOG).info("%s", line)
        except Exception:  # whatever is sent, or a disk refuses, the router goes on
            LOG.exception("a packet could not be logged")


async def _end(reader: _Reader) -> None:
    if reader.task is not None:
        reader.task.cancel()
        await asyncio.gather(reader.task, return_exceptions=True)
