"""Connections to Nova's metadata API, with a pool of idle ones; TLS where it is configured."""

import asyncio
import os
import select
import ssl
import time
from dataclasses import dataclass

import h11

from neutrino.agent.metadata.messages import ProxySettings
from neutrino.agent.metadata.proxy.connection import READ_BYTES, HttpConnection, explain

MAX_IDLE = 256
IDLE_SECONDS = 20.0  # shorter than servers commonly keep a connection


class NovaUnreachable(Exception):
    """A connection was refused, or not established in time (`late`)."""

    def __init__(self, reason: str, *, late: bool) -> None:
        super().__init__(reason)
        self.late = late


@dataclass(frozen=True)
class _Idle:
    """A connection between two requests. The task ends when anything arrives on it."""

    connection: HttpConnection
    since: float
    arrival: asyncio.Task[bytes]

    async def is_usable(self) -> bool:
        """Whether Nova has neither closed it nor sent unrequested data, which would be taken for the next response."""
        await asyncio.sleep(0)  # lets the task see data that the event loop has read already
        self.arrival.cancel()
        await asyncio.wait([self.arrival])
        if not self.arrival.cancelled():
            self.arrival.exception()  # retrieved, else asyncio logs it
            return False
        fresh = time.monotonic() - self.since < IDLE_SECONDS
        return fresh and not self.connection.writer.is_closing() and not self._is_readable()

    def _is_readable(self) -> bool:
        """Whether the kernel has data that the event loop has not read yet."""
        poll = select.poll()
        poll.register(self.connection.writer.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self.arrival.cancel()
        self.connection.close()


class NovaClient:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._tls = make_context(settings) if settings.tls else None
        self._idle: list[_Idle] = []
        self._closed = False
        self.host = f"[{settings.nova_host}]" if ":" in settings.nova_host else settings.nova_host
        self.host += f":{settings.nova_port}"

    async def acquire(self, *, fresh: bool = False) -> HttpConnection:
        """An idle connection, or a new one; `fresh`: a new one."""
        while self._idle and not fresh:
            idle = self._idle.pop()
            if await idle.is_usable():  # most recent first: the others may time out and shrink the pool
                return idle.connection
            idle.close()
        seconds = self._settings.timeouts.connect
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(
                    self._settings.nova_host, self._settings.nova_port, ssl=self._tls, limit=READ_BYTES
                )
        except TimeoutError:
            raise NovaUnreachable(f"no connection to {self.host} in {seconds:g} s", late=True) from None
        except OSError as error:
            raise NovaUnreachable(f"no connection to {self.host}: {explain(error)}", late=False) from None
        return HttpConnection(h11.CLIENT, reader, writer)

    def release(self, connection: HttpConnection) -> None:
        """After a complete response; kept if the next request may follow on it.

        Data after the response would be taken for the response to the next request, which may be another instance's:
        an idle connection is watched, and checked before it is used again.
        """
        reusable = connection.is_idle and not connection.has_trailing_data and not connection.reader.at_eof()
        if self._closed or not reusable or len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        connection.http.start_next_cycle()
        connection.used = True
        self._idle.append(_Idle(connection, time.monotonic(), asyncio.create_task(connection.reader.read(1))))

    def close(self) -> None:
        self._closed = True
        for idle in self._idle:
            idle.close()
        self._idle.clear()


def make_context(settings: ProxySettings) -> ssl.SSLContext:
    """Certificates come as text, since the process may not read their files; OpenSSL needs a file, so one in memory."""
    context = ssl.create_default_context(cadata=settings.ca or None)
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.certificate:
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, settings.certificate.encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    return context
