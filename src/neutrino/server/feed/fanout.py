"""Fan-out: holds all records in memory, and marks for each connected host what a change makes due. Pure.

The feed process reads the database once, then only what the change log names. `apply` compares each record's old and new
value; the stores and the subscription index find the hosts concerned, so a change costs nothing for all others. Objects
are looked up when a frame is built. One thread owns it; there is no clock and no I/O.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import islice
from typing import Any, Final, cast

from neutrino.feed.messages import MAX_MEMBERS, Entries, Members, Synced, encode_one, frame
from neutrino.model.state import Object
from neutrino.server.feed.dhcp_scope import DhcpScope
from neutrino.server.feed.encoding import gone
from neutrino.server.feed.kinds import SERVED_KINDS
from neutrino.server.feed.pending import MemberDifference, Pending, Watchers
from neutrino.server.feed.records import Records
from neutrino.server.feed.stores import ForwardingEntries, HostObjects, MemberSets, ServedKind, Store
from neutrino.server.feed.subscriptions import Subscriptions

FRAME_BYTES: Final = 64 * 1024  # a frame is closed at this size, so that one host does not hold up the others


class Fanout:
    def __init__(self, kinds: Sequence[ServedKind] = SERVED_KINDS) -> None:
        _check_acyclic(kinds)
        self.position = 0  # of the change log
        self._records: defaultdict[str, dict[str, Any]] = defaultdict(dict)  # by source and id
        self._watchers = Watchers()
        self._subscriptions = Subscriptions(lambda host, kind, key: self._stores[kind].notify(host, key))
        self._stores: dict[str, Store] = {
            served.name: served.store(served, kinds, self._subscriptions, self._watchers) for served in kinds
        }
        self._sources: defaultdict[str, list[Any]] = defaultdict(list)  # what takes the records of a source
        for served in kinds:
            self._sources[served.source].append(self._stores[served.name].put)
        self._by_roles: dict[tuple[str, ...], dict[str, Store]] = {}  # the stores of the kinds that a host receives
        self._entries = cast(ForwardingEntries, self._stores["forwarding"])
        self._members = cast(MemberSets, self._stores["group_members"])
        self._dhcp = DhcpScope(self._subscriptions, cast(HostObjects, self._stores["port"]))
        self._sources["network"].append(self._dhcp.put_network)
        self._sources["agent"].append(self._dhcp.put_agent)
        self._sources["port"].append(self._dhcp.put_port)

    def apply(self, records: Records) -> None:
        """Take new values of records; None: the object was deleted."""
        for source, takers in self._sources.items():
            known = self._records[source]
            for key, record in records.get(source, {}).items():
                before = known.get(key)
                if before == record:
                    continue
                if record is None:
                    del known[key]
                else:
                    known[key] = record
                for take in takers:
                    take(key, before, record)
        self._dhcp.settle()

    def networks_of(self, port_ids: Collection[str]) -> frozenset[str]:
        """The networks of these ports as last applied: also of ports that the database has no longer."""
        ports = self._records["port"]
        return frozenset(ports[key].network_id for key in port_ids if key in ports)

    # --- what a host should have ----------------------------------------------------------------------------------

    def objects(self, host: str, roles: Sequence[str]) -> Iterator[tuple[str, Object]]:
        """Everything that a host with these roles should have, with the kind."""
        for kind, store in self._stores_for(roles).items():
            for value in store.objects(host):
                yield kind, value

    def _stores_for(self, roles: Sequence[str]) -> dict[str, Store]:
        """Kept by roles: every frame to every host needs them, and hosts have few combinations of roles."""
        key = tuple(roles)
        if key not in self._by_roles:
            self._by_roles[key] = {kind: store for kind, store in self._stores.items() if store.kind.is_for(key)}
        return self._by_roles[key]

    # --- connections ----------------------------------------------------------------------------------------------

    def connect(self, pending: Pending, have: Mapping[str, Mapping[str, str]]) -> None:
        """Watch a host, and mark everything in which what it has differs from what it should have."""
        self._watchers.add(pending)
        for kind, store in self._stores.items():
            wanted = store.digests(pending.host) if store.kind.is_for(pending.roles) else {}
            has = have.get(kind, {})
            if wanted != has:
                for key in {*wanted, *has}:
                    if wanted.get(key) != has.get(key):
                        store.touch(pending, key)
        for kind in have.keys() - self._stores.keys():  # of a later release: the host drops it
            for key in have[kind]:
                pending.touch(kind, key)

    def disconnect(self, pending: Pending) -> None:
        self._watchers.remove(pending)

    def next_frame(self, pending: Pending) -> tuple[bytes, bool]:
        """The next frame for a host, and whether nothing is due after it: then `synced` is its last message."""
        parts = self._next_messages(pending)
        is_last = not pending
        if is_last:
            parts.append(self._synced(pending))
        return frame(parts), is_last

    def _synced(self, pending: Pending) -> bytes:
        digests = {network_id: self._entries.digest(pending.host, network_id) for network_id in pending.digests}
        pending.digests.clear()
        return encode_one(Synced(position=self.position, entries=digests))

    def _next_messages(self, pending: Pending) -> list[bytes]:
        """Messages up to the size of a frame, removed from the queue."""
        parts: list[bytes] = []
        size = 0
        while pending.networks and size < FRAME_BYTES:
            network_id = next(iter(pending.networks))
            del pending.networks[network_id]
            ids = self._entries.entries(pending.host, network_id)
            for key in ids:
                pending.keys[self._entries.name, key] = None
            parts.append(encode_one(Entries(network_id=network_id, ids=tuple(ids))))
            size += len(parts[-1])
        while pending.members and size < FRAME_BYTES:
            group_id = next(iter(pending.members))
            messages = self._member_messages(pending.host, group_id, pending.members.pop(group_id))
            parts += messages
            size += sum(map(len, messages))
        if size < FRAME_BYTES:
            parts += self._object_messages(pending, FRAME_BYTES - size)
        return parts

    def _object_messages(self, pending: Pending, room: int) -> list[bytes]:
        parts: list[bytes] = []
        stores = self._stores_for(pending.roles)
        for kind, key in pending.keys:
            store = stores.get(kind)
            item = store.lookup(pending.host, key) if store is not None else None
            parts.append(gone(kind, key) if item is None else item.encoded())
            room -= len(parts[-1])
            if room <= 0:
                break
        if len(parts) == len(pending.keys):
            pending.keys.clear()
        else:
            for sent in list(islice(pending.keys, len(parts))):
                del pending.keys[sent]
        return parts

    def _member_messages(self, host: str, group_id: str, difference: MemberDifference | None) -> list[bytes]:
        members = self._members.members(host, group_id)
        if members is None:
            return [gone(self._members.name, group_id)]
        if difference is None or len(difference.added) + len(difference.removed) > MAX_MEMBERS:
            return members.encoded(group_id)
        if not difference.added and not difference.removed:
            return []
        added, removed = tuple(difference.added), tuple(difference.removed)
        return [encode_one(Members(id=group_id, added=added, removed=removed, digest=members.digest))]


def _check_acyclic(kinds: Sequence[ServedKind]) -> None:
    """Objects that refer to each other in a circle would keep each other subscribed for ever (graphlib.CycleError)."""
    TopologicalSorter({kind.name: kind.referenced_by.keys() for kind in kinds}).prepare()
