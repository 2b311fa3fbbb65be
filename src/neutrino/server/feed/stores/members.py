"""Members of security groups: counted, and sent as differences. Pure.

The digest of a set is the sum of its members' hashes: a new member needs no other one, and order has no effect.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from neutrino.feed.digests import number_of, text_of
from neutrino.feed.messages import MAX_MEMBERS, Members, encode_gone, encode_one, encode_put
from neutrino.model.state import GroupMembers, Member, Object
from neutrino.server.feed.queues import ALL, Due, MemberDifference, Parts, Pending
from neutrino.server.feed.records import PortRecord
from neutrino.server.feed.stores.objects import Store


@dataclass(slots=True, eq=False)
class MemberSet:
    """The members of one security group, each counted as often as ports bring it."""

    _counts: Counter[Member] = field(default_factory=Counter)
    _number: int = 0
    _encoded: list[bytes] | None = None  # made once for all hosts that need the whole group

    def __bool__(self) -> bool:
        return bool(self._counts)

    def change(self, added: Iterable[Member], removed: Iterable[Member]) -> tuple[set[Member], set[Member]]:
        """Count these; returns the members that are new in the group and those that left it."""
        new: set[Member] = set()
        lost: set[Member] = set()
        for member in added:
            self._counts[member] += 1
            if self._counts[member] == 1:
                new.add(member)
        for member in removed:
            self._counts[member] -= 1
            if not self._counts[member]:
                del self._counts[member]
                lost.add(member)
        if new or lost:
            self._number += sum(map(_member_hash, new)) - sum(map(_member_hash, lost))
            self._encoded = None
        return new, lost

    @property
    def digest(self) -> str:
        return text_of(self._number)

    @property
    def members(self) -> frozenset[Member]:
        return frozenset(self._counts)

    def encoded(self, key: str) -> list[bytes]:
        """The messages that put the whole group, split by the bound on one message."""
        if not self._counts:  # not kept: all empty groups are one object
            return self._encode(key)
        if self._encoded is None:
            self._encoded = self._encode(key)
        return self._encoded

    def _encode(self, key: str) -> list[bytes]:
        members = sorted(self._counts, key=lambda m: (m.ip_address, m.mac_address))
        first = GroupMembers(id=key, members=frozenset(members[:MAX_MEMBERS]))
        parts = [members[i : i + MAX_MEMBERS] for i in range(MAX_MEMBERS, len(members), MAX_MEMBERS)]
        out = [encode_put("group_members", msgspec.json.encode(first), "" if parts else self.digest)]
        for i, part in enumerate(parts, 1):
            # Only the last part carries the digest: a connection lost before it must not leave a partial set as complete.
            whole = self.digest if i == len(parts) else ""
            out.append(encode_one(Members(id=key, added=tuple(part), digest=whole)))
        return out


def _member_hash(member: Member) -> int:
    return number_of(f"{member.ip_address} {member.mac_address}".encode())


_NO_MEMBERS = MemberSet()


class MemberSets(Store):
    """Members of security groups, counted: two ports may bring the same address to a group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sets: defaultdict[str, MemberSet] = defaultdict(MemberSet)

    def put(self, key: str, before: PortRecord | None, after: PortRecord | None) -> None:
        had, old = _groups_and_members(before)
        has, new = _groups_and_members(after)
        if had == has and old == new:
            return
        for group_id in had | has:
            members = self._sets[group_id]
            added, removed = members.change(new if group_id in has else (), old if group_id in had else ())
            if not members:
                del self._sets[group_id]
            if added or removed:
                for pending in self._watchers.of(self._subscriptions.hosts(self.name, group_id), self.name):
                    due = pending.due.get((self.name, group_id)) or MemberDifference()
                    if isinstance(due, MemberDifference | Parts):  # else all members are due anyway
                        (due.difference if isinstance(due, Parts) else due).extend(added, removed)
                    pending.touch(self.name, group_id, due)

    def touch(self, pending: Pending, key: str) -> None:
        pending.touch(self.name, key, ALL)

    def touch_all(self, pending: Pending) -> None:
        for key in self._subscriptions.keys(pending.host, self.name):
            pending.touch(self.name, key, ALL)

    def messages(self, pending: Pending, key: str, due: Due) -> Sequence[bytes]:
        if self.name not in pending.kinds or not self._subscriptions.has(pending.host, self.name, key):
            return (encode_gone(self.name, key),)
        members = self._sets.get(key, _NO_MEMBERS)
        # A difference that does not fit one message is sent as the whole set, which can be split.
        if not isinstance(due, MemberDifference) or len(due.added) + len(due.removed) > MAX_MEMBERS:
            return members.encoded(key)
        if not due.added and not due.removed:
            return ()
        added, removed = tuple(due.added), tuple(due.removed)
        return (encode_one(Members(id=key, added=added, removed=removed, digest=members.digest)),)

    def digests(self, host: str) -> dict[str, str]:
        keys = self._subscriptions.keys(host, self.name)
        return {key: self._sets.get(key, _NO_MEMBERS).digest for key in keys}

    def objects(self, host: str) -> Iterator[Object]:
        for key in self._subscriptions.keys(host, self.name):
            yield GroupMembers(id=key, members=self._sets.get(key, _NO_MEMBERS).members)


def _groups_and_members(port: PortRecord | None) -> tuple[frozenset[str], frozenset[Member]]:
    return (port.groups, port.members) if port is not None else (frozenset(), frozenset())
