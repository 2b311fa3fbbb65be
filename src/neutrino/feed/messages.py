"""The messages of the feed and their encoding.

A frame is a JSON list of messages, each with its `type`. Both sides ignore unknown fields, and answer an unknown type with
an error without closing the connection, so that they may be one release apart. The version in `hello` and `welcome`
changes only when that is not enough. docs/design/feed.md explains each message and when it is sent.

A server may send a frame compressed, in a binary WebSocket message, to a host whose `hello` accepts that.
"""

import zlib
from collections.abc import Iterable
from functools import partial
from typing import Final, TypeVar

import msgspec

from neutrino.model.agents import AgentState
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic
from neutrino.model.state import Member

VERSION: Final = 2
SUMS: Final = 2  # from this version on, `hello` may have `sums` instead of `have`
OLDEST: Final = 1  # the oldest version that this release supports
MAX_BYTES: Final = 16 * 1024 * 1024  # of one frame
T = TypeVar("T")
MAX_MESSAGES: Final = 1000  # of a host in one frame: all of it is decoded before another host gets its turn
HOST_HEADER: Final = "X-Neutrino-Host"
MAX_MEMBERS: Final = 10_000  # in one message; more go in several
ZLIB: Final = "zlib"  # an encoding of frames


class Cursor(msgspec.Struct, frozen=True):
    """The state that a host has: a position in one database's change log."""

    database: str
    position: int

    def is_ahead_of(self, other: "Cursor") -> bool:
        """Whether it is a later state of the same database; positions of two databases are not comparable."""
        return self.database == other.database and self.position > other.position


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class HostReport(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what a host repeats until the server has acknowledged its serial number."""

    serial: int = 0


# --- from the host ----------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True, omit_defaults=True, tag="hello"):
    """The first message. `have`: by kind and id the digest that the server sent with each object that the host has.

    Forwarding entries are many and small: `have` has one digest per network for all of them. `sums`, in place of `have`:
    one digest per kind (`digests.total`); `welcome` then names the kinds whose digests the server needs. `accepts`: the
    encodings in which the host reads frames, beside plain ones.
    """

    host: str
    version: int = VERSION
    release: str = ""
    roles: tuple[str, ...] = ()
    cursor: Cursor | None = None
    have: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    sums: dict[str, str] | None = None
    accepts: tuple[str, ...] = ()


class Have(Message, frozen=True, kw_only=True, omit_defaults=True, tag="have"):
    """The digests of the kinds that `welcome` asks for."""

    have: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class Report(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="report"):
    """The states of this host's agents, and the position that they have applied."""

    states: tuple[AgentState, ...] = ()
    applied: int | None = None


class PortUp(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="port_up"):
    """A port is wired as of this revision; `inactive`: it is plugged, and its binding to this host is not active yet."""

    port_id: str
    revision: int = 0
    inactive: bool = False


class PortDown(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="port_down"):
    port_id: str
    reason: str = ""


class PortReady(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="port_ready"):
    """This host serves a port, bound to any host, as of this revision: DHCP can give it its lease."""

    port_id: str
    revision: int = 0


class Status(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="status"):
    """The status of a floating IP, HA router, firewall group or trunk on this host, or the prefix delegated to a subnet.

    The other fields are those of a firewall group: the revision that a role of the host has applied, or could not apply
    and why, which a trunk has too. A report on an older revision than the current one changes nothing. INACTIVE: the role
    has the object no more.
    """

    kind: str
    id: str
    status: str
    revision: int = 0
    reason: str = ""
    role: str = ""


class Traffic(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="traffic"):
    """All metering counters of the host; `granular`: how the server notifies others of their differences."""

    counters: tuple[MeteredTraffic, ...] = ()
    granular: bool = False


class Rates(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="rates"):
    """What ports (by id) and tunnels (by address of the other host) have counted within so many seconds, if anything."""

    seconds: int
    ports: dict[str, Counted] = msgspec.field(default_factory=dict)
    tunnels: dict[str, Counted] = msgspec.field(default_factory=dict)


class ErrorMessage(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """An object could not be applied, or a message was invalid (then without an object)."""

    text: str
    kind: str = ""
    id: str = ""


class Answer(HostReport, frozen=True, kw_only=True, omit_defaults=True, tag="answer"):
    """The answer to a query: `result` as its kind defines it, or the `error` because of which there is none."""

    id: str
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


# --- from the server --------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True, omit_defaults=True, tag="welcome"):
    """The database of the server and the position up to which it has read it."""

    cursor: Cursor
    version: int = VERSION
    server: str = ""
    compare: tuple[str, ...] = ()  # kinds whose sum differs: the host answers with `have`

    @property
    def database(self) -> str:
        """Identity of the server's database; a database restored from a backup has a new one."""
        return self.cursor.database


class Refused(Message, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """The server closes the connection; an immediate retry would be refused too."""

    reason: str


class Change(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what changes an object. `request_id`: of the newest API request that caused it; empty: unknown, or none."""

    request_id: str = ""


class Put(Change, frozen=True, kw_only=True, omit_defaults=True, tag="put"):
    kind: str
    object: msgspec.Raw
    digest: str = ""


class Gone(Change, frozen=True, kw_only=True, omit_defaults=True, tag="gone"):
    kind: str
    id: str


class Members(Change, frozen=True, kw_only=True, omit_defaults=True, tag="members"):
    """Difference of a security group's members; `digest` is that of all members after it."""

    id: str
    added: tuple[Member, ...] = ()
    removed: tuple[Member, ...] = ()
    digest: str = ""


class Entries(Change, frozen=True, kw_only=True, omit_defaults=True, tag="entries"):
    """All forwarding entries of a network by id; the host deletes its others of that network."""

    network_id: str
    ids: tuple[str, ...] = ()


class Synced(Message, frozen=True, kw_only=True, omit_defaults=True, tag="synced"):
    """The host has its whole scope as of this position. `entries`: digests of networks' forwarding entries."""

    position: int
    entries: dict[str, str] = msgspec.field(default_factory=dict)


class Ack(Message, frozen=True, kw_only=True, omit_defaults=True, tag="ack"):
    """The report with this serial number is written."""

    serial: int


class Query(Message, frozen=True, kw_only=True, omit_defaults=True, tag="query"):
    """A question about the host's actual state, answered within `seconds`; of kind `takeover` it may start a conversion."""

    id: str
    kind: str
    question: msgspec.Raw = msgspec.Raw(b"null")
    seconds: float = 5.0


HostMessage = Hello | Have | Report | PortUp | PortDown | PortReady | Status | Traffic | Rates | ErrorMessage | Answer
ServerMessage = Welcome | Refused | Put | Gone | Members | Entries | Synced | Ack | ErrorMessage | Query


class NotUnderstood(ValueError):
    """An invalid frame or message."""


class _Typed(msgspec.Struct):
    """The part that all messages have."""

    type: str


_encoder = msgspec.json.Encoder(order="deterministic")  # equal objects have equal digests
_frame = msgspec.json.Decoder(list[msgspec.Raw])
_types = msgspec.json.Decoder(list[_Typed])
_SMALL: Final = 64 * 1024  # bytes of a frame whose parts need not be counted first
encode_one = _encoder.encode


def encode_put(kind: str, raw: bytes, digest: str) -> bytes:
    """The message that gives a host an encoded object."""
    return encode_one(Put(kind=kind, object=msgspec.Raw(raw), digest=digest))


def encode_gone(kind: str, key: str) -> bytes:
    return encode_one(Gone(kind=kind, id=key))


def with_request_id(encoded: bytes, request_id: str) -> bytes:
    """Add the request that caused it to an encoded message, whose encoding is shared by hosts and requests."""
    return b'%b,"request_id":%b}' % (encoded[:-1], encode_one(request_id))


def encode(messages: Iterable[Message]) -> bytes:
    return _encoder.encode(list(messages))


def frame(encoded: Iterable[bytes]) -> bytes:
    """A frame of encoded messages."""
    return b"[%b]" % b",".join(encoded)


def compressed(data: bytes) -> bytes:
    """A frame as a host gets it that accepts ZLIB."""
    return zlib.compress(data, 1)


def is_compressed(data: bytes) -> bool:
    """Whether it is a frame of `compressed`, which goes in a binary WebSocket message, or a plain one."""
    return data.startswith(b"x")  # the first byte of zlib's format; no JSON begins with it


def expanded(data: bytes) -> bytes:
    """The frame that was compressed; of a size that a plain one may have, whatever a server sends."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise NotUnderstood(f"not a compressed frame: {error}") from None
    if not reader.eof:
        raise NotUnderstood("a compressed frame is incomplete, or too large")
    return found


def _read(decoder: msgspec.json.Decoder[T], data: bytes | str, most: int | None = None) -> list[T | NotUnderstood]:
    """The messages of a frame, at most so many; in place of an invalid one, a NotUnderstood with the reason."""
    try:
        if most is not None and len(data) > _SMALL and len(_types.decode(data)) > most:
            raise NotUnderstood(f"a frame may have at most {most} messages")
        # Of a large frame only now: splitting millions of parts that are not even messages would take seconds.
        parts = _frame.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotUnderstood(f"not a frame: {error}") from None
    if most is not None and len(parts) > most:
        raise NotUnderstood(f"a frame may have at most {most} messages")
    found: list[T | NotUnderstood] = []
    for part in parts:
        try:
            found.append(decoder.decode(part))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # one bad message, not the frame
            found.append(NotUnderstood(str(error)))
    return found


_of_host: Final[msgspec.json.Decoder[HostMessage]] = msgspec.json.Decoder(HostMessage)
_of_server: Final[msgspec.json.Decoder[ServerMessage]] = msgspec.json.Decoder(ServerMessage)
read_from_host: Final = partial(_read, _of_host, most=MAX_MESSAGES)


def read_from_server(data: bytes | str) -> list[ServerMessage | NotUnderstood]:
    """The messages of a frame, which may be compressed."""
    return _read(_of_server, expanded(data) if isinstance(data, bytes) and is_compressed(data) else data)
