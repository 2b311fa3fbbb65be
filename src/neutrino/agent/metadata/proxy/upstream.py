"""Connections to Nova: kept open for the next request, and never waited for by anybody but the one who asked."""

from __future__ import annotations

import asyncio
import select
import time
from dataclasses import dataclass

import h11

from neutrino.agent.metadata.messages import Settings
from neutrino.agent.metadata.proxy.peer import Peer
from neutrino.agent.metadata.proxy.tls import explain, make_context

MOST_IDLE = 256
IDLE_SECONDS = 20.0  # less than servers commonly keep a connection
_BUFFER = 1 << 16


class NovaUnreachable(Exception):
    """No connection: refused, or in time (`late`) none."""

    def __init__(self, reason: str, *, late: bool) -> None:
        super().__init__(reason)
        self.late = late


@dataclass(frozen=True)
class _Idle:
    """A connection between two requests, and a task that ends when something arrives on it."""

    peer: Peer
    since: float
    arrival: asyncio.Task[bytes]

    async def is_usable(self) -> bool:
        """Whether Nova has neither closed it nor sent what nobody asked for, so far."""
        await asyncio.sleep(0)  # the task runs at least once: it sees what has been read from the socket already
        self.arrival.cancel()
        await asyncio.wait([self.arrival])
        if not self.arrival.cancelled():
            self.arrival.exception()  # fetched, else asyncio would log it
            return False
        in_time = time.monotonic() - self.since < IDLE_SECONDS
        return in_time and not self.peer.writer.is_closing() and not _is_readable(self.peer)

    def close(self) -> None:
        self.arrival.cancel()
        self.peer.close()


def _is_readable(peer: Peer) -> bool:
    """Whether the kernel has something that the event loop has not read yet."""
    poll = select.poll()
    poll.register(peer.writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


class Upstream:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tls = make_context(settings) if settings.tls else None
        self._idle: list[_Idle] = []
        self._closed = False
        self.host = f"[{settings.nova_host}]" if ":" in settings.nova_host else settings.nova_host
        self.host += f":{settings.nova_port}"

    async def take(self, *, fresh: bool = False) -> Peer:
        while self._idle and not fresh:
            idle = self._idle.pop()
            if await idle.is_usable():
                return idle.peer
            idle.close()
        seconds = self._settings.timeouts.connect
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(
                    self._settings.nova_host, self._settings.nova_port, ssl=self._tls, limit=_BUFFER
                )
        except TimeoutError:
            raise NovaUnreachable(f"no connection to {self.host} in {seconds:g} s", late=True) from None
        except OSError as error:
            raise NovaUnreachable(f"no connection to {self.host}: {explain(error)}", late=False) from None
        return Peer(h11.CLIENT, reader, writer)

    def give_back(self, peer: Peer) -> None:
        """After a whole answer; kept if the next request may follow on it.

        What comes after the answer would be taken for the answer to the next request, which may be another instance's: so
        a connection is watched while it is idle, and looked at before it is used again.
        """
        if self._closed or not peer.is_idle or peer.said_more or len(self._idle) >= MOST_IDLE or peer.reader.at_eof():
            peer.close()
            return
        peer.http.start_next_cycle()
        peer.used = True
        self._idle.append(_Idle(peer, time.monotonic(), asyncio.create_task(peer.reader.read(1))))

    def close(self) -> None:
        self._closed = True
        for idle in self._idle:
            idle.close()
        self._idle.clear()
