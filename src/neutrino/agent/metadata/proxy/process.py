"""The metadata proxy process, from its start to SIGTERM.

It starts with the agent's privileges, creates its control socket, opens its monitor file, and becomes an unprivileged
user before it accepts anything. What needs privileges later comes from the agent through the control socket: listening
sockets, keys, secrets. Without an agent it serves on with what it has.
"""

import asyncio
import contextlib
import datetime
import encodings.idna  # noqa: F401  (to resolve names: the unprivileged user may be unable to import it later)
import gc
import logging
import os
import resource
import signal
import socket

from neutrino import __version__
from neutrino.agent.metadata.channel import Channel, ChannelClosed, listen
from neutrino.agent.metadata.messages import AGENT_MESSAGES, AgentMessage, Hello, SetListener, TakeOver
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.http_proxy import HttpProxy
from neutrino.agent.metadata.proxy.listener import Listeners

LOG = logging.getLogger(__name__)
DESCRIPTOR_SHARE = 8  # a namespace may use an eighth of the descriptors; each connection may need another one to Nova


def run(path: str, uid: int, gid: int, monitor: str, interval: float) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    control = listen(path)
    monitor_file = os.open(monitor, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644) if monitor else None
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    _drop_privileges(uid, gid)
    gc.freeze()  # modules are never garbage: collections need not visit them
    process = Process(control, monitor_file, interval, max_connections=max(1, descriptors // DESCRIPTOR_SHARE))
    asyncio.run(process.run())


def _drop_privileges(uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])  # while it is still allowed
    if os.getegid() != gid:  # the group first: without the user's privileges it cannot be changed
        os.setgid(gid)
    if os.geteuid() != uid:
        os.setuid(uid)


class Process:
    def __init__(
        self, control: socket.socket, monitor_file: int | None, interval: float, *, max_connections: int
    ) -> None:
        self._control = control
        self._monitor_file = monitor_file
        self._interval = interval
        self._proxy = HttpProxy(max_connections)
        self._listeners = Listeners(self._proxy)
        self._agent: Channel[AgentMessage] | None = None

    async def run(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._write_monitor_file())]
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()  # it has failed: the process exits, and the supervisor respawns it

    async def _write_monitor_file(self) -> None:
        """Written by the loop that serves: when the loop hangs, the time in the file stands still."""
        while True:
            if self._monitor_file is not None:
                now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
                with contextlib.suppress(OSError):  # a full disk must not stop the service
                    os.pwrite(self._monitor_file, f"{now}\n".encode(), 0)
            await asyncio.sleep(self._interval)

    # --- agents -----------------------------------------------------------------------------------------------------

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                connection, _ = await loop.sock_accept(self._control)
                group.create_task(self._serve_agent(Channel(connection, AGENT_MESSAGES)))

    async def _serve_agent(self, channel: Channel[AgentMessage]) -> None:
        try:
            await channel.send(Hello(__version__, self._listeners.current()))
            while True:
                message, descriptors = await channel.receive()
                self._handle(channel, message, descriptors)
        except ChannelClosed as closed:
            LOG.debug("%s", closed)
        except (ValueError, OSError) as error:
            LOG.error("a message of the agent cannot be carried out: %s", error)
        finally:
            channel.close()
            if self._agent is channel:
                self._agent = None

    def _handle(self, channel: Channel[AgentMessage], message: AgentMessage, descriptors: list[int]) -> None:
        if isinstance(message, TakeOver):
            before, self._agent = self._agent, channel
            if before is not None:
                before.close()
            self._proxy.configure(message.settings)
        elif channel is not self._agent:
            raise ValueError("another agent has taken over")
        elif isinstance(message, SetListener):
            self._listeners.set(message.namespace, message.listener, descriptors)
        else:
            directory = Directory() if message.snapshot else self._proxy.directory
            for port_id in message.gone:
                directory.remove(port_id)
            for instance in message.put:
                directory.put(instance)
            self._proxy.directory = directory
