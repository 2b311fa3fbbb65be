"""Per-host send queue: the keys of what changed since it was last sent, never the messages. Pure.

Values are looked up when a frame is built. So a slow host gets the newest value of each object once, and its queue never
outgrows the number of objects. For security group members the difference is kept, as the whole set is large.
"""

from collections.abc import Callable, Collection, Iterator, Sequence, Set

from neutrino.model.roles import ROLES
from neutrino.model.state import Member


class MemberDifference:
    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.added: set[Member] = set()
        self.removed: set[Member] = set()

    def extend(self, added: Set[Member], removed: Set[Member]) -> None:
        self.removed |= removed - self.added
        self.added -= removed
        self.added |= added - self.removed
        self.removed -= added


class Pending:
    def __init__(self, host: str, wake: Callable[[], None] = lambda: None, roles: Sequence[str] = ROLES) -> None:
        self.host = host
        self.roles = roles  # of the host's credential: kinds that none of them consumes are never sent
        self._wake = wake
        self.keys: dict[tuple[str, str], None] = {}  # kind, id
        self.networks: dict[str, None] = {}  # networks of which all forwarding entries are due
        self.members: dict[str, MemberDifference | None] = {}  # by group; None: all members are due
        self.digests: set[str] = set()  # networks whose digest of forwarding entries `synced` has to carry

    def __bool__(self) -> bool:
        return bool(self.keys or self.networks or self.members)

    def __len__(self) -> int:
        return len(self.keys) + len(self.networks) + len(self.members)

    def touch(self, kind: str, key: str) -> None:
        self.keys[kind, key] = None
        self._wake()

    def touch_entry(self, network_id: str, port_id: str) -> None:
        self.digests.add(network_id)
        if network_id not in self.networks:
            self.touch("forwarding", port_id)

    def touch_entries(self, network_id: str) -> None:
        self.digests.add(network_id)
        self.networks[network_id] = None
        self._wake()

    def touch_all_members(self, group_id: str) -> None:
        self.members[group_id] = None
        self._wake()

    def touch_members(self, group_id: str, added: Set[Member], removed: Set[Member]) -> None:
        if group_id not in self.members:
            self.members[group_id] = MemberDifference()
        difference = self.members[group_id]
        if difference is not None:  # else all members are due anyway
            difference.extend(added, removed)
        self._wake()


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

    def of(self, hosts: Collection[str]) -> Iterator[Pending]:
        # A change of a large network concerns a thousand hosts, of which few may be connected here: walk the smaller set.
        for host in hosts if len(hosts) < len(self._by_host) else self._by_host.keys() & set(hosts):
            yield from self._by_host.get(host, ())

    def touch(self, hosts: Collection[str], kind: str, key: str) -> None:
        for pending in self.of(hosts):
            pending.touch(kind, key)
