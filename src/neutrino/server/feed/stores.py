"""Stores: the objects of one kind, which hosts receive them, and what a change or a subscription marks as due. Pure.

`ServedKind` is the server's half of a kind's declaration; `kinds.py` has the list. Each store answers the same questions:
`put` a record's new value, `notify` that a host gained or lost a topic, `lookup` an object for a host, the `digests` of
everything a host should have, and what to `touch` where a digest differs. The store class says how objects are shared out:

- `SharedObjects`: one value for all hosts subscribed to its topic;
- `PeerHosts`: hosts receive each other while they have a tunnelled network in common;
- `ForwardingEntries`: one digest for all entries of a network, a host's own entries left out;
- `MemberSets`: addresses of a security group, sent as differences;
- `HostObjects`: a value per host, which is also what makes the host receive it.

What is due goes into the queues of `queues.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.feed.digests import total
from neutrino.feed.messages import MAX_MEMBERS, Entries, Members, encode_one
from neutrino.model.kinds import Kind
from neutrino.model.state import Forwarding, GroupMembers, Member, Object
from neutrino.server.feed.encoding import Item, MemberSet, digest, gone
from neutrino.server.feed.queues import ALL, SEVERAL, Due, MemberDifference, Parts, Pending, Several, Watchers
from neutrino.server.feed.records import PortRecord
from neutrino.server.feed.subscriptions import NO_TOPICS, Subscriptions, Topic

Reader = Callable[[Connection, Sequence[str] | None], Iterable[tuple[str, Any]]]  # ids (None: all) → id, record


@dataclass(frozen=True)
class ServedKind:
    """Where the objects of a kind come from, and its scope rule: which hosts receive them."""

    kind: Kind
    store: type[Store]
    source: str  # kind of the change-log rows that name its records
    read: Callable[..., Iterable[tuple[str, Any]]] | None = None  # a Reader of the source; kinds of one source share it
    takes_additions: bool = False  # its reader has a parameter `additions`: what features add to its records
    value: Callable[[Any], Any] = lambda record: record  # from a record: the object, or host → object
    # Scope: kind of a referring object → keys of this kind's topics that the object refers to. Derived from `Reference`s.
    referenced_by: Mapping[str, Callable[[Any], Iterable[str]]] = field(default_factory=dict)
    key: Callable[[Any], str] = attrgetter("id")  # of the topic that an object belongs to
    subscriber: Callable[[Any], str] | None = None  # the host that an object itself subscribes to the topic

    @property
    def name(self) -> str:
        return self.kind.name


class Store(ABC):
    """Base of all stores: the references that objects of this kind make to topics of others."""

    def __init__(
        self, served: ServedKind, kinds: Sequence[ServedKind], subscriptions: Subscriptions, watchers: Watchers
    ) -> None:
        self.kind = served.kind
        self.name = served.name
        self._served = served
        self._subscriptions = subscriptions
        self._watchers = watchers
        self._rules = [(k.name, k.referenced_by[self.name]) for k in kinds if self.name in k.referenced_by]

    def _references(self, value: Any) -> frozenset[Topic]:
        if value is None or not self._rules:
            return NO_TOPICS
        return _shared(frozenset((kind, key) for kind, keys in self._rules for key in keys(value)))

    @abstractmethod
    def put(self, key: str, before: Any, after: Any) -> None:
        """Take a record's new value; None: there is none."""

    def notify(self, host: str, key: str) -> None:
        """A host gained or lost a topic: mark what belongs to it as due."""
        for pending in self._watchers.of([host], self.name):
            self.touch(pending, key)

    def lookup(self, host: str, key: str) -> Item | None:
        """The object as the host should have it, or None. Looked up when a frame is built, so always the newest."""
        return None

    def messages(self, pending: Pending, key: str, due: Due) -> Sequence[bytes]:
        """The messages for a key with a `Due`; stores of whole objects never queue one."""
        return ()

    def several(self, pending: Pending, due: Several) -> tuple[list[bytes], Several | None]:
        """The next messages of a snapshot, and what is due after them. Looked up now: what changed since is the newest."""
        end = due.start + SEVERAL
        rest = Several(due.ids, end) if end < len(due.ids) else None
        return [item.encoded() for item in self._look_up(pending.host, due.ids[due.start : end])], rest

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item]:
        """`lookup` of several objects, without those that the host should not have."""
        return [item for key in keys if (item := self.lookup(host, key)) is not None]

    def digests(self, host: str) -> dict[str, str]:
        """What the host should report in `hello`, by id (forwarding entries: by network)."""
        return {item.object.id: item.digest for item in self.items(host)}

    def total(self, host: str) -> str:
        """The sum of these digests."""
        return total(self.name, self.digests(host))

    def items(self, host: str) -> Iterable[Item]:
        """The objects that the host should have; a store that does not keep items overrides the methods that use it."""
        return ()

    def objects(self, host: str) -> Iterator[Object]:
        for item in self.items(host):
            yield item.object

    def touch(self, pending: Pending, key: str) -> None:
        """Mark what a digest stands for as due."""
        pending.touch(self.name, key)

    def touch_all(self, pending: Pending) -> None:
        """Mark everything as due for a host that has nothing of this kind."""
        if ids := tuple(item.object.id for item in self.items(pending.host)):
            pending.touch(self.name, "", Several(ids))


class SharedObjects(Store):
    """One value for all hosts subscribed to the object's topic."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._key = self._served.key
        self._items: dict[str, Item] = {}
        self._by_key: defaultdict[str, dict[str, Item]] = defaultdict(dict)  # topic → id → object

    def put(self, key: str, before: Any, after: Any) -> None:
        old = self._served.value(before) if before is not None else None
        new = self._served.value(after) if after is not None else None
        if old != new:
            self._replace(old, new)

    def _replace(self, old: Any, new: Any) -> None:
        if old is not None:
            self._drop(self._key(old), old.id)
        if new is not None:
            self._items[new.id] = self._by_key[self._key(new)][new.id] = Item(self.name, new)
        # Both topics, if the object changed its topic: hosts of the old one have to drop it, hosts of the new one get it.
        affected = {(self._key(value), value.id): value for value in (old, new) if value is not None}
        for (key, object_id), value in affected.items():
            self._touch_hosts(key, object_id)
            if self._rules:
                item = self._items.get(object_id)
                references = self._references(item.object if item is not None else None)
                self._subscriptions.link((self.name, object_id), references)
            if self._served.subscriber is not None:
                topics = frozenset({(self.name, key)}) if object_id in self._items else NO_TOPICS
                self._subscriptions.refer(self._served.subscriber(value), (self.name, f"of {object_id}"), topics)

    def _drop(self, key: str, object_id: str) -> None:
        self._items.pop(object_id, None)
        objects = self._by_key[key]
        objects.pop(object_id, None)
        if not objects:
            del self._by_key[key]

    def _touch_hosts(self, key: str, object_id: str) -> None:
        self._watchers.touch(self._subscriptions.hosts(self.name, key), self.name, object_id)

    def notify(self, host: str, key: str) -> None:
        for pending in self._watchers.of([host], self.name):
            for object_id in self._by_key.get(key, ()):
                pending.touch(self.name, object_id)

    def lookup(self, host: str, key: str) -> Item | None:
        item = self._items.get(key)
        return item if item is not None and self._receives(host, item.object) else None

    def _receives(self, host: str, value: Object) -> bool:
        return self._subscriptions.has(host, self.name, self._key(value))

    def items(self, host: str) -> Iterable[Item]:
        keys = self._subscriptions.keys(host, self.name)
        return [item for key in keys if key in self._by_key for item in self._by_key[key].values()]


class PeerHosts(SharedObjects):
    """Tunnel endpoints. A topic is a tunnelled network or a tap flow; a host is sent to all others subscribed to it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sums: dict[str, int] = {}  # of the hosts of a network, since its last change

    def _replace(self, old: Any, new: Any) -> None:
        for value in (old, new):
            if value is not None:
                for key in self._subscriptions.keys(value.id, self.name):
                    self._sums.pop(key, None)
        super()._replace(old, new)

    def _peers(self, host: str) -> set[str]:
        networks = self._subscriptions.keys(host, self.name)
        return set().union(*(self._subscriptions.hosts(self.name, key) for key in networks)) - {host}

    def _touch_hosts(self, key: str, object_id: str) -> None:
        self._watchers.touch(self._peers(object_id), self.name, object_id)

    def notify(self, host: str, key: str) -> None:
        self._sums.pop(key, None)
        # A tunnel has two ends: the host gets its new peers, and each of them gets the host.
        others = self._subscriptions.hosts(self.name, key)
        for pending in self._watchers.of([host], self.name):
            for other in others:
                if other != host:
                    pending.touch(self.name, other)
        for pending in self._watchers.of(others, self.name):
            if pending.host != host:
                pending.touch(self.name, host)

    def _receives(self, host: str, value: Object) -> bool:
        mine, theirs = (self._subscriptions.keys(each, self.name) for each in (host, value.id))
        return host != value.id and not mine.isdisjoint(theirs)

    def items(self, host: str) -> Iterable[Item]:
        return [self._items[other] for other in self._peers(host) if other in self._items]

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item]:
        # As `_receives`, with the networks of the host looked up once: a first snapshot has all hosts of a large cloud.
        mine, items, networks_of = self._subscriptions.keys(host, self.name), self._items, self._subscriptions.keys
        return [
            items[key]
            for key in keys
            if key in items and key != host and not mine.isdisjoint(networks_of(key, self.name))
        ]

    def total(self, host: str) -> str:
        """Return the sum of a host.

        That of its largest network is cached: if all hosts reconnect, each has all others as peers.
        """
        hosts_of = self._subscriptions.hosts
        networks = sorted(self._subscriptions.keys(host, self.name), key=lambda key: len(hosts_of(self.name, key)))
        if not networks:
            return digest(0)
        largest = networks.pop()
        others = set().union(*(hosts_of(self.name, key) for key in networks)) - hosts_of(self.name, largest)
        return digest(self._sum(largest) - self._number(host) + sum(map(self._number, others)))

    def _sum(self, network_id: str) -> int:
        if network_id not in self._sums:
            self._sums[network_id] = sum(map(self._number, self._subscriptions.hosts(self.name, network_id)))
        return self._sums[network_id]

    def _number(self, host: str) -> int:
        item = self._items.get(host)
        return 0 if item is None else item.number


class ForwardingEntries(SharedObjects):
    """Entries by network. With thousands of them, one digest per network says whether a host has them all.

    A digest is the sum of the entries' hashes, so that it follows a change without reading the others, and a host's own
    entries, which it does not receive, are subtracted from the sum of its network. During a live migration it does receive
    its own entry: it sends copies to the target.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sums: defaultdict[Topic, int] = defaultdict(int)  # by network and host; an empty host: all of them
        self._id_lists: dict[str, Sequence[str]] = {}  # by network: of snapshots since the last change

    def _replace(self, old: Any, new: Any) -> None:
        # Around the replacement: before it the old entry's hash is still at hand, after it the new one's.
        if old is not None:
            self._count(old, -self._items[old.id].number)
        super()._replace(old, new)
        if new is not None:
            self._count(new, self._items[new.id].number)

    def _count(self, entry: Forwarding, number: int) -> None:
        self._id_lists.pop(entry.network_id, None)
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

    def _receives(self, host: str, value: Any) -> bool:
        return _is_for(value, host) and self._subscriptions.has(host, self.name, value.network_id)

    def touch(self, pending: Pending, key: str) -> None:
        pending.touch(self.name, key, ALL)
        self._touch_entries(pending, key)

    def touch_all(self, pending: Pending) -> None:
        for key in self._subscriptions.keys(pending.host, self.name):
            self._touch_entries(pending, key)

    def _touch_entries(self, pending: Pending, key: str) -> None:
        pending.digests.add(key)
        if ids := self._ids(key):
            pending.touch(self.name, f"of {key}", Several(ids))

    def _ids(self, key: str) -> Sequence[str]:
        """The entries of a network, in one sequence for all hosts that get them meanwhile."""
        ids = self._id_lists.get(key)
        if ids is None:
            ids = self._id_lists[key] = tuple(self._by_key.get(key, ()))
        return ids

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
        return digest(self._sums.get((network_id, ""), 0) - self._sums.get((network_id, host), 0))

    def digests(self, host: str) -> dict[str, str]:
        return {key: self.digest(host, key) for key in self._subscriptions.keys(host, self.name)}

    def items(self, host: str) -> Iterable[Item]:
        return [item for item in super().items(host) if _is_for(item.object, host)]

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item]:
        mine, items = self._subscriptions.keys(host, self.name), self._items
        found = (items[key] for key in keys if key in items)
        return [each for each in found if _is_for(each.object, host) and each.object.network_id in mine]  # type: ignore[attr-defined]


def _is_for(entry: Any, host: str) -> bool:
    """Whether a host on the network of a forwarding entry receives it."""
    return bool(entry.host != host or entry.migrates_to)


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
            return (gone(self.name, key),)
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


class HostObjects(Store):
    """A value per host; the host receives it without a subscription."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._additional: dict[str, Mapping[str, Object]] = {}  # id → host → object, from other rules than the record
        self._values: dict[str, Mapping[str, Object]] = {}  # from records
        self._items: dict[tuple[str, str], Item] = {}  # both by id and host; the record's value prevails
        self._ids: defaultdict[str, set[str]] = defaultdict(set)  # by host

    def put(self, key: str, before: Any, after: Any) -> None:
        self._set(self._values, key, self._served.value(after) if after is not None else {})

    def put_additional(self, key: str, by_host: Mapping[str, Object]) -> None:
        """Set the objects of hosts that have none by the record."""
        self._set(self._additional, key, by_host)

    def _set(self, layer: dict[str, Mapping[str, Object]], key: str, by_host: Mapping[str, Object]) -> None:
        hosts = {*layer.pop(key, ()), *by_host}
        if by_host:
            layer[key] = by_host
        values, additional = self._values.get(key, {}), self._additional.get(key, {})
        for host in hosts:
            value, old = values.get(host) or additional.get(host), self._items.get((key, host))
            if old is not None and old.object == value:  # another host's copy changed, as in a live migration
                continue
            if value is None:
                del self._items[key, host]
                self._ids[host].discard(key)
            else:
                self._items[key, host] = Item(self.name, value, is_shared=False)
                self._ids[host].add(key)
            self._watchers.touch([host], self.name, key)
            self._subscriptions.refer(host, (self.name, key), self._references(value))

    def lookup(self, host: str, key: str) -> Item | None:
        return self._items.get((key, host))

    def items(self, host: str) -> Iterable[Item]:
        return [self._items[key, host] for key in self._ids.get(host, ())]


@lru_cache(maxsize=4096)
def _shared(topics: frozenset[Topic]) -> frozenset[Topic]:
    """One set for all ports with the same network and groups: as many as there are ports would cost memory."""
    return topics


def _groups_and_members(port: PortRecord | None) -> tuple[frozenset[str], frozenset[Member]]:
    return (port.groups, port.members) if port is not None else (frozenset(), frozenset())
