"""What a lean host keeps of its objects: their digests, shared by all hosts of a process. Pure.

A thousand hosts of one network receive the same thousand forwarding entries and peers. A table of the process has each of
them once, by id and digest, and a host has one byte for each row: a million objects cost a megabyte. That is enough for
`hello`, and for the sum of the digests, which the server states for each network: it differs if one entry is missing,
superfluous or outdated.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

import msgspec

from neutrino.feed.digests import total

ENTRIES, PEERS, MEMBERS = "forwarding", "host", "group_members"


class Identified(msgspec.Struct):
    id: str
    network_id: str = ""
    revision: int = 0


class Put(msgspec.Struct, tag_field="type", tag="put"):
    kind: str
    object: Identified
    digest: str = ""


class Gone(msgspec.Struct, tag_field="type", tag="gone"):
    kind: str
    id: str


class Members(msgspec.Struct, tag_field="type", tag="members"):
    id: str
    digest: str = ""


class Entries(msgspec.Struct, tag_field="type", tag="entries"):
    network_id: str
    ids: list[str] = []


class Synced(msgspec.Struct, tag_field="type", tag="synced"):
    position: int
    entries: dict[str, str] = {}


class Welcome(msgspec.Struct, tag_field="type", tag="welcome"):
    version: int = 1
    compare: list[str] = []


class Refused(msgspec.Struct, tag_field="type", tag="refused"):
    reason: str


class Ack(msgspec.Struct, tag_field="type", tag="ack"):
    serial: int


class Problem(msgspec.Struct, tag_field="type", tag="error"):
    text: str = ""


class Query(msgspec.Struct, tag_field="type", tag="query"):
    id: str


ServerMessage = Put | Gone | Members | Entries | Synced | Welcome | Refused | Ack | Problem | Query
decode = msgspec.json.Decoder(list[ServerMessage]).decode


class Table:
    """All objects of a group (the entries of a network, or all peers) that any host of this process has received."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []  # id and digest
        self.numbers: list[int] = []  # digests as numbers
        self._index: dict[tuple[str, str], int] = {}
        self._versions: dict[str, list[int]] = {}  # rows of an id

    def row(self, key: str, digest: str) -> int:
        found = self._index.get((key, digest))
        if found is None:
            found = self._index[key, digest] = len(self.rows)
            self.rows.append((key, digest))
            self.numbers.append(int(digest, 16))
            self._versions.setdefault(key, []).append(found)
        return found

    def versions(self, key: str) -> list[int]:
        return self._versions.get(key, [])


class Tables(dict[str, Table]):
    """By network id for entries; PEERS for hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.network_of: dict[str, str] = {}  # of forwarding entries: `gone` has only their ids

    def __missing__(self, name: str) -> Table:
        made = self[name] = Table()
        return made


class Held:
    """The rows of a table that one host has."""

    __slots__ = ("_has", "_table")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._has = bytearray()

    def put(self, key: str, digest: str) -> bool:
        """Whether the host had no version of it."""
        row = self._table.row(key, digest)
        if row >= len(self._has):
            self._has.extend(bytes(len(self._table.rows) - len(self._has)))
        is_new = True
        versions = self._table.versions(key)
        if len(versions) > 1 or self._has[row]:
            for other in versions:
                if other < len(self._has) and self._has[other]:
                    is_new, self._has[other] = False, 0
        self._has[row] = 1
        return is_new

    def drop(self, key: str) -> bool:
        """Whether the host had it."""
        had = [row for row in self._table.versions(key) if row < len(self._has) and self._has[row]]
        for row in had:
            self._has[row] = 0
        return bool(had)

    def keep_only(self, keys: Iterable[str]) -> None:
        kept = set(keys)
        for row, (key, _) in enumerate(self._table.rows[: len(self._has)]):
            if self._has[row] and key not in kept:
                self._has[row] = 0

    def digests(self) -> dict[str, str]:
        return dict(compress(self._table.rows, self._has))

    def total(self) -> str:
        """The digest of the set: the sum of its members'."""
        return f"{sum(compress(self._table.numbers, self._has)) % (1 << 64):016x}"

    def __len__(self) -> int:
        return self._has.count(1)


class LeanState:
    """The state of one host."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._others: dict[str, dict[str, str]] = {}  # kind → id → digest
        self._held: dict[str, Held] = {}
        self.entries: dict[str, str] = {}  # network → digest of its entries; empty: unknown until `synced`

    def put(self, message: Put) -> bool:
        """Whether the object is new here."""
        kind, value = message.kind, message.object
        if kind == ENTRIES:
            self.entries[value.network_id] = ""
            self._tables.network_of[value.id] = value.network_id
            return self._of(value.network_id).put(value.id, message.digest)
        if kind == PEERS:
            return self._of(PEERS).put(value.id, message.digest)
        known = self._others.setdefault(kind, {})
        is_new = value.id not in known
        known[value.id] = message.digest
        return is_new

    def _of(self, name: str) -> Held:
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = Held(self._tables[name])
        return held

    def gone(self, kind: str, key: str) -> None:
        if kind == ENTRIES:
            network = self._tables.network_of.get(key, "")  # unknown: of a port of this host, which it never gets
            if network in self._held and self._held[network].drop(key):
                self.entries[network] = ""
        elif kind == PEERS:
            self._of(PEERS).drop(key)
        else:
            self._others.get(kind, {}).pop(key, None)

    def members(self, message: Members) -> None:
        self._others.setdefault(MEMBERS, {})[message.id] = message.digest

    def keep_only(self, message: Entries) -> None:
        self.entries[message.network_id] = ""
        self._of(message.network_id).keep_only(message.ids)

    def synced(self, message: Synced) -> None:
        for network, digest in message.entries.items():
            if digest:
                self.entries[network] = digest
            else:
                self.entries.pop(network, None)
                self._held.pop(network, None)

    def have(self) -> dict[str, dict[str, str]]:
        """For `hello`."""
        peers = self._held[PEERS].digests() if PEERS in self._held else {}
        found = {**self._others, PEERS: peers, ENTRIES: self.entries}
        return {kind: keys for kind, keys in found.items() if keys}

    def sums(self) -> dict[str, str]:
        """For `hello`: the sum of these digests per kind."""
        found = {**self._others, ENTRIES: self.entries}
        sums = {kind: total(kind, digests) for kind, digests in found.items() if digests}
        return {**sums, PEERS: self._held[PEERS].total()} if PEERS in self._held else sums

    def summary(self) -> dict[str, dict[str, str]]:
        """By kind and id: digests; of entries by network, and of all peers, the digest of the set."""
        found = {
            **self._others,
            PEERS: {"": self._of(PEERS).total()},
            ENTRIES: {network: self._of(network).total() for network in self.entries},
        }
        return {kind: keys for kind, keys in found.items() if keys}

    def __len__(self) -> int:
        return sum(map(len, self._others.values())) + sum(map(len, self._held.values()))
