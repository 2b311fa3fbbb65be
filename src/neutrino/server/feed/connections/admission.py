"""Admission of connections: a host's credential, and bounds on clients that have not shown a valid one.

Credentials are kept in memory, so hosts can reconnect while the database is down. An unknown one may be newer than the
copy in memory: then all are read again, once for all waiting logins and at most once per LOOKUP_SECONDS.
"""

import asyncio
import hmac
import http
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from neutrino.diagnosis.facts import LOGINS, REFUSED, UNKNOWN_LOGIN, WRONG_CREDENTIAL
from neutrino.feed.messages import HOST_HEADER
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.feed.connections.credentials import HostCredential, digest

LOG = logging.getLogger(__name__)
DATABASE_ERRORS: Final = (sa.exc.SQLAlchemyError, errors.ApiError)
LOOKUP_SECONDS: Final = 1.0
FAILURES: Final = 10  # failed logins of one address before it is refused without a lookup
FAILURE_SECONDS: Final = 5.0  # after which one of them expires
MAX_ADDRESSES: Final = 10_000  # with failures; above it, the one that failed longest ago is forgotten
MAX_UNAUTHENTICATED: Final = 256  # connections of one address without a credential
MAX_UNAUTHENTICATED_ALL: Final = 4096
MAX_REFUSED_HOSTS: Final = 100
MAX_LOGINS: Final = 1000  # that are shown: more than the refused hosts of several processes
REFUSED_SECONDS: Final = 300.0  # a host whose credential is wrong tries several times a minute
MAX_SHOWN_NAME: Final = 64  # characters of a name that a stranger chose
MAX_REASON: Final = 300  # characters: it may quote the host


@dataclass(slots=True)
class LoginLimits:
    """Counts failed logins and unauthenticated connections by source address.

    A Unix socket has no address and no limits: the mode of its file decides who may connect.
    """

    clock: Callable[[], float]  # monotonic seconds
    most: int = MAX_UNAUTHENTICATED
    most_all: int = MAX_UNAUTHENTICATED_ALL
    _failures: dict[str, tuple[float, float]] = field(default_factory=dict)  # number, time of the last one
    _unauthenticated: Counter[str] = field(default_factory=Counter)

    def enter(self, address: str) -> bool:
        """Count a new connection; False: there are too many, and it is not counted."""
        of_address, of_all = self._unauthenticated[address], self._unauthenticated.total()
        if address and (of_address >= self.most or of_all >= self.most_all):
            return False
        self._unauthenticated[address] += 1
        return True

    def leave(self, address: str) -> None:
        """The connection has authenticated, or is closed."""
        self._unauthenticated[address] -= 1
        if self._unauthenticated[address] <= 0:
            del self._unauthenticated[address]

    def is_blocked(self, address: str) -> bool:
        """Whether the address failed too often: then its credential is not looked up."""
        return bool(address) and self._recent(address) > FAILURES - 1  # a fraction, as failures expire gradually

    def failed(self, address: str) -> None:
        if not address:
            return
        count = self._recent(address) + 1
        self._failures.pop(address, None)  # re-inserted at the end: the dict is in order of the last failure
        self._failures[address] = count, self.clock()
        if len(self._failures) > MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    def _recent(self, address: str) -> float:
        count, at = self._failures.get(address, (0.0, 0.0))
        return max(0.0, count - (self.clock() - at) / FAILURE_SECONDS)


def source_address(peer: object) -> str:
    """The address that limits apply to: of IPv6 the /64, as one machine may use all of it. Empty: a Unix socket."""
    host = peer[0] if isinstance(peer, tuple) and peer else ""
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)


class LimitedConnection(ServerConnection):
    """Counted from its start until it has authenticated or is closed; one above the limits is aborted at once."""

    def __init__(self, *args: Any, limits: LoginLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._counted: str | None = None
        self.admitted: tuple[str, HostCredential] | None = None  # the host, once its credential is accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        address = source_address(transport.get_extra_info("peername"))
        # Here, before TLS and the upgrade request: clients that connect and send nothing must not use up the open files.
        if self._limits.enter(address):
            self._counted = address
        else:
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.authenticated()
        super().connection_lost(exc)

    def authenticated(self) -> None:
        counted, self._counted = self._counted, None
        if counted is not None:
            self._limits.leave(counted)


@dataclass(frozen=True, slots=True)
class Refusal:
    name: str
    address: str
    at: float
    reason: str = WRONG_CREDENTIAL

    def shown(self) -> Object:
        return {"address": self.address, "at": round(self.at), "reason": self.reason}


@dataclass(slots=True)
class Refusals:
    """The last refused logins for `GET /v2.0/status`: which host, from where, when, and why. And the last others.

    After its credential was changed, a host may be refused by one feed process, and be admitted by another: by the times of
    both a reader knows that it is well.

    Names of known hosts alone are kept. Of all logins under other names, which strangers may choose, only the last one is.
    """

    clock: Callable[[], float] = time.time
    _by_host: dict[str, Refusal] = field(default_factory=dict)
    _unknown: Refusal | None = None
    _logins: dict[str, float] = field(default_factory=dict)  # in the order of the times

    def add(self, host: str, address: str, reason: str = WRONG_CREDENTIAL) -> bool:
        """Return whether the host was not refused before, or for another reason."""
        before = self._by_host.pop(host, None)  # re-inserted at the end: the dict is in order of the last refusal
        self._by_host[host] = Refusal(host, address or "a local socket", self.clock(), reason[:MAX_REASON])
        if len(self._by_host) > MAX_REFUSED_HOSTS:
            del self._by_host[next(iter(self._by_host))]
        return before is None or before.reason != self._by_host[host].reason

    def add_unknown(self, name: str, address: str) -> bool:
        """Return whether it is the first one."""
        before, shown = self._unknown, "".join(each for each in name if each.isprintable())[:MAX_SHOWN_NAME]
        self._unknown = Refusal(shown, address or "a local socket", self.clock())
        return before is None

    def admitted(self, host: str) -> None:
        self._by_host.pop(host, None)
        self._logins.pop(host, None)
        self._logins[host] = self.clock()
        if len(self._logins) > MAX_LOGINS:
            del self._logins[next(iter(self._logins))]

    def recent(self) -> Object:
        """May be called in any thread."""
        since = self.clock() - REFUSED_SECONDS
        found, unknown = tuple(self._by_host.copy().values()), self._unknown
        shown: Object = {REFUSED: {each.name: each.shown() for each in found if each.at >= since}}
        shown[LOGINS] = {host: round(at) for host, at in self._logins.copy().items() if at >= since}
        if unknown is not None and unknown.at >= since:
            shown[UNKNOWN_LOGIN] = {"name": unknown.name, **unknown.shown()}
        return shown


class Admission:
    def __init__(self, read: Callable[[], Awaitable[Mapping[str, HostCredential]]]) -> None:
        """`read` reads all credentials from the database, by host."""
        self._read = read
        self.limits = LoginLimits(time.monotonic)
        self.refusals = Refusals()
        self.on_refused: Callable[[], object] = lambda: None  # a host is refused that was not before
        self._credentials: Mapping[str, HostCredential] = {}
        self._lookup: asyncio.Task[None] | None = None
        self._last_lookup = -LOOKUP_SECONDS

    async def admit(self, connection: LimitedConnection, request: Request) -> Response | None:
        """Check the credential in the request for the WebSocket upgrade; a response refuses it."""
        hosts, headers = request.headers.get_all(HOST_HEADER), request.headers.get_all("Authorization")
        scheme, _, credential = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        if len(hosts) != 1 or scheme.lower() != "bearer" or not credential:
            text = f"the headers {HOST_HEADER} and Authorization: Bearer are required\n"
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, text)
        host, address = hosts[0], source_address(connection.remote_address)
        known = self._match(host, digest(credential))
        # Not for a known host: it may share its address (NAT) with a client that guesses.
        if known is None and self.limits.is_blocked(address):
            text = "too many failed logins from this address: try again later\n"
            return connection.respond(http.HTTPStatus.TOO_MANY_REQUESTS, text)
        if known is None:
            # Counted before the lookup: parallel attempts would all pass the limit while the first one waits for it.
            self.limits.failed(address)
            try:
                await self._look_up()
            except DATABASE_ERRORS as error:
                LOG.error("cannot read host credentials from the database: %s", error)
                return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached\n")
            known = self._match(host, digest(credential))
        if known is None:
            name = host[:255].encode("ascii", "backslashreplace").decode()
            LOG.warning("login as host %s from %s refused: wrong credential", name, address or "a local socket")
            # Every one is not worth a write of the row that shows them: an attacker could make many.
            is_new = (
                self.refusals.add(host, address)
                if host in self._credentials
                else self.refusals.add_unknown(name, address)
            )
            if is_new:
                self.on_refused()
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "this is not the host's credential\n")
        connection.admitted = host, known
        self.refusals.admitted(host)
        return None

    def take(self, connection: LimitedConnection) -> tuple[str, HostCredential] | None:
        """The host of an admitted connection; None if its credential was withdrawn during the handshake."""
        connection.authenticated()
        admitted = connection.admitted
        return admitted if admitted is not None and self.is_valid(*admitted) else None

    def is_valid(self, host: str, credential: HostCredential) -> bool:
        return self._credentials.get(host) == credential

    async def refresh(self) -> None:
        """Read all credentials again."""
        self._credentials = await self._read()

    def _match(self, host: str, digest: str) -> HostCredential | None:
        known = self._credentials.get(host)
        # Constant time, also for an unknown host: the response time must not reveal which hosts exist.
        return known if hmac.compare_digest(known.digest if known is not None else "-" * 64, digest) else None

    async def _look_up(self) -> None:
        if self._lookup is None:
            self._lookup = asyncio.create_task(self._delayed_refresh())
        await asyncio.shield(self._lookup)  # a client that disconnects must not cancel it for the others

    async def _delayed_refresh(self) -> None:
        try:
            await asyncio.sleep(max(0.0, self._last_lookup + LOOKUP_SECONDS - time.monotonic()))
        finally:
            self._lookup = None  # a login from here on may use a credential that this read does not see
        self._last_lookup = time.monotonic()
        await self.refresh()
