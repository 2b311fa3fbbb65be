"""Packets that are copied to the agent: writes the network log, as lines of a file or of the agent's log, and answers
packets that a firewall group rejects.

The switch copies those of ports that it filters, netfilter those of hybrid ports. Netfilter's log is not opened before a
host has a hybrid port with a log.
"""

import asyncio
import dataclasses
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.logged_packets import LoggedPorts
from neutrino.agent.l2.packets import logs_by_port
from neutrino.agent.l2.pipeline import EXTENSION_TABLES, INGRESS_TABLES, TRANSIENT
from neutrino.agent.l2.refusals import answers, refuse, rejecting_port
from neutrino.agent.network_log import NETWORK_LOG, network_log
from neutrino.dataplane.protocols.nflog import LoggedPacket, Nflog
from neutrino.dataplane.protocols.packet_in import Channel, PacketIn, PacketIns, RejectedMessage

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 10.0  # before netfilter's log is opened again
SwitchStarted = Callable[[int], Awaitable[int]]
"""Waits until the switch was found running more often than so many times; how often it was."""


@dataclasses.dataclass(eq=False)
class PacketLogger:
    packets: PacketIns
    path: str | None = None  # of the file; None: the agent's log
    bridged: Nflog | None = None  # packets of hybrid ports
    # Called with the first packets of instances that migrate to this host.
    arrived: Callable[[PacketIn], None] = lambda _: None

    def __post_init__(self) -> None:
        self._output = logging.getLogger(NETWORK_LOG)
        self._ports: tuple[Desired | None, LoggedPorts | None] = (None, None)
        self._needs_bridged = asyncio.Event()
        self._answers = answers(time.monotonic)

    def applied(self, desired: Desired | None) -> None:
        """After each reconciliation."""
        if desired is None or self._needs_bridged.is_set() or not any(port.hybrid for port in desired.ports):
            return
        logs = logs_by_port(desired.host_state)
        if any(port.hybrid and port.id in logs for port in desired.ports):
            self._needs_bridged.set()

    async def run(self, bridge: str, desired: Callable[[], Desired | None], switch_started: SwitchStarted) -> None:
        """Never ends. `desired`: what was applied last, by which the ids of packets' objects are found."""
        self._output = network_log(self.path)  # not before: a dry run must not open the file
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_switch(bridge, desired, switch_started))
            if self.bridged is not None:
                group.create_task(self._follow_netfilter(self.bridged, desired))

    async def _follow_switch(
        self, bridge: str, desired: Callable[[], Desired | None], switch_started: SwitchStarted
    ) -> None:
        starts = await switch_started(0)
        while True:
            try:
                await self._read(bridge, desired)
            except asyncio.IncompleteReadError:
                continue  # the connection has ended: if the switch has too, the next one fails, and waits for it
            except RejectedMessage as error:
                LOG.error("no packets of %s are logged until the switch is restarted: %s", bridge, error)
            except OSError as error:
                LOG.debug("the switch is down: %s", error)
            starts = await switch_started(starts)

    async def _read(self, bridge: str, desired: Callable[[], Desired | None]) -> None:
        async with self.packets.connect(bridge) as channel:
            async for copied in channel.read():
                if copied.table == TRANSIENT.number:
                    self.arrived(copied)
                elif copied.table in EXTENSION_TABLES or copied.table in INGRESS_TABLES:
                    self._refuse(desired(), channel, copied)
                else:
                    self._write(desired(), partial(LoggedPorts.lines, copied=copied))

    def _refuse(self, desired: Desired | None, channel: Channel, copied: PacketIn) -> None:
        if desired is None or not self._answers.take(rejecting_port(copied)):
            return
        try:
            answered = refuse(copied, desired.options)
        except Exception:  # whatever an instance sends, the role goes on
            LOG.exception("a rejected packet could not be answered")
        else:
            if answered is not None:
                channel.send(answered)

    async def _follow_netfilter(self, log: Nflog, desired: Callable[[], Desired | None]) -> None:
        await self._needs_bridged.wait()
        reason = ""
        while True:
            try:
                async for copied in log.read():
                    self._write(desired(), partial(_bridged, copied=copied))
            except OSError as error:
                if str(error) != reason:  # once: a kernel without this log refuses every attempt
                    LOG.error("packets of hybrid ports are not logged: %s", error)
                reason = str(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _write(self, desired: Desired | None, lines: Callable[[LoggedPorts], Iterator[str]]) -> None:
        try:
            self._write_lines(desired, lines)
        except Exception:  # whatever an instance sends, or a disk refuses, the role goes on
            LOG.exception("a packet could not be logged")

    def _write_lines(self, desired: Desired | None, lines: Callable[[LoggedPorts], Iterator[str]]) -> None:
        if desired is None:
            return
        known, ports = self._ports
        if known is not desired or ports is None:
            ports = LoggedPorts(desired)
            self._ports = desired, ports
        for line in lines(ports):
            self._output.info("%s", line)


def _bridged(ports: LoggedPorts, copied: LoggedPacket) -> Iterator[str]:
    return ports.bridged_lines(copied.prefix, _name(copied.device_in), _name(copied.device_out), copied.data)


def _name(index: int) -> str:
    """Return the name of a device; empty if it is gone."""
    try:
        return socket.if_indextoname(index) if index else ""
    except OSError:
        return ""
