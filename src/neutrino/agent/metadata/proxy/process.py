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
from dataclasses import dataclass

from neutrino import __version__, daemon_files
from neutrino.agent.metadata import counts
from neutrino.agent.metadata.channel import Channel, ChannelClosed, listen
from neutrino.agent.metadata.messages import AGENT_MESSAGES, AgentMessage, Hello, SetListener, TakeOver
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.http_proxy import HttpProxy
from neutrino.agent.metadata.proxy.listener import PAUSE_SECONDS, Listeners

LOG = logging.getLogger(__name__)
DESCRIPTOR_SHARE = 8  # a namespace may use an eighth of the descriptors; each connection may need another one to Nova


def run(path: str, uid: int, gid: int, monitor: str, interval: float, log: str = "", debug: bool = False) -> None:
    """`log`: empty for text, or json."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if log == "json":
        from oslo_log.formatters import JSONFormatter  # large, so only where it is used

        logging.getLogger().handlers[0].setFormatter(JSONFormatter())
    control = listen(path)  # as root still: no other user may connect
    counted = counts.listen(path)
    monitor_file = _open_monitor_file(monitor) if monitor else None
    # The soft limit is usually 1024, for programs that use select(); a connection needs two descriptors with Nova's.
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    _drop_privileges(uid, gid)
    gc.freeze()  # modules are never garbage: collections need not visit them
    most = max(1, descriptors // DESCRIPTOR_SHARE)
    process = Process(control, monitor_file, interval, max_connections=most, counted=counted)
    asyncio.run(process.run())


def _open_monitor_file(path: str) -> int:
    """Open the monitor file, as root still.

    Its directory is the operator's choice: a link in it must not give the proxy's user another file.
    """
    with daemon_files.opened(path, os.O_WRONLY | os.O_CREAT, 0o644) as descriptor:
        return os.dup(descriptor)


def _drop_privileges(uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])  # while it is still allowed
    if os.getegid() != gid:  # the group first: without the user's privileges it cannot be changed
        os.setgid(gid)
    if os.geteuid() != uid:
        os.setuid(uid)


@dataclass
class Process:
    control: socket.socket
    monitor_file: int | None
    interval: float
    max_connections: int
    counted: socket.socket | None = None  # answers with the number of requests

    def __post_init__(self) -> None:
        self._proxy = HttpProxy(self.max_connections)
        self._listeners = Listeners(self._proxy)
        self._agent: Channel[AgentMessage] | None = None

    async def run(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)  # its default action would end the proxy
        self._listen()
        if self.counted is not None:
            loop.add_reader(self.counted, counts.answer, self.counted, self._proxy.responses)
        while not stop.is_set():
            self._write_monitor_file()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval):
                    await stop.wait()

    def _write_monitor_file(self) -> None:
        """Written by the loop that serves: when the loop hangs, the time in the file stands still."""
        if self.monitor_file is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            with contextlib.suppress(OSError):  # a full disk must not stop the service
                os.pwrite(self.monitor_file, f"{now}\n".encode(), 0)

    # --- agents -----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self.control, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self.control.accept()
        except OSError as error:  # no free descriptor; the socket stays readable: without a pause, the loop would spin
            LOG.warning("an agent cannot connect for now: %s", error)
            asyncio.get_running_loop().remove_reader(self.control)
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._listen)
            return
        connection.setblocking(False)
        channel = Channel(connection, AGENT_MESSAGES)
        try:
            channel.send(Hello(__version__, self._listeners.current()))
        except ChannelClosed:
            connection.close()
        else:
            asyncio.get_running_loop().add_reader(connection, self._receive, channel)

    def _receive(self, channel: Channel[AgentMessage]) -> None:
        try:
            while True:  # all that have been sent: a client that connects then sees the result
                message, descriptors = channel.receive()
                self._handle(channel, message, descriptors)
        except BlockingIOError:
            return
        except ChannelClosed as closed:
            LOG.debug("%s", closed)
            self._disconnect(channel)
        except (ValueError, OSError) as error:
            LOG.error("a message of the agent cannot be carried out: %s", error)
            self._disconnect(channel)

    def _disconnect(self, channel: Channel[AgentMessage]) -> None:
        asyncio.get_running_loop().remove_reader(channel.socket)
        channel.socket.close()
        if self._agent is channel:
            self._agent = None

    def _handle(self, channel: Channel[AgentMessage], message: AgentMessage, descriptors: list[int]) -> None:
        if isinstance(message, TakeOver):
            if self._agent is not None:
                self._disconnect(self._agent)
            self._agent = channel
            self._proxy.configure(message.settings)
        elif isinstance(message, SetListener):
            self._listeners.set(message.namespace, message.listener, descriptors)
        else:
            directory = Directory() if message.snapshot else self._proxy.directory
            for port_id in message.gone:
                directory.remove(port_id)
            for instance in message.put:
                directory.put(instance)
            self._proxy.directory = directory  # at once: no request sees half a snapshot
