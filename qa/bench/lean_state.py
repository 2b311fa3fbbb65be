"""What a lean host keeps of its objects: their digests, shared by all hosts of a process. Pure.

A thousand hosts of one network receive the same thousand forwarding entries and peers. A table of the process has each of
them once, by id and digest, and a host has one byte for each row: a million objects cost a megabyte. That is enough for
`hello`, and for the sum of the digests, which the server states for each network: it differs if one entry is missing,
superfluous or outdated.

Frames that many hosts get alike are decoded once for all of them (`Block`): thousands of hosts, which do that on
processors of their own, are simulated on those of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress

import msgspec

from neutrino.feed.digests import total
from neutrino.feed.messages import expanded, is_compressed

ENTRIES, PEERS, MEMBERS = "forwarding", "host", "group_members"
LARGE = 16 * 1024  # bytes of a frame that is worth a look whether it is known


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


class Member(msgspec.Struct):
    ip_address: str


class Members(msgspec.Struct, tag_field="type", tag="members"):
    id: str
    digest: str = ""
    added: list[Member] = []
    removed: list[Member] = []


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
_decoder = msgspec.json.Decoder(list[ServerMessage])


def decode_frame(data: bytes) -> list[ServerMessage]:
    return _decoder.decode(expanded(data) if is_compressed(data) else data)


class Table:
    """All objects of a group (the entries of a network, or all peers) that any host of this process has received."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []  # id and digest
        self.numbers: list[int] = []  # digests as numbers
        self._index: dict[tuple[str, str], int] = {}
        self._versions: dict[str, list[int]] = {}  # rows of an id
        self.has_versions = False  # an object has changed since the first host has received it

    def row(self, key: str, digest: str) -> int:
        found = self._index.get((key, digest))
        if found is None:
            found = self._index[key, digest] = len(self.rows)
            self.rows.append((key, digest))
            self.numbers.append(int(digest, 16))
            versions = self._versions.setdefault(key, [])
            versions.append(found)
            self.has_versions = self.has_versions or len(versions) > 1
        return found

    def versions(self, key: str) -> list[int]:
        return self._versions.get(key, [])


class Block(tuple[tuple[str, int, int], ...]):
    """The objects of a frame: tables, and in each the first row and the end of a range of rows."""


class Tables(dict[str, Table]):
    """By network id for entries; PEERS for hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.network_of: dict[str, str] = {}  # of forwarding entries: `gone` has only their ids
        self.times_puts = False  # each new object is of interest, with its time
        self._seen: set[int] = set()  # hashes of frames that one host has received
        self._blocks: dict[bytes, Block] = {}  # by frame

    def __missing__(self, name: str) -> Table:
        made = self[name] = Table()
        return made

    def block(self, frame: bytes) -> Block | None:
        """The objects of a frame that another host has received too; None if it is new, or has other messages."""
        if self.times_puts or (len(frame) < LARGE and not is_compressed(frame)):
            return None
        block = self._blocks.get(frame)
        if block is None:
            if (number := hash(frame)) not in self._seen:
                self._seen.add(number)
                return None
            block = self._blocks[frame] = self._made(decode_frame(frame))
        return block or None

    def _made(self, messages: Iterable[ServerMessage]) -> Block:
        rows: dict[str, list[int]] = {}
        for message in messages:
            if not isinstance(message, Put) or message.kind not in (ENTRIES, PEERS):
                return Block()
            name = message.object.network_id if message.kind == ENTRIES else PEERS
            rows.setdefault(name, []).append(self[name].row(message.object.id, message.digest))
        return Block((name, start, end) for name, several in rows.items() for start, end in _ranges(several))


def _ranges(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The ranges that these rows make up."""
    start = end = -1
    for row in sorted(rows):
        if row != end:
            if end > start:
                yield start, end
            start = row
        end = row + 1
    yield start, end


class Held:
    """The rows of a table that one host has."""

    __slots__ = ("_has", "_table")

    def __init__(self, table: Table) -> None:
        self._table = table
        self._has = bytearray()

    def put(self, key: str, digest: str) -> bool:
        """Whether the host had no version of it."""
        table, has = self._table, self._has
        row = table.row(key, digest)
        if row >= len(has):
            has.extend(bytes(len(table.rows) - len(has)))
        is_new = True
        if has[row]:
            is_new = False
        elif table.has_versions:
            for other in table.versions(key):
                if other < len(has) and has[other]:
                    is_new, has[other] = False, 0
        has[row] = 1
        return is_new

    def put_rows(self, start: int, end: int) -> None:
        """Objects of which no other version is known."""
        if end > len(self._has):
            self._has.extend(bytes(len(self._table.rows) - len(self._has)))
        self._has[start:end] = b"\1" * (end - start)

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
            network = value.network_id
            self.entries[network] = ""
            self._tables.network_of[value.id] = network
            held = self._held.get(network)
            return (self._of(network) if held is None else held).put(value.id, message.digest)
        if kind == PEERS:
            return self._of(PEERS).put(value.id, message.digest)
        known = self._others.setdefault(kind, {})
        is_new = value.id not in known
        known[value.id] = message.digest
        return is_new

    def put_block(self, block: Block) -> bool:
        """Put the objects of a frame; False: it has to be decoded, as the host may have other versions of them."""
        if any(self._tables[name].has_versions for name, _, _ in block):
            return False
        for name, start, end in block:
            if name != PEERS:
                self.entries[name] = ""
            self._of(name).put_rows(start, end)
        return True

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
