"""Stores of what hosts need of each other: tunnel endpoints, forwarding entries, members of security groups. Pure.

Of forwarding entries and of members, one digest stands for a set: the sum of the hashes of what is in it. So a change needs
no other part of the set, and order has no effect.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

import msgspec

from neutrino.feed.digests import number_of, text_of
from neutrino.feed.messages import MAX_MEMBERS, Entries, Members, encode_gone, encode_one, encode_put
from neutrino.model.state import Forwarding, GroupMembers, Host, Member, Object
from neutrino.server.feed.fanout import Item, SharedObjects, Store, StoreInputs
from neutrino.server.feed.queues import ALL, Due, MemberDifference, Parts, Pending, Several
from neutrino.server.feed.records import PortRecord
from neutrino.server.feed.subscriptions import Topic


class PeerHosts(SharedObjects[Host]):
    """Tunnel endpoints. A topic is a tunnelled network or a tap flow; a host is sent to all others subscribed to it."""

    def __init__(self, inputs: StoreInputs) -> None:
        super().__init__(inputs)
        self._sums: dict[str, int] = {}  # of the hosts of a network, since its last change

    def _replace(self, old: Host | None, new: Host | None) -> None:
        for value in (old, new):
            if value is not None:
                for key in self._subscriptions.keys(value.id, self.name):
                    self._forget(key)
        super()._replace(old, new)

    def _forget(self, key: str) -> None:
        """The hosts of a network have changed."""
        self._sums.pop(key, None)
        self._composed.pop(key, None)

    def _peers(self, host: str) -> set[str]:
        networks = self._subscriptions.keys(host, self.name)
        return set().union(*(self._subscriptions.hosts(self.name, key) for key in networks)) - {host}

    def _touch_hosts(self, key: str, object_id: str) -> None:
        if self._watchers:  # none at the start, where the peers of all hosts are a square of their number
            self._watchers.touch(self._peers(object_id), self.name, object_id)

    def notify(self, host: str, key: str) -> None:
        self._forget(key)
        # A tunnel has two ends: the host gets its new peers, and each of them gets the host.
        others = self._subscriptions.hosts(self.name, key)
        for pending in self._watchers.of([host], self.name):
            for other in others:
                if other != host:
                    pending.touch(self.name, other)
        for pending in self._watchers.of(others, self.name):
            if pending.host != host:
                pending.touch(self.name, host)

    def _receives(self, host: str, value: Host) -> bool:
        mine, theirs = (self._subscriptions.keys(each, self.name) for each in (host, value.id))
        return host != value.id and not mine.isdisjoint(theirs)

    def items(self, host: str) -> Iterable[Item[Host]]:
        return [self._items[other] for other in self._peers(host) if other in self._items]

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item[Host]]:
        # As `_receives`, with the networks of the host looked up once: a first snapshot has all hosts of a large cloud.
        mine, items, networks_of = self._subscriptions.keys(host, self.name), self._items, self._subscriptions.keys
        return [
            items[key]
            for key in keys
            if key in items and key != host and not mine.isdisjoint(networks_of(key, self.name))
        ]

    # If all hosts come at once, each may have all others as peers: what belongs to its largest network is cached.

    def total(self, host: str) -> str:
        largest, others = self._largest(host)
        if not largest:
            return text_of(0)
        return text_of(self._sum(largest) - self._number(host) + sum(map(self._number, others)))

    def touch_all(self, pending: Pending) -> None:
        largest, others = self._largest(pending.host)
        if not largest:
            return
        self._touch_topic(pending, largest)
        if ids := tuple(each for each in others if each in self._items):
            pending.touch(self.name, "", Several(ids))

    def _ids(self, key: str) -> Iterable[str]:
        return (each for each in self._subscriptions.hosts(self.name, key) if each in self._items)

    def _owner(self, value: Host) -> str:
        return value.id

    def _largest(self, host: str) -> tuple[str, Set[str]]:
        """The host's network with the most hosts, and its peers on other networks alone; an empty text: there is none."""
        hosts_of = self._subscriptions.hosts
        networks = {key: hosts_of(self.name, key) for key in self._subscriptions.keys(host, self.name)}
        if not networks:
            return "", set()
        largest = max(networks, key=lambda key: len(networks[key]))
        in_largest = networks.pop(largest)
        return largest, set().union(*networks.values()) - in_largest

    def _sum(self, network_id: str) -> int:
        if network_id not in self._sums:
            self._sums[network_id] = sum(map(self._number, self._subscriptions.hosts(self.name, network_id)))
        return self._sums[network_id]

    def _number(self, host: str) -> int:
        item = self._items.get(host)
        return 0 if item is None else item.number


class ForwardingEntries(SharedObjects[Forwarding]):
    """Entries by network. With thousands of them, one digest per network says whether a host has them all.

    A digest is the sum of the entries' hashes, so that it follows a change without reading the others, and a host's own
    entries, which it does not receive, are subtracted from the sum of its network. During a live migration it does receive
    its own entry: it sends copies to the target.
    """

    def __init__(self, inputs: StoreInputs) -> None:
        super().__init__(inputs)
        self._sums: defaultdict[Topic, int] = defaultdict(int)  # by network and host; an empty host: all of them

    def _replace(self, old: Forwarding | None, new: Forwarding | None) -> None:
        # Around the replacement: before it the old entry's hash is still at hand, after it the new one's.
        if old is not None:
            self._count(old, -self._items[old.id].number)
        super()._replace(old, new)
        if new is not None:
            self._count(new, self._items[new.id].number)

    def _count(self, entry: Forwarding, number: int) -> None:
        self._composed.pop(entry.network_id, None)
        places = [(entry.network_id, "")]
        if not _is_for(entry, entry.host):
            places.append((entry.network_id, entry.host))
        for place in places:
            self._sums[place] += number
            if not self._sums[place]:
                del self._sums[place]

    def _touch_hosts(self, key: str, object_id: str) -> None:
        for pending in self._watchers.of(self._subscriptions.hosts(self.name, key), self.name):
            pending.digests.add(key)
            pending.touch(self.name, object_id)

    notify = Store.notify  # by `touch`: the digest of the network is due with its entries
    total = Store.total  # of these digests, not of the entries

    def _receives(self, host: str, value: Forwarding) -> bool:
        return _is_for(value, host) and self._subscriptions.has(host, self.name, value.network_id)

    def touch(self, pending: Pending, key: str) -> None:
        pending.touch(self.name, key, ALL)
        self._touch_entries(pending, key)

    def touch_all(self, pending: Pending) -> None:
        for key in self._subscriptions.keys(pending.host, self.name):
            self._touch_entries(pending, key)

    def _touch_entries(self, pending: Pending, key: str) -> None:
        pending.digests.add(key)
        self._touch_topic(pending, key)

    def _owner(self, value: Forwarding) -> str:
        return "" if _is_for(value, value.host) else value.host

    def messages(self, pending: Pending, key: str, due: Due) -> Sequence[bytes]:
        return (encode_one(Entries(network_id=key, ids=tuple(self._entry_ids(pending, key)))),)

    def _entry_ids(self, pending: Pending, network_id: str) -> list[str]:
        """The entries of a network that the host should have."""
        if self.name not in pending.kinds or not self._subscriptions.has(pending.host, self.name, network_id):
            return []
        there = self._by_key.get(network_id, {})
        return [key for key, item in there.items() if _is_for(item.object, pending.host)]

    def digest(self, host: str, network_id: str) -> str:
        """Return the digest of the entries that the host should have; empty: it is not subscribed to the network."""
        if not self._subscriptions.has(host, self.name, network_id):
            return ""
        return text_of(self._sums.get((network_id, ""), 0) - self._sums.get((network_id, host), 0))

    def digests(self, host: str) -> dict[str, str]:
        return {key: self.digest(host, key) for key in self._subscriptions.keys(host, self.name)}

    def items(self, host: str) -> Iterable[Item[Forwarding]]:
        return [item for item in super().items(host) if _is_for(item.object, host)]

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item[Forwarding]]:
        mine, items = self._subscriptions.keys(host, self.name), self._items
        found = (items[key] for key in keys if key in items)
        return [each for each in found if _is_for(each.object, host) and each.object.network_id in mine]


def _is_for(entry: Forwarding, host: str) -> bool:
    """Whether a host on the network of a forwarding entry receives it."""
    return bool(entry.host != host or entry.migrates_to)


@dataclass(slots=True, eq=False)
class MemberSet:
    """The members of one security group, each counted as often as ports bring it."""

    _counts: dict[Member, int] = field(default_factory=dict)
    _number: int = 0
    _encoded: list[bytes] | None = None  # made once for all hosts that need the whole group

    def __bool__(self) -> bool:
        return bool(self._counts)

    def change(self, added: Iterable[Member], removed: Iterable[Member]) -> tuple[set[Member], set[Member]]:
        """Count these; returns the members that are new in the group and those that left it."""
        new: set[Member] = set()
        lost: set[Member] = set()
        counts = self._counts
        for member in added:
            count = counts.get(member, 0)
            counts[member] = count + 1
            if not count:
                new.add(member)
        for member in removed:
            counts[member] -= 1
            if not counts[member]:
                del counts[member]
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

    def __init__(self, inputs: StoreInputs) -> None:
        super().__init__(inputs)
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


def _groups_and_members(port: PortRecord | None) -> tuple[frozenset[str], Collection[Member]]:
    return (port.groups, port.members) if port is not None else (frozenset(), ())
