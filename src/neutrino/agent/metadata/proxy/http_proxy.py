"""The HTTP proxy: requests of instances, forwarded to Nova with headers that identify the instance.

A request arrives at a listener of its namespace, which knows the client's address, device and MAC (`listener`).
Framing, method and rate limit are checked, and the instance is looked up by network and address (`directory`); then the
request is written anew, with signed headers, to a connection of the pool (`connections`), and the response copied back.

Bodies are streamed in both directions. A failure of Nova concerns only the request that met it.

Nova trusts the headers that identify the instance, so none of them may come from an instance. A web server may read `_` in
a header's name as `-`: such names are dropped, as no standard header has one. All extension headers (X-…) of instances
are dropped too, which covers those that Nova may come to trust later.
"""

import asyncio
import hashlib
import hmac
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from neutrino.agent.metadata.messages import Instance, ProxySettings, Sources
from neutrino.agent.metadata.proxy.connections import ConnectionFailed, HttpConnection, NovaClient
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.rate_limit import RateLimiter

LOG = logging.getLogger(__name__)
Headers = list[tuple[bytes, bytes]]
MAX_CONNECTIONS = 64  # of one source: others of its network are served on
LOG_SECONDS = 10.0  # between repeated warnings
REPEATABLE = frozenset({b"GET", b"HEAD"})  # Nova may have handled the request before: these change nothing
REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})  # a tunnel; and an echo of the headers that Nova trusts
_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
_UNTRUSTED = frozenset({b"forwarded", b"via", b"host"})


# --- headers ----------------------------------------------------------------------------------------------------------


def sign(instance_id: str, secret: str) -> str:
    return hmac.new(secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()


def render_request(
    headers: Iterable[tuple[bytes, bytes]], host: str, source: str, instance: Instance, signature: str
) -> Headers:
    """The headers for Nova. The framing (length or chunks) stays that of the request."""
    given = list(headers)
    kept = [(name, value) for name, value in _end_to_end(given) if not _is_reserved(name.lower())]
    kept += [(name, value) for name, value in given if name == b"transfer-encoding"]
    return [
        (b"host", host.encode()),
        *kept,
        (b"x-forwarded-for", source.encode()),
        (b"x-instance-id", instance.instance_id.encode()),
        (b"x-tenant-id", instance.project_id.encode()),
        (b"x-instance-id-signature", signature.encode()),
    ]


def render_response(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers for the instance; h11 adds the framing of this connection."""
    return list(_end_to_end(list(headers)))


def framing_fault(version: bytes, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Why the end of a request is ambiguous; empty if it is not.

    Request smuggling: two servers that disagree about the end see different requests after it on one connection, and
    connections to Nova are shared by instances. h11 refuses the other ambiguities (differing lengths, unknown codings,
    blanks before a colon).
    """
    names = {name for name, _ in headers}
    if b"transfer-encoding" not in names:
        return ""
    if b"content-length" in names:
        return "it has both Content-Length and Transfer-Encoding"
    return "Transfer-Encoding is for HTTP/1.1" if version < b"1.1" else ""


def origin_form(target: bytes) -> bytes | None:
    """The requested path, also of an absolute URL; None if there is none."""
    if target.lower().startswith(b"http://"):
        slash = target.find(b"/", len(b"http://"))
        return target[slash:] if slash >= 0 else b"/"
    return target if target.startswith(b"/") else None


def _end_to_end(headers: Headers) -> Iterable[tuple[bytes, bytes]]:
    connection = [value for name, value in headers if name.lower() == b"connection"]
    named = {part.strip().lower() for value in connection for part in value.split(b",")}
    for name, value in headers:
        # `Connection: content-length` must not remove the length: Nova would take the body for the next request.
        if name.lower() not in _HOP_BY_HOP and (name.lower() not in named or name.lower() == b"content-length"):
            yield name, value


def _is_reserved(name: bytes) -> bool:
    return name in _UNTRUSTED or name.startswith(b"x-") or b"_" in name


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Client:
    """The other end of a connection: its namespace (`key`), the sources served there, its address, device and MAC."""

    key: str
    sources: Callable[[], Sources]  # the current ones: they may change while the connection is open
    address: str
    device: str
    mac: str | None = None  # of a link-local source


class HttpError(Exception):
    """A response of the proxy itself. `last`: nothing after this request is read from the connection."""

    def __init__(self, status: HTTPStatus, text: str, *, last: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.last = last


class HttpProxy:
    """`max_connections` of one namespace is a bound above the configured one."""

    def __init__(self, max_connections: int = 1 << 16) -> None:
        self.directory = Directory()
        self._settings = ProxySettings()
        self._limiter = RateLimiter(self._settings.limit)
        self._nova = NovaClient(self._settings)
        self._max_connections = max_connections
        self._connections: Counter[tuple[str, str]] = Counter()  # by namespace and source; no source: of all of them
        self._full_logged: dict[str, float] = {}  # namespaces at their limit → when that was logged
        self._nova_logged = float("-inf")
        self.responses: Counter[str] = Counter()  # by class of the status

    def configure(self, settings: ProxySettings) -> None:
        """Requests in progress complete with the settings that they began with."""
        if settings == self._settings:
            return
        nova = NovaClient(settings)  # first: invalid certificates raise here, and the old settings stay in force
        self._nova.close()
        self._nova, self._settings, self._limiter = nova, settings, RateLimiter(settings.limit)

    async def serve(self, client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        if not self._has_room(client.key, client.address):
            writer.close()
            return
        counted = (client.key, client.address), (client.key, "")
        self._connections.update(counted)
        connection = HttpConnection(h11.SERVER, reader, writer, self._settings.timeouts.timeout_client)
        try:
            await self._serve_requests(connection, client)
        except ConnectionFailed as failed:
            LOG.debug("%s at %s: %s", client.address, client.key, failed)
        finally:
            connection.close()
            self._connections.subtract(counted)
            for each in counted:
                if not self._connections[each]:
                    del self._connections[each]  # or every source ever seen would take memory

    def _has_room(self, key: str, address: str) -> bool:
        """Limits per namespace and per source: one network cannot exhaust the process for the others."""
        count = self._connections[key, ""]
        if count >= min(self._settings.metadata_connections, self._max_connections):
            now = time.monotonic()
            if now - self._full_logged.get(key, float("-inf")) >= LOG_SECONDS:
                self._full_logged[key] = now
                LOG.warning("%s has %d connections, the most it may have: new ones are closed", key, count)
            return False
        self._full_logged.pop(key, None)
        return self._connections[key, address] < MAX_CONNECTIONS

    async def _serve_requests(self, connection: HttpConnection, client: Client) -> None:
        seconds = self._settings.timeouts.timeout_http_request
        while True:
            try:
                event = await connection.next(seconds)
            except ConnectionFailed as failed:
                # A kept connection that times out between requests is closed without a response.
                if connection.http.our_state is h11.IDLE and not (failed.late and connection.used):
                    await self._respond(connection, HTTPStatus(failed.status), str(failed))
                raise
            if not isinstance(event, h11.Request):
                return
            connection.used = True
            try:
                await self._forward_request(connection, event, client)
            except HttpError as error:
                await self._respond(connection, error.status, str(error), last=error.last)
                if error.last:
                    return
            if not connection.is_idle:  # the body was not read to its end
                return
            connection.http.start_next_cycle()
            seconds = self._settings.timeouts.timeout_http_keep_alive

    async def _respond(self, connection: HttpConnection, status: HTTPStatus, text: str, *, last: bool = False) -> None:
        """Send a response of the proxy itself. The rest of a request's body is not waited for."""
        body = f"{status.value} {status.phrase}: {text}\n".encode()
        headers = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
        # Closed where a body may follow: it would be read as the next request.
        if last or (connection.http.their_state is not h11.DONE and not _is_complete(connection)):
            headers.append(("connection", "close"))
        response = h11.Response(status_code=status.value, reason=status.phrase.encode(), headers=headers)
        self.responses[f"{status.value // 100}xx"] += 1
        await connection.send(response, h11.Data(data=body), h11.EndOfMessage())

    async def _forward_request(self, connection: HttpConnection, request: h11.Request, client: Client) -> None:
        """Check a request, find its instance, and forward it. HttpError: the proxy itself answers."""
        fault = framing_fault(request.http_version, request.headers)
        if fault:
            raise HttpError(HTTPStatus.BAD_REQUEST, fault, last=True)  # where the next request begins is unknown
        if request.method in REFUSED_METHODS:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method.decode()} is not forwarded", last=True)
        if not self._limiter.allows(client.key, client.address, time.monotonic()):
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, "the rate limit is exceeded")
        # At each request, not once per connection: the address may belong to another port by now.
        instance = self.directory.find(client.sources(), client.device, client.address, client.mac)
        if instance is None:
            text = f"no instance, or more than one, has the address {client.address} here"
            raise HttpError(HTTPStatus.NOT_FOUND, text)
        target = origin_form(request.target)
        if target is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the request target is not a path")
        nova, signature = self._nova, sign(instance.instance_id, self._settings.metadata_proxy_shared_secret)
        headers = render_request(request.headers, nova.host, client.address, instance, signature)
        try:
            await self._forward(connection, nova, h11.Request(method=request.method, target=target, headers=headers))
        except ConnectionFailed as failed:
            if failed.connection is connection:
                if connection.http.their_state is h11.ERROR and connection.http.our_state is h11.SEND_RESPONSE:
                    raise HttpError(HTTPStatus(failed.status), str(failed), last=True) from None
                raise
            now = time.monotonic()
            if now - self._nova_logged >= LOG_SECONDS:
                self._nova_logged = now
                LOG.warning("Nova's metadata service fails: %s", failed)
            if connection.http.our_state is not h11.SEND_RESPONSE:
                raise  # the response has begun: closing the connection is the only sign left
            if failed.late:
                raise HttpError(HTTPStatus.GATEWAY_TIMEOUT, "the metadata service does not answer in time") from None
            raise HttpError(HTTPStatus.BAD_GATEWAY, "the metadata service cannot be reached") from None

    async def _forward(self, client: HttpConnection, nova_client: NovaClient, request: h11.Request) -> None:
        """Send the request to Nova and its response back; repeated once if Nova had closed the kept connection."""
        repeatable = request.method in REPEATABLE and not _has_body(request.headers)
        nova = await nova_client.acquire()
        while True:
            try:
                await _send_request(client, nova, request)
                response = await _read_response(nova)
                break
            except BaseException as error:  # cancelled too: half a request must not get back into the pool
                nova.close()
                # Nova may close a kept connection at any time, also just before the request arrives.
                stale = (
                    nova.used and isinstance(error, ConnectionFailed) and error.connection is nova and not error.late
                )
                if not (repeatable and stale):
                    raise
            nova, repeatable = await nova_client.acquire(fresh=True), False
        try:
            headers = render_response(response.headers)
            head = h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)
            self.responses[f"{response.status_code // 100}xx"] += 1
            await _copy(nova, client, head)
        except BaseException:
            nova.close()
            raise
        nova_client.release(nova)


def _is_complete(connection: HttpConnection) -> bool:
    """Whether the end of the request has arrived, as with every request without a body."""
    if connection.http.their_state is not h11.SEND_BODY:
        return False
    try:
        return isinstance(connection.http.next_event(), h11.EndOfMessage)
    except h11.RemoteProtocolError:
        return False


async def _send_request(client: HttpConnection, nova: HttpConnection, request: h11.Request) -> None:
    if client.http.their_state is h11.DONE:  # at the second attempt, which is only for requests without a body
        await nova.send(request, h11.EndOfMessage())
        return
    if client.http.they_are_waiting_for_100_continue:
        await client.send(h11.InformationalResponse(status_code=100, headers=[]))
    await _copy(client, nova, request)


async def _read_response(nova: HttpConnection) -> h11.Response:
    while True:
        event = await nova.next()
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise ConnectionFailed(nova, "Nova closed the connection")


async def _copy(source: HttpConnection, target: HttpConnection, head: h11.Event) -> None:
    """Send a head, and the body as it arrives. Both go out together at first: mostly that is all, in one packet."""
    pending: list[h11.Event] = [head]
    while True:
        event = await source.next()
        if isinstance(event, h11.EndOfMessage):
            await target.send(*pending, h11.EndOfMessage())
            return
        if not isinstance(event, h11.Data):
            raise ConnectionFailed(source, "the connection was closed in the middle of a message")
        await target.send(*pending, h11.Data(data=event.data))
        pending = []
