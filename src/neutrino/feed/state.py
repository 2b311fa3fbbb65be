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
from neutrino.model.kinds import KINDS
from neutrino.model.state import GroupMembers, Object

Key = tuple[str, str]
_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """One object before and after; None: not there."""

    kind: str
    id: str
    old: Object | None
    new: Object | None


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
        value = _decoders[message.kind].decode(message.object)
        self._going.pop((message.kind, value.id), None)
        self._set(message.kind, value.id, value)
        if message.kind == "forwarding":
            self._entries[value.network_id] = ""  # type: ignore[attr-defined]
        else:
            self._digests[message.kind][value.id] = message.digest

    def _go(self, kind: str, key: str) -> None:
        if kind not in KINDS or key not in self.objects[kind]:
            return
        if not self.is_synced:
            self._going[kind, key] = None
            return
        if kind == "forwarding":
            self._entries[self.objects[kind][key].network_id] = ""  # type: ignore[attr-defined]
        self._set(kind, key, None)
        self._digests[kind].pop(key, None)

    def _members(self, message: Members) -> None:
        known = self.objects["group_members"].get(message.id)
        if isinstance(known, GroupMembers):
            members = (known.members - frozenset(message.removed)) | frozenset(message.added)
            self._set("group_members", message.id, msgspec.structs.replace(known, members=members))
            self._digests["group_members"][message.id] = message.digest

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

    def take(self) -> Change | None:
        """The change that waits longest; what came and went again meanwhile is none."""
        while self._changed:
            kind, key = next(iter(self._changed))
            old = self._changed.pop((kind, key))
            new = self.objects[kind].get(key)
            if old != new:
                return Change(kind, key, old, new)
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
                value = _decoders[kind].decode(raw)
                self._set(kind, value.id, value)
            digests = saved.digests.get(kind, {})
            self._digests[kind] = {key: digests[key] for key in self.objects[kind] if key in digests}
        self._entries = dict(saved.entries)
        self.cursor = saved.cursor
