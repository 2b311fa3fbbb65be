"""Connections of lab hosts to servers of this machine.

A lab host reaches nothing outside the lab. A socket belongs to the network namespace in which it was created, whichever
process uses it: here one process listens on the loopback of each host and connects in its own namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable

from neutrino.lab.hosts.namespaces import in_host

_CHUNK = 65536


class Relay:
    """Forwards a TCP port of the loopback of each host to the same port here: `with Relay(holders, port):`."""

    def __init__(self, holders: Iterable[int], port: int) -> None:
        self._listeners = [in_host(holder, lambda: _listen(port)) for holder in holders]
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"relay-{port}", daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        for listener in self._listeners:
            self._loop.run_until_complete(asyncio.start_server(self._connected, sock=listener))
        self._loop.run_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


def _listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=128)
