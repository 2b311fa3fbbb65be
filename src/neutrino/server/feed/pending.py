"""What one host is still to be told: names of what changed, not the changes.

What is sent is looked up when it is sent. So a host that reads slowly gets the newest of each object and nothing twice,
and what waits for it never outgrows the objects that there are. Members of groups wait as the difference that has come
together since the host last heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from neutrino.model.roles import ROLES
from neutrino.model.state import Member

Key = tuple[str, str]


class Difference:
    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.added: set[Member] = set()
        self.removed: set[Member] = set()

    def then(self, added: Set[Member], removed: Set[Member]) -> None:
        self.removed |= removed - self.added
        self.added -= removed
        self.added |= added - self.removed
        self.removed -= added


class Pending:
    def __init__(self, host: str, wake: Callable[[], None] = lambda: None, roles: Sequence[str] = ROLES) -> None:
        self.host = host
        self.roles = roles  # the host is told of nothing that is for others
        self._wake = wake
        self.keys: dict[Key, None] = {}
        self.networks: dict[str, None] = {}  # whose forwarding entries are all to be told
        self.members: dict[str, Difference | None] = {}  # None: all of them
        self.digests: set[str] = set()  # networks whose forwarding digest is another than the host knows

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
        difference = self.members.setdefault(group_id, Difference())
        if difference is not None:
            difference.then(added, removed)
        self._wake()
