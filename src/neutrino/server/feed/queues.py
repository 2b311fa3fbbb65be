"""Send queues of connected hosts: what changed since it was last sent, never the messages. Pure.

`Pending` has the keys of what is due for one connection. So a slow host gets the newest value of each object once, and its
queue never outgrows the number of objects. For security group members the difference is kept, as the whole set is large.
Of a snapshot the ids are kept, in one tuple per kind or network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from neutrino.model.state import Member

ALL: Final = "all"


@dataclass(slots=True)
class MemberDifference:
    added: set[Member] = field(default_factory=set)
    removed: set[Member] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def extend(self, added: Set[Member], removed: Set[Member]) -> None:
        # What is queued and not sent yet cancels out: the host never got a member that is removed again.
        self.removed |= removed - self.added
        self.added -= removed
        self.added |= added - self.removed
        self.removed -= added


@dataclass(frozen=True, slots=True)
class Several:
    """Objects of a snapshot, from `start` on: thousands of them are one item of the queue, and take several frames."""

    ids: Sequence[str]
    start: int = 0
    topic: str = ""  # the key of the topic whose objects they are, if messages may be composed for many hosts

    def after(self, end: int) -> Several | None:
        """What is due when all before this index is sent."""
        return Several(self.ids, end, self.topic) if end < len(self.ids) else None


@dataclass(frozen=True, slots=True)
class Parts:
    """Messages that put one large object, from `start` on: as they were when the first was sent, over several frames.

    What changes meanwhile is sent after the last of them. Starting again would never end with a large group that changes
    often.
    """

    messages: Sequence[bytes]
    start: int = 0
    difference: MemberDifference = field(default_factory=MemberDifference)

    def next(self, size: int) -> tuple[Sequence[bytes], Parts | MemberDifference | None]:
        """The next messages, at least one and up to this size, and what is due after them."""
        end, length = self.start, 0
        while end < len(self.messages) and (end == self.start or length + len(self.messages[end]) <= size):
            length += len(self.messages[end])
            end += 1
        if end < len(self.messages):
            return self.messages[self.start : end], Parts(self.messages, end, self.difference)
        return self.messages[self.start :], self.difference or None


SEVERAL: Final = 200  # taken at once: a frame of about 64 KiB
# How much of a key is due: an object (None), all members of a group or the ids of a network's forwarding entries (ALL), a
# difference of members, the rest of a large group, or several objects.
Due = MemberDifference | Parts | Several | str | None


@dataclass(slots=True, eq=False)
class Cause:
    """The request that causes the change which is being applied; empty: none, or unknown."""

    request_id: str = ""


@dataclass(slots=True, eq=False)
class Pending:
    host: str
    kinds: frozenset[str]  # that the roles of the host's credential consume: others are never sent
    wake: Callable[[], None]
    due: dict[tuple[str, str], Due] = field(default_factory=dict)  # by kind and key
    digests: set[str] = field(default_factory=set)  # networks whose digest of forwarding entries `synced` has to carry
    cause: Cause = field(default_factory=Cause)
    requests: dict[tuple[str, str], str] = field(default_factory=dict)  # of what is due: the newest that caused it
    accepts_zlib: bool = False  # compressed frames

    def __len__(self) -> int:
        return len(self.due)

    def touch(self, kind: str, key: str, due: Due = None) -> None:
        self.due[kind, key] = due
        if self.cause.request_id:
            self.requests[kind, key] = self.cause.request_id
        self.wake()

    def remove_first(self, number: int) -> None:
        """Remove what is sent."""
        if number == len(self.due):
            self.due.clear()
            self.requests.clear()
        else:
            for sent in list(islice(self.due, number)):
                del self.due[sent]
                self.requests.pop(sent, None)


class Watchers:
    """The queues of connected hosts; a host may have several connections."""

    def __init__(self) -> None:
        self._by_host: dict[str, list[Pending]] = {}
        self.cause = Cause()

    def __bool__(self) -> bool:
        return bool(self._by_host)

    def add(self, pending: Pending) -> None:
        self._by_host.setdefault(pending.host, []).append(pending)

    def remove(self, pending: Pending) -> None:
        left = [each for each in self._by_host.get(pending.host, ()) if each is not pending]
        if left:
            self._by_host[pending.host] = left
        else:
            self._by_host.pop(pending.host, None)

    def of(self, hosts: Collection[str], kind: str) -> Iterable[Pending]:
        """Those of the hosts that consume the kind: others must not even receive the ids of its objects."""
        return self._of(hosts, kind) if self._by_host else ()  # at the start, while everything is read, there is none

    def _of(self, hosts: Collection[str], kind: str) -> Iterator[Pending]:
        # A change of a large network concerns a thousand hosts, of which few may be connected here: walk the smaller set.
        if len(hosts) <= len(self._by_host):
            for host in hosts:
                for pending in self._by_host.get(host, ()):
                    if kind in pending.kinds:
                        yield pending
        else:
            for host, several in self._by_host.items():
                if host in hosts:
                    for pending in several:
                        if kind in pending.kinds:
                            yield pending

    def touch(self, hosts: Collection[str], kind: str, key: str) -> None:
        for pending in self.of(hosts, kind):
            pending.touch(kind, key)
