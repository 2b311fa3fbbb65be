"""The change log: rows read in an order in which no committed row is ever skipped.

A row gets its id at the insert, but its transaction may commit after one with a higher id, so a reader that remembers an id
would miss it. Therefore `sequence` gives positions to rows once they are visible, that is committed: it takes the rows
without a position and moves the head, in one transaction that succeeds only if the head is still where it was read. Of
several processes that try at once, one succeeds and the others find it done. Readers go by position alone. On SQLite, where
writers are serialized, the writing transaction gives the positions itself.

`ChangeReader` reads what the rows name, the records of the feed: all of them once, then those that the next rows affect,
each in few queries.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.database_identity import new_identity, renewed
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, first, read, scalars
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import Changed, Sources
from neutrino.server.feed.records import Records

BATCH: Final = 1000
CHUNK: Final = 128  # rows per statement that gives positions
READING_SHARE: Final = 0.1  # of the time, in the long run
READING_BURST: Final = 0.06  # seconds of reading before any pause: about ten single changes
MAX_PAUSE: Final = 0.1  # seconds between two reads
_HEAD = Lookup(
    sa.select(t.change_head.c.identity, t.change_head.c.position, t.change_head.c.removed).where(
        t.change_head.c.id == 1
    ),
    first,
)
_MOVE_HEAD = (
    sa.update(t.change_head)
    .where(t.change_head.c.id == 1, t.change_head.c.position == sa.bindparam("before", type_=sa.BigInteger))
    .values(position=sa.bindparam("after", type_=sa.BigInteger))
)
_PENDING = Lookup(
    sa.select(t.changes.c.id).where(t.changes.c.position.is_(None)).order_by(t.changes.c.id).limit(BATCH), scalars
)
_AFTER = Lookup(
    sa.select(t.changes.c.position, t.changes.c.kind, t.changes.c.object_id, t.changes.c.request_id)
    .where(t.changes.c.position > sa.bindparam("after", type_=sa.BigInteger))
    .order_by(t.changes.c.position)
    .limit(BATCH),
    lambda rows: [Row(*row) for row in rows],
)
_OLDEST = (
    sa.select(t.changes.c.position, t.changes.c.at)
    .where(t.changes.c.position > sa.bindparam("after", type_=sa.BigInteger))
    .order_by(t.changes.c.position)
    .limit(BATCH)
)


@cache
def _give_to(count: int) -> sa.Update:
    """Gives so many rows their positions. Compiled once for each power of two: a hundred statements would take 10 MB."""
    ids = [sa.bindparam(f"id_{i}", type_=t.changes.c.id.type) for i in range(count)]
    positions = [(key, sa.bindparam(f"position_{i}", type_=t.changes.c.position.type)) for i, key in enumerate(ids)]
    unplaced = sa.update(t.changes).where(t.changes.c.id.in_(ids), t.changes.c.position.is_(None))
    return unplaced.values(position=sa.case(*positions, value=t.changes.c.id))


@dataclass(frozen=True, slots=True)
class Head:
    identity: str  # of the database: positions of another one are not comparable
    position: int  # the last position given
    removed: int  # rows up to this position have been removed


@dataclass(frozen=True, slots=True)
class Row:
    position: int
    kind: str
    object_id: str
    request_id: str | None = None


@dataclass(frozen=True)
class ChangeLog:
    db: Database

    @retried
    def head(self) -> Head:
        with self.db.read() as connection:
            found = read(connection, _HEAD())
        if found is not None:
            return Head(*found)
        first = Head(new_identity(), 0, 0)  # of a new database; if another process creates it first, this is retried
        with self.db.transaction() as tx:
            row = {"id": 1, "identity": first.identity, "position": first.position, "removed": first.removed}
            tx.insert(t.change_head, [row])
        return first

    @retried
    def renew(self) -> Head:
        """Give the database a new identity: positions that hosts have of it are not comparable with its own any more."""
        before = self.head()
        self._rename(before)
        return self.head()

    @retried
    def renew_if_lost(self, identity: str, position: int) -> bool:
        """Give the database a new identity if it has lost this position, which it once had; whether it has.

        Lost by a failover to a replica without the last transactions, or by a backup put in place of it. A cluster node
        that merely lags is not able to commit this change of the head: it conflicts with those that it has not applied.
        """
        before = self.head()
        if before.identity != identity or before.position >= position:
            return False
        self._rename(before)
        return True

    def _rename(self, before: Head) -> None:
        unchanged = sa.and_(
            t.change_head.c.id == 1,
            t.change_head.c.identity == before.identity,
            t.change_head.c.position == before.position,
        )
        with self.db.transaction() as tx:
            tx.change(sa.update(t.change_head).where(unchanged).values(identity=renewed(before.identity)))

    def sequence(self) -> int:
        """Give positions to all committed rows without one; returns how many."""
        given = 0
        while count := self._sequence_some():
            given += count
            if count < BATCH:
                break
        return given

    @retried
    def _sequence_some(self) -> int:
        # Before the rows: if the head has not moved since, no other process has given these rows a position.
        before = self.head()
        with self.db.read() as connection:
            ids = read(connection, _PENDING())
        if ids:
            self._give(before, ids)
        return len(ids)

    def _give(self, before: Head, ids: Sequence[int]) -> None:
        with self.db.transaction() as tx:
            # Stale if another feed process gave positions since: these rows may have theirs now.
            tx.change(_MOVE_HEAD, {"before": before.position, "after": before.position + len(ids)})
            for start in range(0, len(ids), CHUNK):
                some = ids[start : start + CHUNK]
                first = before.position + start + 1
                count = 1 << (len(some) - 1).bit_length()
                last = len(some) - 1  # the others up to `count` repeat it
                values = {f"id_{i}": some[min(i, last)] for i in range(count)}
                values |= {f"position_{i}": first + min(i, last) for i in range(count)}
                tx.change(_give_to(count), values, rows=len(some))

    def after(self, connection: Connection, position: int) -> list[Row]:
        """The rows after a position, at most BATCH."""
        return read(connection, _AFTER(after=position))

    def compact(self, keep_seconds: float, now: float | None = None) -> int:
        """Remove rows older than this; returns how many. The head keeps what was removed, so that a late reader notices."""
        at = time.time() if now is None else now
        present, cutoff = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each)) for each in (at, at - keep_seconds))
        removed, position, ends = 0, 0, list[int]()  # the last positions of the batches that were read
        while True:
            with self.db.read() as connection:
                rows = connection.execute(_OLDEST, {"after": position}).all()
            last, is_end = _last_old(rows, cutoff, present)
            if last:
                # In batches: before the first old row there may be any number of rows stamped in the future.
                removed += sum(self._remove(end) for end in (*ends, last))
                ends.clear()
            if is_end or len(rows) < BATCH:
                return removed
            position = rows[-1].position
            ends.append(position)

    @retried
    def _remove(self, last: int) -> int:
        with self.db.transaction() as tx:
            # Together: a reader that misses these rows finds `removed` ahead of it. `<`: other processes compact too.
            tx.write(
                sa.update(t.change_head)
                .where(t.change_head.c.id == 1, t.change_head.c.removed < last)
                .values(removed=last)
            )
            return tx.execute(sa.delete(t.changes).where(t.changes.c.position <= last)).rowcount


def _last_old(rows: Sequence[NamedRow], cutoff: str, present: str) -> tuple[int, bool]:
    """The last of these positions that is older than the cutoff (0: none), and whether a newer row follows.

    Rows have their times from the clocks of their servers. One stamped in the future is as old as the rows around it: it
    must not keep what follows it in the log until its time has come.
    """
    last = 0
    for row in rows:
        if row.at < cutoff:
            last = row.position
        elif row.at <= present:
            return last, True
    return last, False


# --- records ----------------------------------------------------------------------------------------------------------


def read_all(connection: Connection, sources: Sources) -> Records:
    return {source: dict(read(connection, None)) for source, read in sources.readers.items()}


def read_changed(
    connection: Connection,
    sources: Sources,
    rows: Iterable[Row],
    last_networks: Callable[[Collection[str]], Collection[str]] = lambda port_ids: (),
) -> Records:
    """The records that change-log rows affect, as they are now: at least as new as the rows.

    `last_networks` gives the networks of ports that may have been deleted meanwhile.
    """
    # The ids of records by source, as an ordered set: those named, and those whose content is derived from them.
    ids: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        ids[row.kind][row.object_id] = None
    named = {kind: list(some) for kind, some in ids.items()}
    lost = list(last_networks(named.get("port", ())))
    for rule in sources.affects:
        if any(named.get(kind) for kind in rule.named) or any(ids[source] for source in rule.affected):
            changed = Changed(named, {source: list(some) for source, some in ids.items()}, lost)
            ids[rule.records] |= dict.fromkeys(rule.find(connection, changed))
    return {
        source: {**dict.fromkeys(ids[source]), **dict(read(connection, list(ids[source])))}  # None: deleted
        for source, read in sources.readers.items()
        if ids[source]
    }


class LogReplaced(Exception):
    """The change log does not continue what this process has read, for this reason: everything has to be read again."""


class ChangeReader:
    def __init__(self, db: Database, sources: Sources) -> None:
        self.log = ChangeLog(db)
        self._db = db
        self._sources = sources

    def read_all(self) -> tuple[Head, Records]:
        head = self.log.head()  # before the records: what is committed while they are read gets a later position
        with self._db.read() as connection:
            return head, read_all(connection, self._sources)

    def read_next(
        self, identity: str, position: int, last_networks: Callable[[Collection[str]], Collection[str]]
    ) -> tuple[list[Row], Records]:
        """The rows after a position of the database with this identity, and the records that they affect."""
        self.log.sequence()
        with self._db.read() as connection:
            rows = self.log.after(connection, position)
            records = read_changed(connection, self._sources, rows, last_networks) if rows else {}
        self._check_log(identity, position)  # after the rows were read: those removed in between would be missed
        return rows, records

    def _check_log(self, identity: str, position: int) -> None:
        """Check that the log continues what was read up to this position, also while there are no new rows."""
        head = self.log.head()
        if head.identity != identity:
            raise LogReplaced("the database has a new identity")
        if head.removed > position:
            raise LogReplaced("change-log rows were removed before they were read")
        if head.position < position and self.log.renew_if_lost(head.identity, position):
            raise LogReplaced(
                f"the database has lost its changes after position {head.position}, and got a new identity"
            )


@dataclass
class Pace:
    """How often to read the log: single changes at once, under load several together.

    Reading one change costs nearly as much as reading twenty, and takes processor time from the API that makes them.
    """

    share: float = READING_SHARE
    burst: float = READING_BURST
    longest: float = MAX_PAUSE
    _left: float = READING_BURST
    _last_end: float = 0.0

    def pause(self, began: float, ended: float) -> float:
        """Seconds to wait after a read that took from `began` to `ended`."""
        regained = (ended - self._last_end) * self.share
        left = min(self.burst, self._left + regained) - (ended - began)
        # Reading for seconds, as after a restart, is not made up for: single changes would wait for minutes afterwards.
        self._left = max(left, -self.longest * self.share)
        self._last_end = ended
        return max(0.0, -self._left / self.share)
