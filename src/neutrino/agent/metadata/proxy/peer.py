"""One end of an HTTP/1.1 connection: events in, events out, each within a time. What goes wrong says whose fault it was."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import h11

from neutrino.agent.metadata.proxy.tls import explain

READ_BYTES = 1 << 16
MOST_HEAD = 1 << 14  # bytes of a request's or an answer's first line and headers
Event = h11.Event | type[h11.PAUSED]
T = TypeVar("T")


class PeerFailed(Exception):
    """It is gone, silent for too long (`late`), or does not speak HTTP (then with the status to refuse it with)."""

    def __init__(self, peer: Peer, reason: str, *, late: bool = False, status: int = 400) -> None:
        super().__init__(reason)
        self.peer = peer
        self.late = late
        self.status = status


class Peer:
    def __init__(
        self, role: type[h11.CLIENT] | type[h11.SERVER], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=MOST_HEAD)
        self.reader = reader
        self.writer = writer
        self.used = False  # whether a request has gone over it before

    async def next(self, seconds: float) -> Event:
        """The next event, within that time: a whole head, or the next piece of a body. A head that trickles is late too."""
        try:
            async with asyncio.timeout(seconds):
                while (event := self.http.next_event()) is h11.NEED_DATA:
                    self.http.receive_data(await self.reader.read(READ_BYTES))
        except TimeoutError:
            raise PeerFailed(self, f"silent for {seconds:g} s", late=True, status=408) from None
        except h11.RemoteProtocolError as error:
            raise PeerFailed(self, str(error), status=error.error_status_hint) from None
        except OSError as error:
            raise PeerFailed(self, explain(error, first=self._is_first_over_tls())) from None
        return event  # type: ignore[return-value]

    async def send(self, seconds: float, *events: h11.Event) -> None:
        """In one piece, as far as it goes; waits while the peer is slow to take it."""
        data = b"".join(part for part in map(self.http.send, events) if part)
        if not data:
            return
        try:
            self.writer.write(data)
            async with asyncio.timeout(seconds):
                await self.writer.drain()
        except TimeoutError:
            raise PeerFailed(self, f"takes nothing for {seconds:g} s", late=True) from None
        except OSError as error:
            raise PeerFailed(self, explain(error, first=self._is_first_over_tls())) from None

    def _is_first_over_tls(self) -> bool:
        return not self.used and self.writer.get_extra_info("ssl_object") is not None

    @property
    def is_idle(self) -> bool:
        """Both sides have said all, and may begin anew."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    @property
    def said_more(self) -> bool:
        """Whether something has come after the end of its message."""
        return bool(self.http.trailing_data[0])

    def close(self) -> None:
        self.writer.close()
