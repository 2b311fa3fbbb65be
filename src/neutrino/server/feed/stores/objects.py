"""Objects of one kind: encoded once for all hosts that receive them, with a digest. The base of all stores. Pure.

A host reports the digests that it was sent, so the server finds the difference without a copy of what the host has.
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

from neutrino.feed.digests import number_of, text_of, total
from neutrino.feed.messages import encode_one, encode_put
from neutrino.model.kinds import Kind
from neutrino.model.state import Object
from neutrino.server.feed.queues import SEVERAL, Due, Pending, Several, Watchers
from neutrino.server.feed.subscriptions import NO_TOPICS, Subscriptions, Topic

Reader = Callable[[Connection, Sequence[str] | None], Iterable[tuple[str, Any]]]  # ids (None: all) → id, record


@dataclass(slots=True, eq=False)
class Item:
    """An object with its `put` message and digest, both made on first use, and kept if several hosts get the message."""

    kind: str
    object: Object
    is_shared: bool = True
    _encoded: bytes | None = None
    _number: int | None = None
    _digest: str | None = None

    @property
    def number(self) -> int:
        if self._number is None:
            self._number = number_of(encode_one(self.object))
        return self._number

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = text_of(self.number)
        return self._digest

    def encoded(self) -> bytes:
        if self._encoded is not None:
            return self._encoded
        raw = encode_one(self.object)
        self._number = number_of(raw)
        encoded = encode_put(self.kind, raw, self.digest)
        if self.is_shared:
            self._encoded = encoded
        return encoded


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


@lru_cache(maxsize=4096)
def _shared(topics: frozenset[Topic]) -> frozenset[Topic]:
    """One set for all ports with the same network and groups: as many as there are ports would cost memory."""
    return topics


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
