"""A host's copy of its objects: desired state as the server sent it, and the changes that no role has taken yet. Pure.

`put` takes effect at once. A deletion takes effect only once the server has sent `synced` in this connection: before that
the host cannot know whether it has received everything, and deleting on a partial snapshot would cut off instances that
still exist. Changes are coalesced: a slow consumer gets each object once, as it is now, with the value it last saw.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from neutrino.feed.digests import digest_of_type, total
from neutrino.feed.messages import Cursor, Entries, Gone, Members, Put, ServerMessage, Synced, Welcome
from neutrino.model.fields import fault
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.state import GroupMembers, Member, Object

Key = tuple[str, str]  # kind, id
MAX_NAME, MAX_PROBLEMS = 255, 1000  # bounds on what invalid messages add to memory and reports
ENTRIES, MEMBERS = "forwarding", "group_members"  # the two kinds with messages of their own


@dataclass(frozen=True, slots=True)
class StateChange:
    """One object before and after, of the type that the kind declares; None: it does not exist."""

    kind: str
    id: str
    old: Any
    new: Any
    request_id: str = ""  # of the newest API request that caused it; empty: unknown, or none


class _Identified(msgspec.Struct):
    """The part of a malformed object that still identifies it."""

    id: str


class _CacheFile(msgspec.Struct):
    cursor: Cursor | None
    objects: dict[str, list[msgspec.Raw]]
    digests: dict[str, dict[str, str]]
    entries: dict[str, str]
    # By kind the digest of its type. An agent drops fields that its release does not know and keeps the digest of the
    # whole object: after its upgrade the server would find no difference, and never send them.
    types: dict[str, str] = msgspec.field(default_factory=dict)


class State:
    def __init__(
        self, kinds: Mapping[str, Kind] = KINDS, on_problem: Callable[[str, str, str], None] = lambda *problem: None
    ) -> None:
        """`on_problem` is called with kind, id and reason of each new problem."""
        self._kinds = kinds
        self._decoders = {kind.name: msgspec.json.Decoder(kind.type) for kind in kinds.values()}
        self._types = {kind.name: digest_of_type(kind.type) for kind in kinds.values()}
        self.objects: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}  # of the type that the kind declares
        self.cursor: Cursor | None = None
        self.is_synced = False
        self._database = ""
        self._digests: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
        # Large groups of which the last part has not arrived: roles must not see a part, which admits too few addresses.
        self._partial: dict[str, tuple[GroupMembers, bool]] = {}  # by id; and whether all members were valid
        self._entries: dict[str, str] = {}  # network id → digest of its forwarding entries; empty: unknown
        self._deletions: dict[Key, str] = {}  # deferred until `synced`, with their request ids
        self._changed: dict[Key, Object | None] = {}  # → the value when the change was last taken
        self._requests: dict[Key, str] = {}  # ids of the requests that caused pending changes
        # Invalid objects with the reason. The last valid value stays in place: a malformed update must not remove a port.
        self.problems: dict[Key, str] = {}
        self._on_problem = on_problem

    def get(self, kind: str, key: str) -> Any:
        """The object, or None."""
        return self.objects[kind].get(key)

    # --- messages -------------------------------------------------------------------------------------------------

    def disconnected(self) -> None:
        """Forget deferred deletions: the next connection compares everything again."""
        self.is_synced = False
        self._deletions.clear()
        self._partial.clear()

    def apply(self, message: ServerMessage) -> None:
        """Apply one message; kinds that this release does not know are ignored."""
        match message:
            case Welcome():
                self.disconnected()
                self.problems.clear()  # invalid objects have no digest here, so the server sends them again
                self._database = message.database
            case Put():
                self._put(message)
            case Gone():
                self._delete(message.kind, message.id, message.request_id)
            case Members():
                self._change_members(message)
            case Entries():
                self._keep_only(message)
            case Synced():
                self._synced(message)

    def _put(self, message: Put) -> None:
        kind = message.kind
        value, is_complete = self._decode(kind, message.object) if kind in self._decoders else (None, False)
        if value is None:
            return
        self._deletions.pop((kind, value.id), None)  # `gone`, and then back in scope before `synced`
        if isinstance(value, GroupMembers):
            self._partial.pop(value.id, None)
            if not message.digest:
                self._partial[value.id] = value, is_complete
                return
        self._set(kind, value.id, value, message.request_id)
        if kind == ENTRIES:
            # Unknown until `synced`: a connection lost before that must not leave a partial set with a valid digest.
            self._entries[value.network_id] = ""  # type: ignore[attr-defined]
        else:  # a group without its invalid members is not what the digest stands for
            self._digests[kind][value.id] = message.digest if is_complete else ""

    def _delete(self, kind: str, key: str, request_id: str) -> None:
        if kind == MEMBERS:
            self._partial.pop(key, None)
        if kind not in self.objects or (key not in self.objects[kind] and (kind, key) not in self.problems):
            return
        if not self.is_synced:
            self._deletions[kind, key] = request_id
            return
        self.problems.pop((kind, key), None)
        if key not in self.objects[kind]:
            return
        if kind == ENTRIES:
            self._entries[self.objects[kind][key].network_id] = ""
        self._set(kind, key, None, request_id)
        self._digests[kind].pop(key, None)

    def _change_members(self, message: Members) -> None:
        known, is_complete = self._partial.pop(message.id, (self.objects[MEMBERS].get(message.id), True))
        if not isinstance(known, GroupMembers):  # it was invalid: the next connection sends all of it
            return
        added, reason = _valid_members(frozenset(message.added))
        if reason:
            self._add_problem(MEMBERS, message.id, reason)
        changed = msgspec.structs.replace(known, members=(known.members - frozenset(message.removed)) | added)
        is_complete = is_complete and not reason
        if not message.digest:
            self._partial[message.id] = changed, is_complete
            return
        self._set(MEMBERS, message.id, changed, message.request_id)
        # Without the invalid members the digest does not match: the next connection sends the whole group again.
        self._digests[MEMBERS][message.id] = message.digest if is_complete else ""

    def _keep_only(self, message: Entries) -> None:
        self._entries[message.network_id] = ""
        present = [key for key, e in self.objects[ENTRIES].items() if e.network_id == message.network_id]
        kept = set(message.ids)
        for key in present:
            if key not in kept:
                self._delete(ENTRIES, key, message.request_id)
            else:
                self._deletions.pop((ENTRIES, key), None)

    def _synced(self, message: Synced) -> None:
        self.is_synced = True
        deletions, self._deletions = self._deletions, {}
        for (kind, key), request_id in deletions.items():
            self._delete(kind, key, request_id)
        for network_id, digest in message.entries.items():
            if digest:
                self._entries[network_id] = digest
            else:
                self._entries.pop(network_id, None)
        self.cursor = Cursor(self._database, message.position)  # not before: it stands for a whole scope

    # --- a server that is not accepted yet ------------------------------------------------------------------------

    def copy(self) -> "State":
        """The same objects, for the messages of a server whose objects no role is to see yet."""
        made = State(self._kinds, self._on_problem)
        made.objects = {kind: dict(objects) for kind, objects in self.objects.items()}
        made.cursor = self.cursor
        made._digests = {kind: dict(digests) for kind, digests in self._digests.items()}
        made._entries = dict(self._entries)
        made.problems = dict(self.problems)
        return made

    def adopt(self, other: "State") -> None:
        """Become the copy, which has received `synced`: what differs are changes. The copy is not used any more."""
        for kind, objects in other.objects.items():
            gone = [key for key in self.objects[kind] if key not in objects]
            for key in (*objects, *gone):
                self._set(kind, key, objects.get(key), other._requests.get((kind, key), ""))
        self._digests, self._entries, self.problems = other._digests, other._entries, other.problems
        self._database, self.cursor, self.is_synced = other._database, other.cursor, other.is_synced
        self._deletions.clear()

    # --- validation -----------------------------------------------------------------------------------------------

    def _decode(self, kind: str, data: msgspec.Raw) -> tuple[Object | None, bool]:
        """The object, or None if it is invalid: a problem of this object and of no other. And whether it is complete."""
        value, reason = None, ""
        try:
            decoded = self._decoders[kind].decode(data)
            if isinstance(decoded, GroupMembers):
                members, reason = _valid_members(decoded.members)
                decoded = msgspec.structs.replace(decoded, members=members)
            wrong = fault(decoded)
            value, reason = (None, wrong) if wrong else (decoded, reason)
        except (ValueError, TypeError, RecursionError) as error:
            reason = str(error) or type(error).__name__
        if reason:
            self._add_problem(kind, value.id if value is not None else _identify(data), reason)
        elif value is not None:
            self.problems.pop((kind, value.id), None)
        return value, not reason

    def _add_problem(self, kind: str, key: str, reason: str) -> None:
        name = key[:MAX_NAME] if key.isprintable() else ascii(key)[:MAX_NAME]
        if self.problems.get((kind, name)) != reason and len(self.problems) < MAX_PROBLEMS:
            self.problems[kind, name] = reason
            self._on_problem(kind, name, reason)

    def problems_of(self, *kinds: str) -> dict[str, str]:
        """Return the problems of these kinds, for an agent's `problems`."""
        return {f"{kind} {key}": text for (kind, key), text in self.problems.items() if kind in kinds}

    # --- changes --------------------------------------------------------------------------------------------------

    def _set(self, kind: str, key: str, value: Object | None, request_id: str = "") -> None:
        old = self.objects[kind].get(key)
        if old == value:
            return
        if value is None:
            del self.objects[kind][key]
        else:
            self.objects[kind][key] = value
        self._changed.setdefault((kind, key), old)  # the value that the consumer last saw
        if request_id:
            self._requests[kind, key] = request_id

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def take(self) -> StateChange | None:
        """The oldest pending change; an object that is back at its old value is none."""
        while self._changed:
            kind, key = next(iter(self._changed))
            old = self._changed.pop((kind, key))
            new, request_id = self.objects[kind].get(key), self._requests.pop((kind, key), "")
            if old != new:
                return StateChange(kind, key, old, new, request_id)
        return None

    # --- digests and cache ----------------------------------------------------------------------------------------

    def have(self) -> dict[str, dict[str, str]]:
        """Return for `hello` the digest of every object, and one per network for forwarding entries."""
        digests = {kind: {key: self._digests[kind].get(key, "") for key in keys} for kind, keys in self.objects.items()}
        digests[ENTRIES] = {e.network_id: "" for e in self.objects[ENTRIES].values()} | self._entries
        return {kind: keys for kind, keys in digests.items() if keys}

    def sums(self) -> dict[str, str]:
        """Return for `hello` the sum of these digests per kind."""
        return {kind: total(kind, digests) for kind, digests in self.have().items()}

    def dump(self) -> bytes:
        """The content of the cache file."""
        raw = {
            kind: [msgspec.Raw(msgspec.json.encode(value)) for value in objects.values()]
            for kind, objects in self.objects.items()
        }
        return msgspec.json.encode(_CacheFile(self.cursor, raw, self._digests, self._entries, self._types))

    def load(self, data: bytes) -> None:
        """Fill a new state from the cache file: every object in it is a change."""
        saved = msgspec.json.decode(data, type=_CacheFile)
        for kind, objects in saved.objects.items():
            if kind not in self._decoders:
                continue
            for raw in objects:
                value, _ = self._decode(kind, raw)
                if value is not None:
                    self._set(kind, value.id, value)
            digests = saved.digests.get(kind, {}) if saved.types.get(kind) == self._types[kind] else {}
            # None for an invalid object, or one of another release's type: the server sends it again.
            self._digests[kind] = {key: digests[key] for key in self.objects[kind] if key in digests}
        has_entries = saved.types.get(ENTRIES) == self._types.get(ENTRIES)
        self._entries = dict(saved.entries) if has_entries else dict.fromkeys(saved.entries, "")
        self.cursor = saved.cursor


def _identify(data: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(data, type=_Identified).id
    except (ValueError, RecursionError):
        return "?"


def _valid_members(members: frozenset[Member]) -> tuple[frozenset[Member], str]:
    """Without invalid ones, and the fault of one of these, if any.

    Refusing the whole update would keep admitting addresses that left the group.
    """
    invalid = {member: reason for member in members if (reason := fault(member, "members."))}
    return members - invalid.keys(), next(iter(invalid.values()), "")
