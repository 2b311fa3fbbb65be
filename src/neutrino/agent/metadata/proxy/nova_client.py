"""Connections to Nova's metadata API, with a pool of idle ones; TLS where it is configured."""

import asyncio
import os
import select
import ssl
import time

import h11

from neutrino.agent.metadata.messages import ProxySettings
from neutrino.agent.metadata.proxy.connection import READ_BYTES, ConnectionFailed, HttpConnection, explain

MAX_IDLE = 256
IDLE_SECONDS = 20.0  # shorter than servers commonly keep a connection


class NovaClient:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._tls = make_context(settings) if settings.nova_metadata_protocol == "https" else None
        self._idle: list[tuple[HttpConnection, float]] = []  # and the time of its last response
        self._closed = False
        host = settings.nova_metadata_host
        self.host = (
            f"[{host}]:{settings.nova_metadata_port}" if ":" in host else f"{host}:{settings.nova_metadata_port}"
        )

    async def acquire(self, *, fresh: bool = False) -> HttpConnection:
        """An idle connection, or a new one; `fresh`: a new one."""
        while self._idle and not fresh:
            connection, since = self._idle.pop()  # most recent first: the others may time out and shrink the pool
            if time.monotonic() - since < IDLE_SECONDS and await _is_silent(connection):
                return connection
            connection.close()
        seconds = self._settings.timeouts.timeout_connect
        try:
            async with asyncio.timeout(seconds):
                address = self._settings.nova_metadata_host, self._settings.nova_metadata_port
                reader, writer = await asyncio.open_connection(*address, ssl=self._tls, limit=READ_BYTES)
        except TimeoutError:
            raise ConnectionFailed(None, f"no connection to {self.host} in {seconds:g} s", late=True) from None
        except OSError as error:
            raise ConnectionFailed(None, f"no connection to {self.host}: {explain(error)}") from None
        return HttpConnection(h11.CLIENT, reader, writer, self._settings.timeouts.timeout_server)

    def release(self, connection: HttpConnection) -> None:
        """After a complete response; kept if the next request may follow on it."""
        reusable = connection.is_idle and not connection.has_trailing_data and not connection.reader.at_eof()
        if self._closed or not reusable or len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        connection.http.start_next_cycle()
        connection.used = True
        self._idle.append((connection, time.monotonic()))

    def close(self) -> None:
        self._closed = True
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()


async def _is_silent(connection: HttpConnection) -> bool:
    """Whether Nova has neither closed an idle connection nor sent anything on it.

    Data after a response would be taken for the response to the next request, which may be another instance's.
    """
    poll = select.poll()
    poll.register(connection.writer.get_extra_info("socket").fileno(), select.POLLIN)
    if connection.writer.is_closing() or poll.poll(0):  # the latter: data that the event loop has not read yet
        return False
    try:
        async with asyncio.timeout(0):  # of what it has read, the first byte comes at once
            await connection.reader.read(1)
    except TimeoutError:
        return True
    except OSError:
        pass
    return False


def make_context(settings: ProxySettings) -> ssl.SSLContext:
    """Certificates come as text, since the process may not read their files; OpenSSL needs a file, so one in memory."""
    context = ssl.create_default_context(cadata=settings.ca or None)
    if settings.nova_metadata_insecure:
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
