"""The metadata process itself: from its start to SIGTERM.

It begins with the agent's rights, for as long as it takes to make its control socket and to open the file that shows that
it lives; then it becomes the user that it is to run as. All that needs rights later comes from the agent, through that
socket: listening sockets, keys, secrets. When the agent goes away it serves on with what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import encodings.idna  # noqa: F401  (needed to resolve names; it could not be loaded later by a user who may not read it)
import gc
import logging
import os
import resource
import signal
import socket

from neutrino import __version__
from neutrino.agent.metadata.channel import Channel, ChannelClosed, listen
from neutrino.agent.metadata.messages import (
    ASKED,
    MOST_LISTENING,
    Asked,
    Close,
    Configure,
    Has,
    Hello,
    Listen,
    Ports,
    SetSources,
    Take,
)
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.listening import Listeners
from neutrino.agent.metadata.proxy.serving import Serving

LOG = logging.getLogger(__name__)
SHARE = 8  # of all descriptors, the part that one namespace may have; each of its connections may take another to Nova


def run(path: str, uid: int, gid: int, monitor: str, interval: float) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    control = listen(path)
    note = os.open(monitor, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644) if monitor else None
    most = _allow_many_files()
    _become(uid, gid)
    gc.freeze()
    asyncio.run(Process(control, note, interval, most_connections=max(1, most // SHARE)).run())


def _allow_many_files() -> int:
    """How many descriptors there may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _become(uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
    if os.getegid() != gid:
        os.setgid(gid)
    if os.geteuid() != uid:
        os.setuid(uid)


class Process:
    def __init__(
        self,
        control: socket.socket,
        note: int | None = None,
        interval: float = 5.0,
        most_connections: int = 1 << 16,
    ) -> None:
        self._control = control
        self._note = note
        self._interval = interval
        self._serving = Serving(most_connections)
        self._listeners = Listeners(self._serving)
        self._growing: Directory | None = None  # while an agent tells all that there is
        self._agent: Channel[Asked] | None = None

    async def run(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._live())]
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # it has failed: the process ends, and another is started

    async def _live(self) -> None:
        """The loop that serves writes the time: where it hangs, the time stands still."""
        while True:
            if self._note is not None:
                now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                with contextlib.suppress(OSError):  # a full disk is no reason to stop
                    os.pwrite(self._note, f"{now}\n".encode(), 0)
            await asyncio.sleep(self._interval)

    # --- agents -----------------------------------------------------------------------------------------------------

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        talks: set[asyncio.Task[None]] = set()
        while True:
            connection, _ = await loop.sock_accept(self._control)
            task = asyncio.create_task(self._talk(Channel(connection, ASKED)))
            talks.add(task)
            task.add_done_callback(talks.discard)

    async def _talk(self, channel: Channel[Asked]) -> None:
        try:
            listening = list(self._listeners.all().items())
            for start in range(0, len(listening), MOST_LISTENING):
                await channel.send(Has(dict(listening[start : start + MOST_LISTENING])))
            await channel.send(Hello(__version__, len(self._serving.directory)))
            while True:
                message, descriptors = await channel.receive()
                self._do(channel, message, descriptors)
        except ChannelClosed as closed:
            LOG.debug("%s", closed)
        except (ValueError, OSError) as error:
            LOG.error("what the agent asks cannot be done: %s", error)
        finally:
            channel.close()
            if self._agent is channel:
                self._agent = self._growing = None

    def _do(self, channel: Channel[Asked], message: Asked, descriptors: list[int]) -> None:
        if isinstance(message, Take):
            before, self._agent = self._agent, channel
            if before is not None:
                before.close()
        elif channel is not self._agent:
            raise ValueError("another agent has taken over")
        elif isinstance(message, Configure):
            self._serving.configure(message.settings)
        elif isinstance(message, Listen):
            self._listeners.open(message.key, message.listening, descriptors)
        elif isinstance(message, SetSources):
            self._listeners.set_sources(message.key, message.sources)
        elif isinstance(message, Close):
            self._listeners.close(message.key)
        else:
            self._take_ports(message)

    def _take_ports(self, message: Ports) -> None:
        if message.step == "begin":
            self._growing = Directory()
        directory = self._growing if self._growing is not None else self._serving.directory
        for port_id in message.gone:
            directory.remove(port_id)
        for instance in message.put:
            directory.put(instance)
        if message.step == "end" and self._growing is not None:
            self._serving.directory, self._growing = self._growing, None
