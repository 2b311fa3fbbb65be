"""A listening socket and those who come in by it.

asyncio's own server forgets a connection that came in while it was being closed, and its client waits for ever; it is also
larger than a host with a thousand sockets would like.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable

LOG = logging.getLogger(__name__)
AT_ONCE = 64  # connections taken before others have their turn
BUFFER = 1 << 16
PAUSE_SECONDS = 0.2  # when there are no more descriptors
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Door:
    def __init__(self, listening: socket.socket, visit: Visit) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._visit = visit
        self._inside: set[asyncio.Task[None]] = set()
        self._watch()

    def _watch(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                LOG.warning("a connection has to wait: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._socket)
                loop.call_later(PAUSE_SECONDS, self._watch)
                return
            task = asyncio.create_task(self._serve(connection))
            self._inside.add(task)
            task.add_done_callback(self._inside.discard)

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=BUFFER)
        protocol = asyncio.StreamReaderProtocol(reader)
        connection.setblocking(False)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()
            return
        await self._visit(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
