"""Connections to Nova: kept open for the next request, and never waited for by anybody but the one who asked."""

from __future__ import annotations

import asyncio
import time

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


class Upstream:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tls = make_context(settings) if settings.tls else None
        self._idle: list[tuple[float, Peer]] = []
        self._closed = False
        self.host = f"[{settings.nova_host}]" if ":" in settings.nova_host else settings.nova_host
        self.host += f":{settings.nova_port}"

    async def take(self, *, fresh: bool = False) -> Peer:
        while self._idle and not fresh:
            since, peer = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and not peer.reader.at_eof() and not peer.writer.is_closing():
                return peer
            peer.close()
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

        What came after the answer would be taken for the answer to the next request, which may be another instance's.
        """
        if self._closed or not peer.is_idle or peer.said_more or len(self._idle) >= MOST_IDLE or peer.reader.at_eof():
            peer.close()
            return
        peer.http.start_next_cycle()
        peer.used = True
        self._idle.append((time.monotonic(), peer))

    def close(self) -> None:
        self._closed = True
        for _, peer in self._idle:
            peer.close()
        self._idle.clear()
