"""Per-host send queue: the keys of what changed since it was last sent, never the messages. Pure.

Values are looked up when a frame is built. So a slow host gets the newest value of each object once, and its queue never
outgrows the number of objects. For security group members the difference is kept, as the whole set is large.
"""

from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from neutrino.model.state import Member

ALL: Final = "all"


@dataclass(slots=True)
class MemberDifference:
    added: set[Member] = field(default_factory=set)
    removed: set[Member] = field(default_factory=set)

    def extend(self, added: Set[Member], removed: Set[Member]) -> None:
        self.removed |= removed - self.added
        self.added -= removed
        self.added |= added - self.removed
        self.removed -= added


# How much of a key is due: an object (None), all members of a group or all forwarding entries of a network (ALL), or a
# difference of members.
Due = MemberDifference | str | None


class Pending:
    def __init__(self, host: str, kinds: frozenset[str], wake: Callable[[], None]) -> None:
        self.host = host
        self.kinds = kinds  # that the roles of the host's credential consume: others are never sent
        self._wake = wake
        self.due: dict[tuple[str, str], Due] = {}  # by kind and key
        self.digests: set[str] = set()  # networks whose digest of forwarding entries `synced` has to carry

    def __len__(self) -> int:
        return len(self.due)

    def touch(self, kind: str, key: str, due: Due = None) -> None:
        self.due[kind, key] = due
        self._wake()

    def touch_members(self, kind: str, group_id: str, added: Set[Member], removed: Set[Member]) -> None:
        difference = self.due.get((kind, group_id)) or MemberDifference()
        if isinstance(difference, MemberDifference):  # else all members are due anyway
            difference.extend(added, removed)
        self.touch(kind, group_id, difference)

    def remove_first(self, number: int) -> None:
        """Remove what is sent."""
        if number == len(self.due):
            self.due.clear()
        else:
            for sent in list(islice(self.due, number)):
                del self.due[sent]


class Watchers:
    """The queues of connected hosts; a host may have several connections."""

    def __init__(self) -> None:
        self._by_host: dict[str, list[Pending]] = {}

    def add(self, pending: Pending) -> None:
        self._by_host.setdefault(pending.host, []).append(pending)

    def remove(self, pending: Pending) -> None:
        left = [each for each in self._by_host.get(pending.host, ()) if each is not pending]
        if left:
            self._by_host[pending.host] = left
        else:
            self._by_host.pop(pending.host, None)

    def of(self, hosts: Collection[str], kind: str) -> Iterator[Pending]:
        """Those of the hosts that consume the kind: others must not even receive the ids of its objects."""
        # A change of a large network concerns a thousand hosts, of which few may be connected here: walk the smaller set.
        for host in hosts if len(hosts) < len(self._by_host) else self._by_host.keys() & set(hosts):
            yield from (pending for pending in self._by_host.get(host, ()) if kind in pending.kinds)

    def touch(self, hosts: Collection[str], kind: str, key: str, due: Due = None) -> None:
        for pending in self.of(hosts, kind):
            pending.touch(kind, key, due)
