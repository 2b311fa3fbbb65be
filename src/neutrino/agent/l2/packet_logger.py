"""Writes the network log: packets that the switch copies to the agent, as lines of a file or of the agent's log."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable
from logging.handlers import WatchedFileHandler

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.logged_packets import LoggedPorts
from neutrino.dataplane.openflow.packet_in import PacketIn, PacketIns, RejectedMessage

LOG = logging.getLogger(__name__)
NETWORK_LOG = "neutrino.network_log"  # the logger
_MODE = 0o640  # what instances talk about is not for everybody
SwitchStarted = Callable[[int], Awaitable[int]]
"""Waits until the switch was found running more often than so many times; how often it was."""


@dataclasses.dataclass(eq=False)
class PacketLogger:
    packets: PacketIns
    path: str | None = None  # of the file; None: the agent's log

    def __post_init__(self) -> None:
        self._output = logging.getLogger(NETWORK_LOG)
        self._ports: tuple[Desired | None, LoggedPorts | None] = (None, None)

    async def run(self, bridge: str, desired: Callable[[], Desired | None], switch_started: SwitchStarted) -> None:
        """Never ends. `desired`: what was applied last, by which the ids of packets' objects are found."""
        self._output = network_log(self.path)  # not before: a dry run must not open the file
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
        async for copied in self.packets.read(bridge):
            try:
                self._write(copied, desired())
            except Exception:  # whatever an instance sends, or a disk refuses, the role goes on
                LOG.exception("a packet could not be logged")

    def _write(self, copied: PacketIn, desired: Desired | None) -> None:
        if desired is None:
            return
        known, ports = self._ports
        if known is not desired or ports is None:
            ports = LoggedPorts(desired)
            self._ports = desired, ports
        for line in ports.lines(copied):
            self._output.info("%s", line)


def network_log(path: str | None) -> logging.Logger:
    """The logger of packets: of a file, which may be rotated, or else a part of the agent's own log."""
    output = logging.getLogger(NETWORK_LOG)
    output.setLevel(logging.INFO)
    if path:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE))
            handler = WatchedFileHandler(path)
        except OSError as error:
            LOG.error("[network_log] local_output_log_base: %s; packets are logged here", error)
            return output
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        output.addHandler(handler)
        output.propagate = False
    return output
