"""Fan-out: holds all records in memory, and marks for each connected host what a change makes due. Pure.

The feed process reads the database once, then only what the change log names. `Fanout.apply` compares each record's old and
new value; the stores and the subscription index find the hosts concerned, so a change costs nothing for all others. Objects
are looked up when a frame is built. One thread owns it; there is no clock and no I/O.

`ServedKind` is the server's half of a kind. Its store has the objects of the kind, encoded once for all hosts that receive
them, with a digest: a host reports the digests that it was sent, so the server finds the difference without a copy of what
the host has. The class of the store says how objects are shared out:

- `SharedObjects`: one value for all hosts subscribed to its topic;
- `HostObjects`: a value per host, which is also what makes the host receive it;
- `stores.PeerHosts`: hosts receive each other while they have a tunnelled network in common;
- `stores.ForwardingEntries`: one digest for all entries of a network, a host's own entries left out;
- `stores.MemberSets`: addresses of a security group, sent as differences.

What is due goes into the queues of `queues.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from sqlalchemy.engine import Connection

from neutrino.feed.digests import number_of, text_of, total
from neutrino.feed.messages import Synced, encode_one, encode_put, frame
from neutrino.model.kinds import Kind
from neutrino.model.roles import ROLES
from neutrino.model.state import Object
from neutrino.server.feed.composed import Composed, Part
from neutrino.server.feed.dhcp_scope import DhcpScope
from neutrino.server.feed.frames import next_compressed, next_messages
from neutrino.server.feed.queues import SEVERAL, Due, Pending, Several, Watchers
from neutrino.server.feed.records import Records
from neutrino.server.feed.subscriptions import NO_TOPICS, Subscriptions, Topic

NOTHING: Final = text_of(0)  # the sum over no object
NO_REQUESTS: Final[Mapping[Topic, str]] = {}
DELETED_PORTS: Final = 10_000  # whose networks are remembered
T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)
Reader = Callable[[Connection, Sequence[str] | None], Iterable[tuple[str, Any]]]  # ids (None: all) → id, record
Take = Callable[[str, Any, Any], None]  # id, record before and after a change; None: there is none


class Item(msgspec.Struct, Generic[T_co], eq=False, gc=False):
    """An object with its `put` message and digest, both made on first use, and kept if several hosts get the message.

    There are three for each port: no other class is made as fast, and `gc` would look at all of them for cycles.
    """

    kind: str
    object: T_co
    is_shared: bool = True
    _encoded: bytes | None = None
    _number: int | None = None

    @property
    def number(self) -> int:
        if self._number is None:
            self._number = number_of(encode_one(self.object))
        return self._number

    @property
    def digest(self) -> str:
        return text_of(self.number)

    def encoded(self) -> bytes:
        if self._encoded is not None:
            return self._encoded
        encoded = self.message()
        if self.is_shared:
            self._encoded = encoded
        return encoded

    def message(self) -> bytes:
        """The same, and not kept: for those that keep it with others."""
        if self._encoded is not None:
            return self._encoded
        raw = encode_one(self.object)
        if self._number is None:
            self._number = number_of(raw)
        return encode_put(self.kind, raw, self.digest)


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


@dataclass(frozen=True)
class StoreInputs:
    """What a store is made with."""

    served: ServedKind
    kinds: Sequence[ServedKind]
    subscriptions: Subscriptions
    watchers: Watchers


class Store(ABC):
    """Base of all stores: the references that objects of this kind make to topics of others."""

    def __init__(self, inputs: StoreInputs) -> None:
        self.kind = inputs.served.kind
        self.name = name = inputs.served.name
        self._served = inputs.served
        self._subscriptions = inputs.subscriptions
        self._watchers = inputs.watchers
        self._rules = [(k.name, k.referenced_by[name]) for k in inputs.kinds if name in k.referenced_by]

    def _references(self, value: Object | None) -> frozenset[Topic]:
        if value is None or not self._rules:
            return NO_TOPICS
        return _shared(frozenset([(kind, key) for kind, keys in self._rules for key in keys(value)]))

    @abstractmethod
    def put(self, key: str, before: Any, after: Any) -> None:
        """Take a record's new value; None: there is none."""

    def notify(self, host: str, key: str) -> None:
        """A host gained or lost a topic: mark what belongs to it as due."""
        for pending in self._watchers.of([host], self.name):
            self.touch(pending, key)

    def lookup(self, host: str, key: str) -> Item[Object] | None:
        """The object as the host should have it, or None. Looked up when a frame is built, so always the newest."""
        return None

    def messages(self, pending: Pending, key: str, due: Due) -> Sequence[bytes]:
        """The messages for a key with a `Due`; stores of whole objects never queue one."""
        return ()

    def several(self, pending: Pending, due: Several) -> tuple[list[bytes], Several | None]:
        """The next messages of a snapshot, and what is due after them. Looked up now: what changed since is the newest."""
        end = due.start + SEVERAL
        return [item.encoded() for item in self._look_up(pending.host, due.ids[due.start : end])], due.after(end)

    def composed(self, host: str, due: Several) -> Part | None:
        """The same, composed for all hosts; None if it is not, or not any more: then `several` looks the objects up."""
        return None

    def _look_up(self, host: str, keys: Sequence[str]) -> Iterable[Item[Object]]:
        """`lookup` of several objects, without those that the host should not have."""
        return [item for key in keys if (item := self.lookup(host, key)) is not None]

    def digests(self, host: str) -> dict[str, str]:
        """What the host should report in `hello`, by id (forwarding entries: by network)."""
        return {item.object.id: item.digest for item in self.items(host)}

    def digest(self, host: str, key: str) -> str:
        """One of these digests; empty: the host should not have what it stands for."""
        return self.digests(host).get(key, "")

    def total(self, host: str) -> str:
        """The sum of these digests."""
        return total(self.name, self.digests(host))

    def items(self, host: str) -> Iterable[Item[Object]]:
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


class SharedObjects(Store, Generic[T]):
    """One value for all hosts subscribed to the object's topic."""

    def __init__(self, inputs: StoreInputs) -> None:
        super().__init__(inputs)
        self._key = self._served.key
        self._items: dict[str, Item[T]] = {}
        self._by_key: defaultdict[str, dict[str, Item[T]]] = defaultdict(dict)  # topic → id → object
        self._composed: dict[str, Composed] = {}  # topic → snapshots since its last change

    def put(self, key: str, before: Any, after: Any) -> None:
        old = self._served.value(before) if before is not None else None
        new = self._served.value(after) if after is not None else None
        if old != new:
            self._replace(old, new)

    def total(self, host: str) -> str:
        return text_of(sum(item.number for item in self.items(host)))

    def _replace(self, old: T | None, new: T | None) -> None:
        if old is None and new is not None and not self._rules and self._served.subscriber is None:
            key = self._key(new)  # most of what there is at the start: an object that concerns its topic alone
            self._items[new.id] = self._by_key[key][new.id] = Item(self.name, new)
            self._touch_hosts(key, new.id)
            return
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

    def lookup(self, host: str, key: str) -> Item[T] | None:
        item = self._items.get(key)
        return item if item is not None and self._receives(host, item.object) else None

    def _receives(self, host: str, value: T) -> bool:
        return self._subscriptions.has(host, self.name, self._key(value))

    def _touch_topic(self, pending: Pending, key: str) -> None:
        """Mark all objects of a topic as due, with messages composed for all hosts. Its store drops them with a change."""
        composed = self._composed.get(key)
        if composed is None:
            composed = Composed(tuple(self._ids(key)), self._message)
            if composed.ids:
                self._composed[key] = composed
        # `any`: of a topic where the host is alone with its own, nothing is due.
        if any(self._owner(self._items[each].object) != pending.host for each in composed.ids):
            pending.touch(self.name, f"of {key}", Several(composed.ids, topic=key))

    def _message(self, object_id: str) -> tuple[bytes, str]:
        item = self._items[object_id]
        return item.message(), self._owner(item.object)

    def _ids(self, key: str) -> Iterable[str]:
        return self._by_key.get(key, ())

    def _owner(self, value: T) -> str:
        """The host that does not get the object, though it has the topic."""
        return ""

    def composed(self, host: str, due: Several) -> Part | None:
        composed = self._composed.get(due.topic)
        if composed is None or composed.ids is not due.ids or not self._subscriptions.has(host, self.name, due.topic):
            return None
        return composed.part(due.start)

    def items(self, host: str) -> Iterable[Item[T]]:
        keys = self._subscriptions.keys(host, self.name)
        return [item for key in keys if key in self._by_key for item in self._by_key[key].values()]


class HostObjects(Store):
    """A value per host; the host receives it without a subscription."""

    def __init__(self, inputs: StoreInputs) -> None:
        super().__init__(inputs)
        self._additional: dict[str, Mapping[str, Object]] = {}  # id → host → object, from other rules than the record
        self._values: dict[str, Mapping[str, Object]] = {}  # from records
        # Both, by host and id; the record's value prevails.
        self._items: defaultdict[str, dict[str, Item[Object]]] = defaultdict(dict)

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
            items = self._items[host]
            value, old = values.get(host) or additional.get(host), items.get(key)
            if old is not None and old.object == value:  # another host's copy changed, as in a live migration
                continue
            if value is None:
                del items[key]
            else:
                items[key] = Item(self.name, value, is_shared=False)
            self._watchers.touch([host], self.name, key)
            self._subscriptions.refer(host, (self.name, key), self._references(value))

    def lookup(self, host: str, key: str) -> Item[Object] | None:
        return self._items[host].get(key) if host in self._items else None

    def items(self, host: str) -> Iterable[Item[Object]]:
        return self._items[host].values() if host in self._items else ()

    def total(self, host: str) -> str:
        return text_of(sum(item.number for item in self.items(host)))


class Fanout:
    def __init__(self, kinds: Sequence[ServedKind]) -> None:
        self.position = 0  # of the change log
        self._records: defaultdict[str, dict[str, Any]] = defaultdict(dict)  # by source and id
        self._deleted_ports: dict[str, str] = {}  # with their networks
        self._watchers = Watchers()
        self._subscriptions = Subscriptions(lambda host, kind, key: self._stores[kind].notify(host, key))
        self._stores: dict[str, Store] = {
            served.name: served.store(StoreInputs(served, kinds, self._subscriptions, self._watchers))
            for served in kinds
        }
        self._sources: defaultdict[str, list[Take]] = defaultdict(list)  # what takes the records of a source
        for served in kinds:
            self._sources[served.source].append(self._stores[served.name].put)
        ports = self._stores["port"]
        assert isinstance(ports, HostObjects)
        self._dhcp = DhcpScope(self._records, self._subscriptions, ports.put_additional)
        self._sources["network"].append(self._dhcp.put_network)
        self._sources["agent"].append(self._dhcp.put_agent)
        self._sources["port"].append(self._dhcp.put_port)

    def apply(self, records: Records, requests: Mapping[Topic, str] = NO_REQUESTS) -> None:
        """Take new values of records; None: the object was deleted. `requests`: what caused changes, by kind and id."""
        cause = self._watchers.cause
        # Records that are read because of others, as a router because of its port, have the request of the batch, if it is
        # one: under load there are several, and a wrong one would be worse than none.
        several = set(requests.values())
        common = several.pop() if len(several) == 1 else ""
        for source, takers in self._sources.items():
            changed = list(self._replaced(source, records.get(source, {})))
            # Store by store, not record by record: at the start, with all records, each store stays in the processor's
            # caches, which saves a third of the time.
            for take in takers:
                for key, before, record in changed:
                    cause.request_id = requests.get((source, key), common) if requests else ""
                    take(key, before, record)
        # Once per batch: a network created with its ports would otherwise be recomputed for each of them.
        cause.request_id = common
        self._dhcp.recompute()
        cause.request_id = ""

    def _replaced(self, source: str, records: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Hold these records; those that differ from what was held, with the value before."""
        known = self._records[source]
        for key, record in records.items():
            before = known.get(key)
            if before == record:  # a change that no host sees, such as of a status or a tag
                continue
            if record is None:
                del known[key]
                if source == "port" and before is not None:
                    self._remember_network(key, before.network_id)
            else:
                known[key] = record
            yield key, before, record

    def watch(self, source: str, take: Take) -> Mapping[str, Any]:
        """Call `take` with the id and the values of each record of a source that changes; returns all of them, by id."""
        self._sources[source].append(take)
        return self._records[source]

    def networks_of(self, port_ids: Collection[str]) -> frozenset[str]:
        """The networks of these ports as last applied: also of ports that the database has no longer.

        Also of ports that are known to be deleted: a batch is not one snapshot of the database. If a port is deleted while
        an earlier change of it is read, its router may have been read before, still on the port's host, and the port after.
        The row of the deletion comes in the next batch, and must find the router by the network once more.
        """
        ports, deleted = self._records["port"], self._deleted_ports
        held = (ports[key].network_id if key in ports else deleted.get(key) for key in port_ids)
        return frozenset(network_id for network_id in held if network_id is not None)

    def _remember_network(self, port_id: str, network_id: str) -> None:
        self._deleted_ports.pop(port_id, None)  # the dict is in order of time
        self._deleted_ports[port_id] = network_id
        if len(self._deleted_ports) > DELETED_PORTS:
            del self._deleted_ports[next(iter(self._deleted_ports))]

    def objects(self, host: str, roles: Sequence[str]) -> Iterator[tuple[str, Object]]:
        """Everything that a host with these roles should have, with the kind."""
        for kind, store in self._stores.items():
            for value in store.objects(host) if store.kind.is_for(roles) else ():
                yield kind, value

    # --- connections ----------------------------------------------------------------------------------------------

    def connect(
        self,
        host: str,
        have: Mapping[str, Mapping[str, str]],
        roles: Sequence[str] = ROLES,
        wake: Callable[[], None] = lambda: None,
    ) -> Pending:
        """The queue of a host, in which everything is due that differs from what the host has. Changes call `wake`."""
        pending = self._watch(host, roles, wake)
        self.compare(pending, have, [*self._stores, *(kind for kind in have if kind not in self._stores)])
        return pending

    def resume(
        self, host: str, sums: Mapping[str, str], roles: Sequence[str], wake: Callable[[], None]
    ) -> tuple[Pending, list[str]]:
        """The queue of a host that states one sum per kind, and the kinds that have to be compared one by one.

        Changes are queued from now on: the host's answer takes a moment.
        """
        pending = self._watch(host, roles, wake)
        wanted = {kind: self._stores[kind].total(host) for kind in pending.kinds}
        unknown = sums.keys() - wanted.keys()  # of a later release, or for roles that the host has no more
        differs = [kind for kind, number in wanted.items() if sums.get(kind, NOTHING) != number]
        return pending, [*differs, *sorted(unknown)]

    def compare(self, pending: Pending, have: Mapping[str, Mapping[str, str]], kinds: Iterable[str]) -> None:
        """Queue what differs from the digests that the host has of these kinds."""
        for kind in kinds:
            store = self._stores.get(kind)
            has = have.get(kind, {})
            if store is None:  # of a later release: the host drops it
                for key in has:
                    pending.touch(kind, key)
                continue
            # Nothing of kinds for other roles: a host drops what it got while its credential still had the role.
            is_for_host = kind in pending.kinds
            if is_for_host and not has:
                store.touch_all(pending)
                continue
            wanted = store.digests(pending.host) if is_for_host else {}
            if wanted != has:
                for key in {*wanted, *has}:
                    if wanted.get(key) != has.get(key):
                        store.touch(pending, key)

    def _watch(self, host: str, roles: Sequence[str], wake: Callable[[], None]) -> Pending:
        kinds = frozenset(kind for kind, store in self._stores.items() if store.kind.is_for(roles))
        pending = Pending(host, kinds, wake, cause=self._watchers.cause)
        self._watchers.add(pending)
        return pending

    def disconnect(self, pending: Pending) -> None:
        self._watchers.remove(pending)

    def next_frame(self, pending: Pending) -> tuple[bytes, bool]:
        """The next frame for a host, and whether nothing is due after it: then `synced` is its last message."""
        if (data := next_compressed(self._stores, pending)) is not None:
            return data, False  # `synced` is in a plain frame after it
        parts = next_messages(self._stores, pending)
        is_last = not pending.due
        if is_last:
            entries = self._stores["forwarding"]
            digests = {network_id: entries.digest(pending.host, network_id) for network_id in pending.digests}
            pending.digests.clear()
            parts.append(encode_one(Synced(position=self.position, entries=digests)))
        return frame(parts), is_last
