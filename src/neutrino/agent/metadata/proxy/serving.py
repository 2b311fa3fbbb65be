"""One connection of an instance: request after request, each asked of Nova in the instance's name.

Bodies are passed on as they come, in both directions; nobody's is kept whole. What Nova does to one request (it is slow, it
is gone, it answers nonsense) is told to the instance that made it, and concerns no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import h11

from neutrino.agent.metadata.messages import Settings, Sources, Timeouts
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.headers import framing_fault, origin_form, render_request, render_response, sign
from neutrino.agent.metadata.proxy.peer import Peer, PeerFailed
from neutrino.agent.metadata.proxy.rate import RateLimiter
from neutrino.agent.metadata.proxy.upstream import NovaUnreachable, Upstream

LOG = logging.getLogger(__name__)
T = TypeVar("T")
MOST_CONNECTIONS = 64  # of one source at a time
SAY_SECONDS = 10.0  # between two complaints about Nova
REPEATABLE = frozenset({b"GET", b"HEAD"})
REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})  # a tunnel; and an echo of the headers that Nova believes


@dataclass(frozen=True)
class Visitor:
    """Who is at the other end of a connection: the listener's key, who may ask there, its address, device and MAC."""

    key: str
    sources: Callable[[], Sources]
    address: str
    device: str
    mac: str | None = None  # of a link-local source


class Refusal(Exception):
    """`last`: nothing that follows on the connection is read."""

    def __init__(self, status: HTTPStatus, text: str, *, last: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.last = last


class Serving:
    """`configure` before anybody is served."""

    def __init__(self, most_connections: int = 1 << 16) -> None:
        """`most_connections`: of one namespace, whatever the settings say."""
        self.directory = Directory()
        self._settings = Settings()
        self._limiter = RateLimiter(self._settings.limit)
        self._upstream = Upstream(self._settings)
        self._most_connections = most_connections
        self._connections: Counter[tuple[str, str]] = Counter()  # by key and source
        self._by_key: Counter[str] = Counter()
        self._full: dict[str, float] = {}  # keys that have no room, to when that was last logged
        self._complained = float("-inf")

    def configure(self, settings: Settings) -> None:
        """Requests that are under way end as they began."""
        if settings == self._settings:
            return
        made = Upstream(settings)
        self._upstream.close()
        self._upstream, self._settings, self._limiter = made, settings, RateLimiter(settings.limit)

    async def serve(self, visitor: Visitor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the connection ends."""
        place = visitor.key, visitor.address
        if not self._has_room(*place):
            writer.close()
            return
        self._connections[place] += 1
        self._by_key[visitor.key] += 1
        client = Peer(h11.SERVER, reader, writer)
        try:
            await self._requests(client, visitor)
        except PeerFailed as failed:
            LOG.debug("%s at %s: %s", visitor.address, visitor.key, failed)
        finally:
            client.close()
            _take_one(self._connections, place)
            _take_one(self._by_key, visitor.key)

    def _has_room(self, key: str, address: str) -> bool:
        """Whether a source may have one more connection; one network cannot take the process from the others."""
        if self._by_key[key] >= min(self._settings.connections, self._most_connections):
            now = time.monotonic()
            if now - self._full.get(key, float("-inf")) >= SAY_SECONDS:
                self._full[key] = now
                LOG.warning("%s has %d connections, and gets no more until some end", key, self._by_key[key])
            return False
        self._full.pop(key, None)
        return self._connections[key, address] < MOST_CONNECTIONS

    async def _requests(self, client: Peer, visitor: Visitor) -> None:
        seconds = self._settings.timeouts.request
        while True:
            try:
                event = await client.next(seconds)
            except PeerFailed as failed:
                if client.http.our_state is h11.IDLE and not (failed.late and client.used):
                    await self._say(client, HTTPStatus(failed.status), str(failed))
                raise
            if not isinstance(event, h11.Request):
                return
            client.used = True
            try:
                await self._answer(client, event, visitor)
            except Refusal as refusal:
                await self._say(client, refusal.status, str(refusal), last=refusal.last)
                if refusal.last:
                    return
            if not client.is_idle:
                return
            client.http.start_next_cycle()
            seconds = self._settings.timeouts.keep_alive

    async def _say(self, client: Peer, status: HTTPStatus, text: str, *, last: bool = False) -> None:
        """An answer of our own. Whatever the request still has to say is not waited for."""
        body = f"{status.value} {status.phrase}: {text}\n".encode()
        headers = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
        if last or (client.http.their_state is not h11.DONE and (await self._rest(client)) is None):
            headers.append(("connection", "close"))
        response = h11.Response(status_code=status.value, reason=status.phrase.encode(), headers=headers)
        await client.send(self._settings.timeouts.client, response, h11.Data(data=body), h11.EndOfMessage())

    async def _rest(self, client: Peer) -> h11.EndOfMessage | None:
        """The end of the request, if it is there already: as it is where there is no body."""
        if client.http.their_state is h11.SEND_BODY:
            try:
                event = client.http.next_event()
            except h11.RemoteProtocolError:
                return None
            return event if isinstance(event, h11.EndOfMessage) else None
        return None

    # --- a request --------------------------------------------------------------------------------------------------

    async def _answer(self, client: Peer, request: h11.Request, visitor: Visitor) -> None:
        fault = framing_fault(request.http_version, request.headers)
        if fault:
            raise Refusal(HTTPStatus.BAD_REQUEST, fault, last=True)
        if request.method in REFUSED_METHODS:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method.decode()} is not passed on", last=True)
        if not self._limiter.allows(visitor.key, visitor.address, time.monotonic()):
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "ask less often")
        instance = self.directory.find(visitor.sources(), visitor.device, visitor.address, visitor.mac)
        if instance is None:
            raise Refusal(
                HTTPStatus.NOT_FOUND, f"no instance, or more than one, has the address {visitor.address} here"
            )
        target = origin_form(request.target)
        if target is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, "that is no path")
        settings, upstream = self._settings, self._upstream
        headers = render_request(
            request.headers, upstream.host, visitor.address, instance, sign(instance.instance_id, settings.secret)
        )
        try:
            await self._pass(client, upstream, h11.Request(method=request.method, target=target, headers=headers))
        except NovaUnreachable as failed:
            self._complain(failed)
            raise _gateway(failed.late) from None
        except PeerFailed as failed:
            if failed.peer is client:
                if client.http.their_state is h11.ERROR and client.http.our_state is h11.SEND_RESPONSE:
                    raise Refusal(HTTPStatus(failed.status), str(failed), last=True) from None
                raise
            self._complain(failed)
            if client.http.our_state is not h11.SEND_RESPONSE:
                raise  # the answer has begun: that it ends here is all that can still be said
            raise _gateway(failed.late) from None

    async def _pass(self, client: Peer, upstream: Upstream, request: h11.Request) -> None:
        """The request to Nova, and its answer back. A kept connection that Nova had closed is no failure of Nova's."""
        timeouts = self._settings.timeouts
        again = request.method in REPEATABLE and not _has_body(request.headers)
        nova = await upstream.take()
        while True:
            try:
                await nova.send(timeouts.server, request)
                await self._pass_body(client, nova, timeouts.client, timeouts.server)
                response = await _response(nova, timeouts)
                break
            except BaseException as error:
                nova.close()
                if not (again and nova.used and isinstance(error, PeerFailed) and error.peer is nova) or error.late:
                    raise
            nova, again = await upstream.take(fresh=True), False
        try:
            headers = render_response(response.headers)
            answer = h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)
            await self._pass_answer(client, nova, answer, timeouts)
        except BaseException:
            nova.close()
            raise
        upstream.give_back(nova)

    async def _pass_body(self, client: Peer, nova: Peer, from_client: float, to_nova: float) -> None:
        if client.http.their_state is h11.DONE:  # at the second attempt
            await nova.send(to_nova, h11.EndOfMessage())
            return
        if client.http.they_are_waiting_for_100_continue:
            await client.send(from_client, h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = await client.next(from_client)
            if isinstance(event, h11.EndOfMessage):
                await nova.send(to_nova, h11.EndOfMessage())
                return
            if not isinstance(event, h11.Data):
                raise PeerFailed(client, "it ended in the middle of its request")
            await nova.send(to_nova, h11.Data(data=event.data))

    async def _pass_answer(self, client: Peer, nova: Peer, answer: h11.Response, timeouts: Timeouts) -> None:
        waiting: list[h11.Event] = [answer]  # the head goes with the first of the body: mostly that is all
        while True:
            event = await nova.next(timeouts.server)
            if isinstance(event, h11.EndOfMessage):
                await client.send(timeouts.client, *waiting, h11.EndOfMessage())
                return
            if not isinstance(event, h11.Data):
                raise PeerFailed(nova, "Nova ended in the middle of its answer")
            await client.send(timeouts.client, *waiting, h11.Data(data=event.data))
            waiting = []

    def _complain(self, failed: Exception) -> None:
        now = time.monotonic()
        if now - self._complained >= SAY_SECONDS:
            self._complained = now
            LOG.warning("Nova's metadata service fails: %s", failed)


def _take_one(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _gateway(late: bool) -> Refusal:
    if late:
        return Refusal(HTTPStatus.GATEWAY_TIMEOUT, "the metadata service does not answer in time")
    return Refusal(HTTPStatus.BAD_GATEWAY, "the metadata service cannot be reached")


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


async def _response(nova: Peer, timeouts: Timeouts) -> h11.Response:
    while True:
        event = await nova.next(timeouts.server)
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise PeerFailed(nova, "Nova closed the connection")
