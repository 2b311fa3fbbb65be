"""The one shape of every write: transaction with precommits, commit, postcommits, and the journal that survives a crash.

    transaction: the change → extension drivers → mechanism precommits → journal → change log    (all, or nothing)
    commit
    postcommits → the journal's entry goes; a create whose postcommit fails is taken back

A process that dies between commit and postcommit leaves its entry in the journal. `replay` finds entries whose process
is gone, runs their postcommits, and takes a create back if they fail, so no object stays half made.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import DriverContext, Segment
from neutrino.server.ml2.drivers import Mechanisms

LOG = logging.getLogger(__name__)
ABANDONED_SECONDS = 300.0  # an entry this old has no process behind it, on whichever server it was
Undo = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class PendingWrite:
    """A decided change of one object: the context for mechanism drivers, and the writing of its rows."""

    context: DriverContext
    write: Callable[[Transaction], None]


class Operations:
    def __init__(self, db: Database, mechanisms: Mechanisms, host: str) -> None:
        self._db = db
        self._mechanisms = mechanisms
        self._host = host
        self._undo: dict[str, Undo] = {}

    def undo_with(self, kind: str, undo: Undo) -> None:
        """How a create of this kind is taken back."""
        self._undo[kind] = undo

    @contextmanager
    def write(self, changes: Sequence[DriverContext]) -> Iterator[Transaction]:
        """A transaction for the rows of these changes, with precommits and journal at its end and postcommits after it.

        with operations.write([context]) as tx:
            tx.insert(...)
        """
        entries: list[dict[str, Any]] = []
        with self._db.transaction() as tx:
            yield tx
            for change in changes:
                self._mechanisms.precommit(change, tx)
                if self._mechanisms.has_postcommit(change):
                    entries.append(self._entry(change))
            if entries:
                tx.execute(sa.insert(t.journal), entries)
        if entries:
            self._run_postcommits(changes, entries)

    def _run_postcommits(self, changes: Sequence[DriverContext], entries: list[dict[str, Any]]) -> None:
        failure: errors.MechanismDriverError | None = None
        for change in changes:
            try:
                self._mechanisms.postcommit(change)
            except errors.MechanismDriverError as error:
                failure = error
        if failure is not None and changes[0].operation == "create":
            for change in changes:
                if change.operation == "create":  # what came along with it was there before
                    self._take_back(change)
        self._forget([entry["id"] for entry in entries])
        if failure is not None:
            raise failure

    def _take_back(self, change: DriverContext) -> None:
        try:
            self._undo[change.kind](change.current)
        except errors.NotFound:
            return
        except Exception:
            LOG.exception("%s %s could not be taken back", change.kind, change.current.get("id"))

    # --- the journal ----------------------------------------------------------------------------------------------

    def _entry(self, change: DriverContext) -> dict[str, Any]:
        return {
            "id": new_id(),
            "operation": f"{change.operation}_{change.kind}",
            "object_id": change.current["id"],
            "before": None if change.original is None else msgspec.json.encode(dict(change.original)).decode(),
            "after": msgspec.json.encode(
                {
                    "current": dict(change.current),
                    "network": dict(change.network),
                    "segments": [asdict(segment) for segment in change.segments],
                }
            ).decode(),
            "at": time.time(),
            "owner": self._owner(os.getpid()),
        }

    def _owner(self, pid: int) -> str:
        return f"{self._host}:{pid}:{_started(pid)}"

    def replay(self) -> int:
        """Finish what processes that are gone have left; gives how many entries there were."""
        with self._db.read() as connection:
            rows = connection.execute(sa.select(t.journal).order_by(t.journal.c.at)).all()
        done = 0
        for row in rows:
            if self._abandoned(row) and self._claim(row):
                self._finish(row)
                done += 1
        return done

    def _abandoned(self, row: Any) -> bool:
        host, pid, started = row.owner.rsplit(":", 2)
        if host == self._host:
            return bool(_started(int(pid)) != started)
        return bool(time.time() - row.at > ABANDONED_SECONDS)

    def _claim(self, row: Any) -> bool:
        def attempt() -> bool:
            with self._db.transaction() as tx:
                claimed = tx.execute(
                    sa.update(t.journal)
                    .where(t.journal.c.id == row.id, t.journal.c.owner == row.owner)
                    .values(owner=self._owner(os.getpid()), at=time.time())
                )
            return claimed.rowcount == 1

        return self._db.retrying(attempt)

    def _finish(self, row: Any) -> None:
        operation, _, kind = row.operation.partition("_")
        after = msgspec.json.decode(row.after)
        before = None if row.before is None else msgspec.json.decode(row.before)
        segments = [Segment(**one) for one in after.get("segments", ())]
        change = DriverContext(operation, kind, after["current"], before, network=after["network"], segments=segments)
        LOG.warning("%s of %s was left unfinished: finishing it", row.operation, row.object_id)
        try:
            self._mechanisms.postcommit(change)
        except errors.MechanismDriverError:
            if operation == "create":
                self._take_back(change)
        self._forget([row.id])

    def _forget(self, ids: list[str]) -> None:
        """Tried again by itself: the change is made, and must not be made again for a deadlock here."""

        def attempt() -> None:
            with self._db.transaction() as tx:
                tx.execute(sa.delete(t.journal).where(t.journal.c.id.in_(ids)))

        self._db.retrying(attempt)


def _started(pid: int) -> str:
    """When a process was started, which tells it from a later one of the same number; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
