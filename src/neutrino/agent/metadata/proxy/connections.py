"""HTTP/1.1 connections (h11 over asyncio streams) with a timeout for each event, and a pool of those to Nova.

Connections to instances and to Nova are of the same class, and a failure names its connection: that decides the response.
h11 parses and writes HTTP; of the project's dependencies it is the only one that does so without a server or client of its
own, and the proxy has to control both ends: where a request ends, and on which connection to Nova it is sent.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
import time
from dataclasses import dataclass

import h11

from neutrino.agent.metadata.messages import ProxySettings

READ_BYTES = 1 << 16
MAX_IDLE = 256  # connections to Nova; each takes a descriptor
IDLE_SECONDS = 20.0  # shorter than servers commonly keep a connection
MAX_HEAD_BYTES = 1 << 14  # of the first line and the headers of a request or response
Event = h11.Event | type[h11.PAUSED]

# Verification errors that OpenSSL raises only in strict mode, which is Python's default from 3.13 on.
_STRICT_CODES = range(80, 95)
_STRICT_HINT = "; with Python 3.13 and later, certificates have to follow RFC 5280, the authority's too"
_CLIENT_OPTIONS = "(nova_client_cert, nova_client_priv_key)"
_CLIENT_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")  # about the certificate we presented


class ConnectionFailed(Exception):
    """The peer is gone, timed out (`late`), or sent invalid HTTP (`status` is the answer to it); None: never connected."""

    def __init__(
        self, connection: HttpConnection | None, reason: str, *, late: bool = False, status: int = 400
    ) -> None:
        super().__init__(reason)
        self.connection = connection
        self.late = late
        self.status = status


@dataclass(eq=False)
class HttpConnection:
    """`seconds` is the time that the peer may stall."""

    role: type[h11.CLIENT] | type[h11.SERVER]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seconds: float
    used: bool = False  # a request was completed on it before

    def __post_init__(self) -> None:
        self.http = h11.Connection(self.role, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def next(self, seconds: float | None = None) -> Event:
        """The next event: a whole head, or the next piece of a body. The timeout is of the whole head, so that a client
        that trickles it in is late too."""
        seconds = seconds or self.seconds
        try:
            async with asyncio.timeout(seconds):
                while (event := self.http.next_event()) is h11.NEED_DATA:
                    self.http.receive_data(await self.reader.read(READ_BYTES))
        except TimeoutError:
            raise ConnectionFailed(self, f"silent for {seconds:g} s", late=True, status=408) from None
        except h11.RemoteProtocolError as error:
            raise ConnectionFailed(self, str(error), status=error.error_status_hint) from None
        except OSError as error:
            raise ConnectionFailed(self, explain(error, first=self._is_first_over_tls())) from None
        return event  # type: ignore[return-value]

    async def send(self, *events: h11.Event) -> None:
        """Send the events in one write, and wait until a slow peer has taken them."""
        data = b"".join(part for part in map(self.http.send, events) if part)
        if not data:
            return
        try:
            self.writer.write(data)
            async with asyncio.timeout(self.seconds):
                await self.writer.drain()
        except TimeoutError:
            raise ConnectionFailed(self, f"takes nothing for {self.seconds:g} s", late=True) from None
        except OSError as error:
            raise ConnectionFailed(self, explain(error, first=self._is_first_over_tls())) from None

    def _is_first_over_tls(self) -> bool:
        return not self.used and self.writer.get_extra_info("ssl_object") is not None

    @property
    def is_idle(self) -> bool:
        """Request and response are complete: the next request may follow."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    def close(self) -> None:
        self.writer.close()


def explain(error: OSError, *, first: bool = False) -> str:
    """The reason of a failed connection to Nova, with the options that it may be about.

    `first`: over TLS, before the first response. A server that refuses our certificate sends an alert and closes; what we
    have sent meanwhile may make the kernel reset the connection before the alert is read.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _STRICT_HINT if error.verify_code in _STRICT_CODES else ""
        return f"Nova's certificate is not accepted: {error.verify_message} (auth_ca_cert, nova_metadata_host){hint}"
    reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in _CLIENT_ALERTS):
        text = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return f"Nova does not accept our certificate: {text} {_CLIENT_OPTIONS}"
    if first and isinstance(error, ConnectionError):
        return f"{error}; Nova may not accept our certificate {_CLIENT_OPTIONS}"
    return str(error)


# --- connections to Nova ---


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
        trailing, _ = connection.http.trailing_data  # after the end of the response
        reusable = connection.is_idle and not trailing and not connection.reader.at_eof()
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
