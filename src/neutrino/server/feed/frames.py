"""What is due for a host, as the messages of its next frame. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from neutrino.feed.messages import MAX_BYTES, encode_gone, with_request_id
from neutrino.server.feed.composed import FRAME_BYTES, Part
from neutrino.server.feed.queues import Due, MemberDifference, Parts, Pending, Several

LOG = logging.getLogger(__name__)
MAX_MESSAGE: Final = MAX_BYTES - 2 * FRAME_BYTES  # with what else is in its frame, and the digests of `synced`
Rest = Several | Parts | MemberDifference | None


class Encoded(Protocol):
    def encoded(self) -> bytes: ...


class Source(Protocol):
    """A store, as far as frames need it."""

    def lookup(self, host: str, key: str) -> Encoded | None: ...
    def messages(self, pending: Pending, key: str, due: Due) -> Sequence[bytes]: ...
    def several(self, pending: Pending, due: Several) -> tuple[Sequence[bytes], Several | None]: ...
    def composed(self, host: str, due: Several) -> Part | None: ...


def next_compressed(stores: Mapping[str, Source], pending: Pending) -> bytes | None:
    """Take what is due first, if all hosts get it in the same compressed frame."""
    for (kind, key), due in islice(pending.due.items(), 1):
        part = _composed(stores, pending, kind, key, due)
        data = _compressed(part, pending)
        if part is None or data is None:
            return None
        assert isinstance(due, Several)
        rest = due.after(part.end)
        if rest is not None:
            pending.due[kind, key] = rest
        else:
            pending.remove_first(1)
        return data
    return None


def next_messages(stores: Mapping[str, Source], pending: Pending) -> list[bytes]:
    """Take what is due first from the queue of a host, up to the size of a frame."""
    parts: list[bytes] = []
    size = taken = 0
    for (kind, key), due in pending.due.items():
        part = _composed(stores, pending, kind, key, due)
        if part is not None and parts and (len(part.data) >= FRAME_BYTES or _compressed(part, pending) is not None):
            break  # a frame of its own, without a copy of it beside others
        messages, rest = _messages(stores, pending, kind, key, due) if part is None else _of_part(part, pending, due)
        if request_id := pending.requests.get((kind, key)):
            messages = [with_request_id(message, request_id) for message in messages]
        length = sum(map(len, messages))
        if length > MAX_MESSAGE:
            messages = _without_large(messages, pending.host, kind, key)
            length = sum(map(len, messages))
        parts += messages
        size += length
        if rest is not None:
            pending.due[kind, key] = rest
            break
        taken += 1
        if size >= FRAME_BYTES:
            break
    pending.remove_first(taken)
    return parts


def _messages(
    stores: Mapping[str, Source], pending: Pending, kind: str, key: str, due: Due
) -> tuple[Sequence[bytes], Rest]:
    """The messages for a key, and what is due of it after them."""
    if due is None:
        item = stores[kind].lookup(pending.host, key) if kind in pending.kinds else None
        return (encode_gone(kind, key) if item is None else item.encoded(),), None
    if isinstance(due, Several):
        return stores[kind].several(pending, due)
    parts = due if isinstance(due, Parts) else Parts(stores[kind].messages(pending, key, due))
    return parts.next(FRAME_BYTES)


def _composed(stores: Mapping[str, Source], pending: Pending, kind: str, key: str, due: Due) -> Part | None:
    """Messages that all hosts get alike. Those with a request id are not, nor are those that no frame can have."""
    if not isinstance(due, Several) or (kind, key) in pending.requests:
        return None
    part = stores[kind].composed(pending.host, due)
    return part if part is not None and len(part.data) <= MAX_MESSAGE else None


def _compressed(part: Part | None, pending: Pending) -> bytes | None:
    return part.compressed_for(pending.host) if part is not None and pending.accepts_zlib else None


def _of_part(part: Part, pending: Pending, due: Due) -> tuple[Sequence[bytes], Rest]:
    assert isinstance(due, Several)
    data = part.without(pending.host)
    return (data,) if data else (), due.after(part.end)


def _without_large(messages: Sequence[bytes], host: str, kind: str, key: str) -> list[bytes]:
    """Messages without those that no frame can have: the host would close its connection, and every next one."""
    sent = [message for message in messages if len(message) <= MAX_MESSAGE]
    if len(sent) < len(messages):
        LOG.error("%s %s is too large to be sent: host %s keeps what it has of it", kind, key, host)
    return sent
