"""Packets of VICI, the control interface of strongSwan's charon. Pure.

A packet has a type, for requests and events a name, and a message: keys with values, lists or sections, which nest. Values
are bytes; here texts are encoded, and values that are read stay texts where they are UTF-8.
"""

import enum
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

Message = Mapping[str, Any]  # of str, a sequence of str, or a Message
MAX_PACKET = 512 * 1024  # as in strongSwan


class ViciError(Exception):
    """Charon cannot be reached, has refused a command, or has sent what is no VICI."""


class Refused(ViciError):
    """Charon has refused a command."""


class Type(enum.IntEnum):
    REQUEST = 0
    RESPONSE = 1
    UNKNOWN_REQUEST = 2
    REGISTER = 3
    UNREGISTER = 4
    CONFIRM = 5
    UNKNOWN_EVENT = 6
    EVENT = 7


_NAMED = frozenset({Type.REQUEST, Type.REGISTER, Type.UNREGISTER, Type.EVENT})


class _Element(enum.IntEnum):
    SECTION_START = 1
    SECTION_END = 2
    KEY_VALUE = 3
    LIST_START = 4
    LIST_ITEM = 5
    LIST_END = 6


class ViciPacket(NamedTuple):
    type: Type
    name: str = ""
    message: Message = MappingProxyType({})


def encode(packet: ViciPacket) -> bytes:
    """The packet with its length before it."""
    body = bytes([packet.type]) + (_name(packet.name) if packet.type in _NAMED else b"") + _message(packet.message)
    return struct.pack("!I", len(body)) + body


def _message(message: Message) -> bytes:
    out = b""
    for key, value in message.items():
        if isinstance(value, Mapping):
            out += bytes([_Element.SECTION_START]) + _name(key) + _message(value) + bytes([_Element.SECTION_END])
        elif isinstance(value, str | bytes):
            out += bytes([_Element.KEY_VALUE]) + _name(key) + _value(value)
        else:
            items = b"".join(bytes([_Element.LIST_ITEM]) + _value(item) for item in value)
            out += bytes([_Element.LIST_START]) + _name(key) + items + bytes([_Element.LIST_END])
    return out


def _name(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("!B", len(raw)) + raw


def _value(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("!H", len(raw)) + raw


def decode(body: bytes) -> ViciPacket:
    """A packet without its length; ViciError if it is none."""
    try:
        reader = _Reader(body[1:])
        kind = Type(body[0])
        name = reader.name() if kind in _NAMED else ""
        return ViciPacket(kind, name, reader.section(is_outer=True))
    except (ValueError, IndexError, struct.error) as error:
        raise ViciError(f"charon has sent an invalid packet: {error}") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def section(self, *, is_outer: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not (is_outer and self._at == len(self._data)):
            element = _Element(self._take(1)[0])
            if element is _Element.SECTION_END and not is_outer:
                break
            key = self.name()
            match element:
                case _Element.SECTION_START:
                    found[key] = self.section()
                case _Element.KEY_VALUE:
                    found[key] = self._value()
                case _Element.LIST_START:
                    found[key] = self._list()
                case _:
                    raise ValueError(f"unexpected element {element.name}")
        return found

    def _list(self) -> Sequence[str]:
        found = []
        while (element := _Element(self._take(1)[0])) is _Element.LIST_ITEM:
            found.append(self._value())
        if element is not _Element.LIST_END:
            raise ValueError(f"unexpected element {element.name} in a list")
        return found

    def name(self) -> str:
        return self._take(self._take(1)[0]).decode(errors="replace")

    def _value(self) -> str:
        (size,) = struct.unpack("!H", self._take(2))
        return self._take(size).decode(errors="replace")

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("it is cut")
        self._at += size
        return found
