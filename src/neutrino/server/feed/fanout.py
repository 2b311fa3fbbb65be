"""Fan-out: holds all records in memory, and marks for each connected host what a change makes due. Pure.

The feed process reads the database once, then only what the change log names. `apply` compares each record's old and new
value; the stores and the subscription index find the hosts concerned, so a change costs nothing for all others. Objects
are looked up when a frame is built. One thread owns it; there is no clock and no I/O.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from neutrino.feed.digests import text_of
from neutrino.feed.messages import MAX_BYTES, Synced, encode_gone, encode_one, frame, with_request_id
from neutrino.model.roles import ROLES
from neutrino.model.state import Object
from neutrino.server.feed.dhcp_scope import DhcpScope
from neutrino.server.feed.queues import MemberDifference, Parts, Pending, Several, Watchers
from neutrino.server.feed.records import Records
from neutrino.server.feed.stores import ForwardingEntries, HostObjects, ServedKind, Store
from neutrino.server.feed.subscriptions import Subscriptions, Topic

LOG = logging.getLogger(__name__)
NOTHING: Final = text_of(0)  # the sum over no object
NO_REQUESTS: Final[Mapping[Topic, str]] = {}
FRAME_BYTES: Final = 64 * 1024  # a frame is closed at this size, so that one host does not hold up the others
MAX_MESSAGE: Final = MAX_BYTES - 2 * FRAME_BYTES  # with what else is in its frame, and the digests of `synced`


class Fanout:
    def __init__(self, kinds: Sequence[ServedKind]) -> None:
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
        self._entries = cast(ForwardingEntries, self._stores["forwarding"])
        self._dhcp = DhcpScope(self._records, self._subscriptions, cast(HostObjects, self._stores["port"]))
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
            known = self._records[source]
            for key, record in records.get(source, {}).items():
                before = known.get(key)
                if before == record:  # a change that no host sees, such as of a status or a tag
                    continue
                if record is None:
                    del known[key]
                else:
                    known[key] = record
                cause.request_id = requests.get((source, key), common)
                for take in takers:
                    take(key, before, record)
        # Once per batch: a network created with its ports would otherwise be recomputed for each of them.
        cause.request_id = common
        self._dhcp.recompute()
        cause.request_id = ""

    def watch(self, source: str, take: Callable[[str, Any, Any], None]) -> Mapping[str, Any]:
        """Call `take` with the id and the values of each record of a source that changes; returns all of them, by id."""
        self._sources[source].append(take)
        return self._records[source]

    def networks_of(self, port_ids: Collection[str]) -> frozenset[str]:
        """The networks of these ports as last applied: also of ports that the database has no longer."""
        ports = self._records["port"]
        return frozenset(ports[key].network_id for key in port_ids if key in ports)

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
        parts: list[bytes] = []
        size = taken = 0
        for (kind, key), due in pending.due.items():
            rest: Several | Parts | MemberDifference | None = None
            if due is None:
                item = self._stores[kind].lookup(pending.host, key) if kind in pending.kinds else None
                messages: Sequence[bytes] = (encode_gone(kind, key) if item is None else item.encoded(),)
            elif isinstance(due, Several):
                messages, rest = self._stores[kind].several(pending, due)
            else:
                parts_due = due if isinstance(due, Parts) else Parts(self._stores[kind].messages(pending, key, due))
                messages, rest = parts_due.next(FRAME_BYTES)
            if request_id := pending.requests.get((kind, key)):
                messages = [with_request_id(message, request_id) for message in messages]
            length = sum(map(len, messages))
            if length > MAX_MESSAGE:
                messages = _without_large(messages, pending.host, kind, key)
                length = sum(map(len, messages))
            parts += messages
            size += length
            if rest is not None:
                pending.due[kind, key] = rest
                break
            taken += 1
            if size >= FRAME_BYTES:
                break
        pending.remove_first(taken)
        is_last = not pending.due
        if is_last:
            digests = {network_id: self._entries.digest(pending.host, network_id) for network_id in pending.digests}
            pending.digests.clear()
            parts.append(encode_one(Synced(position=self.position, entries=digests)))
        return frame(parts), is_last


def _without_large(messages: Sequence[bytes], host: str, kind: str, key: str) -> list[bytes]:
    """Messages without those that no frame can have: the host would close its connection, and every next one."""
    sent = [message for message in messages if len(message) <= MAX_MESSAGE]
    if len(sent) < len(messages):
        LOG.error("%s %s is too large to be sent: host %s keeps what it has of it", kind, key, host)
    return sent
