"""WSGI middleware of a worker: reads the body of a request before the application is called, in one of few threads.

A thread of granian is cheap while it waits for a body or for a client that reads a large list; what is limited to
`api_threads` is the application, with its processor time and its database connections. Each kind of wait has its own
limit, so that neither takes all threads from the rest.
"""

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from neutrino.server.middleware import answer_error

CONNECTIONS: Final = 512  # of a worker; granian stops accepting beyond
THREADS: Final = CONNECTIONS  # of granian: one per connection, so that no request waits for a thread, unseen by `watch`
MAX_BODIES: Final = 128  # requests that wait for their body
MAX_STREAMS: Final = 64  # large lists that are being sent
SHARE: Final = 0.75  # of both, for one address: the others' requests have the rest
READ_TO_THE_END: Final = 1024 * 1024  # bytes of a body that is too large: see `_body`
CHUNK: Final = 64 * 1024
BUSY: Final = "Too many requests are waiting for their bodies: try again."
STREAMS: Final = "Too many clients are reading large lists: try again."
INCOMPLETE: Final = "The connection ended before the request was complete, or the client was too slow."


@dataclass(frozen=True)
class Started:
    """A request of a client at this address, and since when it waits for its body or for its answer."""

    address: str
    since: float


@dataclass(frozen=True)
class InProgress:
    """The requests of this worker, by thread. Threads replace their own entry only; `watch` reads copies."""

    bodies: dict[int, Started] = field(default_factory=dict)  # wait for the rest of their body
    handled: dict[int, Started] = field(default_factory=dict)  # complete: handled, or waiting for a thread


class Front:
    """`enter` and `leave` are called before and after a request is handled, in its thread."""

    def __init__(
        self,
        app: WSGIApplication,
        threads: int,
        max_body: int,
        enter: Callable[[], object],
        leave: Callable[[], object],
    ) -> None:
        self._app, self._max_body, self._enter, self._leave = app, max_body, enter, leave
        self._slots: SimpleQueue[None] = SimpleQueue()  # not a semaphore, which is written in Python
        for _ in range(threads):
            self._slots.put(None)
        self.in_progress = InProgress()
        self._streams: dict[_Stream, str] = {}  # to the addresses of their clients

    def is_busy(self) -> bool:
        """Whether a request is read, handled or answered now. From any thread."""
        return bool(self.in_progress.bodies or self.in_progress.handled or self._streams)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        thread, address = threading.get_ident(), environ.get("REMOTE_ADDR", "")
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            bodies = self.in_progress.bodies
            if _is_full([each.address for each in bodies.copy().values()], address, MAX_BODIES):
                return _unavailable(start_response, BUSY)
            bodies[thread] = Started(address, time.monotonic())
            try:
                body = _body(environ, self._max_body)
            finally:
                del bodies[thread]
            if body is None:
                return answer_error(start_response, "408 Request Timeout", "HTTPRequestTimeout", INCOMPLETE)
            environ["wsgi.input"] = io.BytesIO(body)
        handled = self.in_progress.handled
        handled[thread] = Started(address, time.monotonic())
        try:
            self._slots.get()
            try:
                self._enter()
                answer = self._app(environ, start_response)
            finally:
                self._leave()
                self._slots.put(None)
        finally:
            del handled[thread]
        return answer if isinstance(answer, list) else self._sent(answer, address, start_response)

    def _sent(self, answer: Iterable[bytes], address: str, start_response: StartResponse) -> Iterable[bytes]:
        """An answer in parts, which granian's thread sends; the application's thread is free."""
        if not _is_full(list(self._streams.copy().values()), address, MAX_STREAMS):
            return _Stream(answer, address, self._streams)
        if hasattr(answer, "close"):
            answer.close()
        # The server has sent nothing yet: this replaces status and headers.
        return _unavailable(start_response, STREAMS)


def _is_full(addresses: list[str], address: str, most: int) -> bool:
    """Whether a client at this address has to wait, with these under way."""
    share = int(most * SHARE)
    return len(addresses) >= share and (len(addresses) >= most or addresses.count(address) >= share)


def _unavailable(start_response: StartResponse, message: str) -> list[bytes]:
    retry = [("Retry-After", "1")]
    return answer_error(start_response, "503 Service Unavailable", "HTTPServiceUnavailable", message, retry)


class _Stream:
    """An answer in parts; in `under_way` until it is sent, or its client is gone."""

    def __init__(self, parts: Iterable[bytes], address: str, under_way: "dict[_Stream, str]") -> None:
        self._parts, self._iterator, self._under_way = parts, iter(parts), under_way
        under_way[self] = address

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._iterator)

    def close(self) -> None:
        self._under_way.pop(self, None)
        if hasattr(self._parts, "close"):
            self._parts.close()


def _body(environ: WSGIEnvironment, max_body: int) -> bytes | None:
    """The body, or as much of it as shows that it is too large; None if the client did not send all of it.

    One above the limit is read up to READ_TO_THE_END: the HTTP server closes a connection with unread bytes, and a client
    that reuses connections would find its next request broken.
    """
    text = environ.get("CONTENT_LENGTH")
    length = int(text) if text and text.isdecimal() else None
    end = max(READ_TO_THE_END, max_body) if length is None else length
    if end > max(READ_TO_THE_END, max_body):
        return b""  # refused by its Content-Length
    stream, kept, received = environ["wsgi.input"], bytearray(), 0
    while received < end:
        part = stream.read(min(CHUNK, end - received))
        if not part:
            break
        kept += part[: max_body + 1 - len(kept)]
        received += len(part)
    return None if length is not None and received < length else bytes(kept)
