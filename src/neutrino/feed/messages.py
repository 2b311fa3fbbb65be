"""The messages of the feed, and how they are written.

A frame is a JSON list of messages, each with its `type`. Both sides pass over fields that they do not know, and answer a
type that they do not know without ending the connection, so that they may be one release apart. The version in `hello`
and `welcome` changes only when that is not enough. docs/design/feed.md says what each message means and when it comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from neutrino.model.agents import AgentState
from neutrino.model.state import Member

VERSION: Final = 1
OLDEST: Final = 1  # the oldest version that this release speaks
MAX_BYTES: Final = 16 * 1024 * 1024  # of one frame
HOST_HEADER: Final = "X-Neutrino-Host"
MAX_MEMBERS: Final = 10_000  # in one message; more go in several


class Cursor(msgspec.Struct, frozen=True):
    """Up to where a host has heard: a position in one database's change log."""

    database: str
    position: int


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


# --- from the host ----------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True, omit_defaults=True, tag="hello"):
    """The first message. `have` is what the host holds: by kind and id the digest that the server gave with it.

    Forwarding entries are many and small: they are told by network, with the digest of all of them.
    """

    host: str
    version: int = VERSION
    release: str = ""
    roles: tuple[str, ...] = ()
    cursor: Cursor | None = None
    have: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class Report(Message, frozen=True, kw_only=True, omit_defaults=True, tag="report"):
    """The agents of this host, and the position whose changes they have carried out."""

    serial: int
    states: tuple[AgentState, ...] = ()
    applied: int | None = None


class PortUp(Message, frozen=True, kw_only=True, omit_defaults=True, tag="port_up"):
    """A port is wired as of this revision."""

    serial: int
    port_id: str
    revision: int = 0


class PortDown(Message, frozen=True, kw_only=True, omit_defaults=True, tag="port_down"):
    serial: int
    port_id: str
    reason: str = ""


class PortReady(Message, frozen=True, kw_only=True, omit_defaults=True, tag="port_ready"):
    """What this host does for a port that may be on another one is done as of this revision: its lease can be given."""

    serial: int
    port_id: str
    revision: int = 0
    component: str = "DHCP"


class Status(Message, frozen=True, kw_only=True, omit_defaults=True, tag="status"):
    """How something of a router is here: a floating IP that works, an HA router that is active."""

    serial: int
    kind: str
    id: str
    status: str


class Problem(Message, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """Something could not be done for an object, or a message was not understood (then without an object)."""

    text: str
    serial: int = 0
    kind: str = ""
    id: str = ""


# --- from the server --------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True, omit_defaults=True, tag="welcome"):
    cursor: Cursor
    version: int = VERSION
    server: str = ""


class Refused(Message, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """The connection ends, and coming again at once is of no use."""

    reason: str


class Put(Message, frozen=True, kw_only=True, omit_defaults=True, tag="put"):
    kind: str
    object: msgspec.Raw
    digest: str = ""


class Gone(Message, frozen=True, kw_only=True, omit_defaults=True, tag="gone"):
    kind: str
    id: str


class Members(Message, frozen=True, kw_only=True, omit_defaults=True, tag="members"):
    """What a group's members have gained and lost; `digest` is that of all of them after it."""

    id: str
    added: tuple[Member, ...] = ()
    removed: tuple[Member, ...] = ()
    digest: str = ""


class Entries(Message, frozen=True, kw_only=True, omit_defaults=True, tag="entries"):
    """Which forwarding entries a network has; others of that network are gone."""

    network_id: str
    ids: tuple[str, ...] = ()


class Synced(Message, frozen=True, kw_only=True, omit_defaults=True, tag="synced"):
    """The host has all that is for it as of this position. `entries`: digests of the networks' forwarding entries."""

    position: int
    entries: dict[str, str] = msgspec.field(default_factory=dict)


class Ack(Message, frozen=True, kw_only=True, omit_defaults=True, tag="ack"):
    """What the host said under this serial number is done."""

    serial: int


FROM_HOST: Final = {
    cls.__struct_config__.tag: cls for cls in (Hello, Report, PortUp, PortDown, PortReady, Status, Problem)
}
FROM_SERVER: Final = {
    cls.__struct_config__.tag: cls for cls in (Welcome, Refused, Put, Gone, Members, Entries, Synced, Ack, Problem)
}
HostMessage = Hello | Report | PortUp | PortDown | PortReady | Status | Problem
ServerMessage = Welcome | Refused | Put | Gone | Members | Entries | Synced | Ack | Problem


class NotUnderstood(ValueError):
    """A frame or a message that does not say what it should."""


class _Typed(msgspec.Struct):
    type: str


_encoder = msgspec.json.Encoder(order="deterministic")
_frame = msgspec.json.Decoder(list[msgspec.Raw])
_type = msgspec.json.Decoder(_Typed)
encode_one = _encoder.encode


def encode(messages: Iterable[Message]) -> bytes:
    return _encoder.encode(list(messages))


def frame(encoded: Iterable[bytes]) -> bytes:
    """Messages that are encoded already, as one frame."""
    return b"[" + b",".join(encoded) + b"]"


class Reader:
    """Reads the messages of one side."""

    def __init__(self, types: dict[Any, Any]) -> None:
        self._decoders = {tag: msgspec.json.Decoder(cls) for tag, cls in types.items()}

    def read(self, data: bytes | str) -> list[Any]:
        """The messages of a frame; in place of one that is not understood, a NotUnderstood that says why."""
        try:
            parts = _frame.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NotUnderstood(f"this is no frame: {error}") from None
        return [self._one(part) for part in parts]

    def _one(self, part: msgspec.Raw) -> Any:
        try:
            kind = _type.decode(part).type
            decoder = self._decoders.get(kind)
            return NotUnderstood(f"there is no message {kind!r} here") if decoder is None else decoder.decode(part)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return NotUnderstood(str(error))
