"""What a host knows: the objects that the server gave it, changed by messages and by nothing else. Pure.

Objects are put as they come. What is gone goes only when the server has said `synced` in this connection: until then the
host cannot know whether it has heard everything, so it keeps all it has. Every change is noted once, with what was
there when it was last taken: whoever carries changes out slowly sees the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from neutrino.feed.messages import Cursor, Entries, Gone, Members, Put, ServerMessage, Synced, Welcome
from neutrino.model.checks import fault, member_fault
from neutrino.model.kinds import KINDS
from neutrino.model.state import GroupMembers, Object

Key = tuple[str, str]
MOST_NAME, MOST_PROBLEMS = 255, 1000
_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()}


@dataclass(frozen=True, slots=True)
class StateChange:
    """One object before and after; None: not there."""

    kind: str
    id: str
    old: Object | None
    new: Object | None


class _Named(msgspec.Struct):
    """As much of an object as says which one it is."""

    id: str


class _Saved(msgspec.Struct):
    """The cache's file."""

    cursor: Cursor | None
    objects: dict[str, list[msgspec.Raw]]
    digests: dict[str, dict[str, str]]
    entries: dict[str, str]


class State:
    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.cursor: Cursor | None = None
        self.is_synced = False
        self._database = ""
        self._digests: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        self._entries: dict[str, str] = {}  # digests of networks' forwarding entries
        self._going: dict[Key, None] = {}  # gone as soon as we are synced
        self._changed: dict[Key, Object | None] = {}  # with what was there when the change was last taken
        # Objects that cannot be what their kind says, each with the reason: what was known of them before is kept.
        self.problems: dict[Key, str] = {}
        self._news: dict[Key, None] = {}  # problems that nobody has taken yet

    def get(self, kind: str, key: str) -> Any:
        """The object, or None."""
        return self.objects[kind].get(key)

    def __iter__(self) -> Iterator[Object]:
        for several in self.objects.values():
            yield from several.values()

    def __len__(self) -> int:
        return sum(map(len, self.objects.values()))

    # --- messages -------------------------------------------------------------------------------------------------

    def disconnected(self) -> None:
        """From here on nothing is known of what goes, until a server has said it all again."""
        self.is_synced = False
        self._going.clear()

    def apply(self, message: ServerMessage) -> None:
        """Take one message; those of kinds that this release does not know are passed over."""
        if isinstance(message, Welcome):
            self.disconnected()
            self.problems.clear()  # what is still wrong is sent again, as the host does not have it
            self._database = message.cursor.database
        elif isinstance(message, Put):
            self._put(message)
        elif isinstance(message, Gone):
            self._go(message.kind, message.id)
        elif isinstance(message, Members):
            self._members(message)
        elif isinstance(message, Entries):
            self._only(message)
        elif isinstance(message, Synced):
            self._synced(message)

    def _put(self, message: Put) -> None:
        if message.kind not in _decoders:
            return
        value = self._read(message.kind, message.object)
        if value is None:
            return
        self._going.pop((message.kind, value.id), None)
        self._set(message.kind, value.id, value)
        if isinstance(value, GroupMembers) and (message.kind, value.id) in self.problems:
            self._digests[message.kind][value.id] = ""  # it is not all that the digest says
        elif message.kind == "forwarding":
            self._entries[value.network_id] = ""  # type: ignore[attr-defined]
        else:
            self._digests[message.kind][value.id] = message.digest

    def _go(self, kind: str, key: str) -> None:
        if kind not in KINDS or (key not in self.objects[kind] and (kind, key) not in self.problems):
            return
        if not self.is_synced:
            self._going[kind, key] = None
            return
        self.problems.pop((kind, key), None)
        if key not in self.objects[kind]:
            return
        if kind == "forwarding":
            self._entries[self.objects[kind][key].network_id] = ""  # type: ignore[attr-defined]
        self._set(kind, key, None)
        self._digests[kind].pop(key, None)

    def _members(self, message: Members) -> None:
        known = self.objects["group_members"].get(message.id)
        if isinstance(known, GroupMembers):
            added = self._usable(GroupMembers(id=message.id, members=frozenset(message.added))).members
            members = (known.members - frozenset(message.removed)) | added
            self._set("group_members", message.id, msgspec.structs.replace(known, members=members))
            # Without all of them it is not what the digest says: the whole group comes again with the next connection.
            self._digests["group_members"][message.id] = message.digest if len(added) == len(message.added) else ""

    def _only(self, message: Entries) -> None:
        self._entries[message.network_id] = ""
        here = [key for key, e in self.objects["forwarding"].items() if e.network_id == message.network_id]  # type: ignore[attr-defined]
        stay = set(message.ids)
        for key in here:
            if key not in stay:
                self._go("forwarding", key)
            else:
                self._going.pop(("forwarding", key), None)

    def _synced(self, message: Synced) -> None:
        self.is_synced = True
        going, self._going = self._going, {}
        for kind, key in going:
            self._go(kind, key)
        for network_id, digest in message.entries.items():
            if digest:
                self._entries[network_id] = digest
            else:
                self._entries.pop(network_id, None)
        self.cursor = Cursor(self._database, message.position)

    def _read(self, kind: str, data: msgspec.Raw) -> Object | None:
        """The object, or None where it cannot be: that is its own problem, and of no other."""
        is_whole = True
        try:
            value = _decoders[kind].decode(data)
            if isinstance(value, GroupMembers):
                given = len(value.members)
                value = self._usable(value)
                is_whole = len(value.members) == given
            wrong = fault(value)
        except (ValueError, TypeError, RecursionError) as error:
            value, wrong = None, str(error) or type(error).__name__
        if not wrong and value is not None:
            if is_whole:
                self.problems.pop((kind, value.id), None)
            return value
        self._problem(kind, value.id if value is not None else _name(data), wrong)
        return None

    def _usable(self, group: GroupMembers) -> GroupMembers:
        """Members that cannot be are left out: a group that stayed as it was would let in those who have left it."""
        wrong = {member: reason for member in group.members if (reason := member_fault(member))}
        if wrong:
            self._problem("group_members", group.id, next(iter(wrong.values())))
            return msgspec.structs.replace(group, members=group.members - wrong.keys())
        return group

    def _problem(self, kind: str, key: str, reason: str) -> None:
        name = key[:MOST_NAME] if key.isprintable() else ascii(key)[:MOST_NAME]
        if self.problems.get((kind, name)) != reason and len(self.problems) < MOST_PROBLEMS:
            self.problems[kind, name] = reason
            self._news[kind, name] = None

    def take_problems(self) -> list[tuple[str, str, str]]:
        """Those that are new since they were last taken: kind, id and reason."""
        news, self._news = self._news, {}
        return [(kind, key, self.problems[kind, key]) for kind, key in news if (kind, key) in self.problems]

    def problems_of(self, *kinds: str) -> dict[str, str]:
        """For an agent's `problems`."""
        return {f"{kind} {key}": text for (kind, key), text in self.problems.items() if kind in kinds}

    def _set(self, kind: str, key: str, value: Object | None) -> None:
        old = self.objects[kind].get(key)
        if old == value:
            return
        if value is None:
            del self.objects[kind][key]
        else:
            self.objects[kind][key] = value
        self._changed.setdefault((kind, key), old)

    # --- changes --------------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def take(self) -> StateChange | None:
        """The change that waits longest; what came and went again meanwhile is none."""
        while self._changed:
            kind, key = next(iter(self._changed))
            old = self._changed.pop((kind, key))
            new = self.objects[kind].get(key)
            if old != new:
                return StateChange(kind, key, old, new)
        return None

    # --- what we have ---------------------------------------------------------------------------------------------

    def have(self) -> dict[str, dict[str, str]]:
        """For `hello`: what is here, by the digests that came with it."""
        out = {kind: {key: self._digests[kind].get(key, "") for key in several} for kind, several in self._keyed()}
        out["forwarding"] = {e.network_id: "" for e in self.objects["forwarding"].values()} | self._entries  # type: ignore[attr-defined]
        return {kind: keys for kind, keys in out.items() if keys}

    def _keyed(self) -> list[tuple[str, dict[str, Object]]]:
        return [(kind, several) for kind, several in self.objects.items() if kind != "forwarding"]

    def dump(self) -> bytes:
        """For the cache."""
        raw = {
            kind: [msgspec.Raw(msgspec.json.encode(o)) for o in several.values()]
            for kind, several in self.objects.items()
        }
        return msgspec.json.encode(_Saved(self.cursor, raw, self._digests, self._entries))

    def load(self, data: bytes) -> None:
        """From the cache, into a new state: everything in it is a change that nobody has taken yet."""
        saved = msgspec.json.decode(data, type=_Saved)
        for kind, several in saved.objects.items():
            if kind not in _decoders:
                continue
            for raw in several:
                value = self._read(kind, raw)
                if value is not None:
                    self._set(kind, value.id, value)
            digests = saved.digests.get(kind, {})
            self._digests[kind] = {key: digests[key] for key in self.objects[kind] if key in digests}
        self._entries = dict(saved.entries)
        self.cursor = saved.cursor


def _name(data: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(data, type=_Named).id
    except (ValueError, RecursionError):
        return "?"
