"""Write transactions of the core: rows, precommits, journal and change log together, then postcommits.

    transaction: rows → mechanism precommits → journal → change log → quota counters     (all, or nothing)
    commit
    postcommits → delete the journal entry; a create whose postcommit fails is undone

A process that dies between commit and postcommit leaves its entry in the journal. `replay` finds entries of dead processes,
runs their postcommits, and undoes a create if they fail, so that no object stays that its equipment does not know.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.diagnosis.facts import DRIVERS_NOT_READY
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode, encode, new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import BoundLevel, DriverContext, DynamicSegments, Segment
from neutrino.server.ml2.levels import Levels, read_levels
from neutrino.server.ml2.segments import read_segments
from neutrino.server.uses import AgreedWrite, Write

LOG = logging.getLogger(__name__)
# Processes of other servers cannot be looked up: an entry this old is taken for abandoned. Postcommits end long before.
ABANDONED_SECONDS = 300.0
Undo = Callable[[Values], None]
# Called at the end of a transaction, after all its rows, with the changes that mechanism drivers could be told.
ClosingHook = Callable[[Transaction, Sequence[DriverContext]], None]
# Called after the commit of a change of an object that drivers have no methods for: its kind, what happened, the object,
# and what the change is about.
Listener = Callable[[str, str, Values, Sequence[Values]], object]


class Mechanisms:
    """All mechanism drivers, in the order of the configuration."""

    def __init__(self, drivers: Values) -> None:
        self.drivers = drivers
        self._reads_levels = any(getattr(driver, "reads_levels", False) for driver in drivers.values())
        self._methods = cache(self._find_methods)  # every write asks whether some driver is notified

    def not_ready(self) -> dict[str, str]:
        """The drivers that can say whether they are ready, each with why it is not; empty if it is."""
        return {name: driver.not_ready() for name, driver in self.drivers.items() if hasattr(driver, "not_ready")}

    def details(self) -> Object:
        """For the row of this process, and so for the status."""
        reasons = {name: reason for name, reason in self.not_ready().items() if reason}
        return {DRIVERS_NOT_READY: reasons} if reasons else {}

    def measures(self) -> dict[tuple[str, ...], float]:
        """For metrics: 1 for a driver that is not ready."""
        return {(name,): float(bool(reason)) for name, reason in self.not_ready().items()}

    def _find_methods(self, name: str) -> list[tuple[str, Callable[[DriverContext], None]]]:
        return [(key, getattr(driver, name)) for key, driver in self.drivers.items() if hasattr(driver, name)]

    def notifies(self, operation: str, kind: str) -> bool:
        """Whether some driver has a method for this event."""
        return any(self._methods(f"{operation}_{kind}_{phase}") for phase in ("precommit", "postcommit"))

    def need_levels(self, context: DriverContext) -> bool:
        """Whether some driver needs the levels of the port's binding before this change."""
        return self._reads_levels and context.kind == "port" and context.operation != "create"

    def levels(self, connection: Connection, contexts: Iterable[DriverContext]) -> Levels:
        """Levels of bindings by port, as far as some driver needs them."""
        ports = {c.current["id"] for c in contexts if c.kind == "port"} if self._reads_levels else ()
        return read_levels(connection, sorted(ports)) if ports else {}

    def has_postcommit(self, context: DriverContext) -> bool:
        return bool(self._methods(f"{context.operation}_{context.kind}_postcommit"))

    def precommit(self, context: DriverContext, tx: Transaction) -> None:
        """Call the drivers in the transaction: the first one that raises stops it."""
        for _, method in self._methods(f"{context.operation}_{context.kind}_precommit"):
            method(replace(context, tx=tx))

    def postcommit(self, context: DriverContext) -> None:
        """After the transaction: every driver is called, also after another one has failed."""
        name = f"{context.operation}_{context.kind}_postcommit"
        failed = []
        for driver, method in self._methods(name):  # equipment of the other drivers must not miss a committed change
            try:
                method(context)
            except Exception:
                LOG.exception("mechanism driver %s failed in %s of %s", driver, name, context.current.get("id"))
                failed.append(driver)
        if failed:
            what = f"{name} of {context.current.get('id')}"
            raise errors.MechanismDriverError(method=what, drivers=", ".join(failed))


_LEVELS = "levels", "original_levels"
NO_EVENT = DriverContext("", "", {})


@dataclass(frozen=True)
class PendingWrite:
    """A decided part of a larger write: its rows, and the context for mechanism drivers (NO_EVENT: they get none)."""

    context: DriverContext
    write: Write

    def ask(self) -> None:
        """Ask another service that has to agree, which may refuse the change."""
        if isinstance(self.write, AgreedWrite):
            self.write.ask()


Writes = tuple[PendingWrite, ...]


def pending_statement(statement: sa.Executable) -> PendingWrite:
    return PendingWrite(NO_EVENT, lambda tx: tx.write(statement))


@dataclass(eq=False)
class Operations:
    db: Database
    mechanisms: Mechanisms
    dynamic_segments: DynamicSegments
    host: str  # of this server
    undo: dict[str, Undo] = field(default_factory=dict)  # by kind: collections register how a create is undone
    closing_hooks: list[ClosingHook] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)

    @contextmanager
    def write(
        self, contexts: Sequence[DriverContext], pending: Sequence[PendingWrite] = (), *, raises: bool = True
    ) -> Iterator[Transaction]:
        """A transaction for the rows of these changes, with precommits and journal at its end and postcommits after it.

        with operations.write([context]) as tx:
            tx.insert(...)

        `pending` is written after the rows of the block; services that have to agree to it are asked first. What is known
        only in the transaction may be appended to `contexts` by the block. Not `raises`: a failed postcommit is only
        logged, for changes that no client waits for.
        """
        entries: list[Object] = []
        for one in pending:
            one.ask()
        with self.db.transaction() as tx:
            known = [c for c in (*contexts, *(one.context for one in pending)) if self.mechanisms.need_levels(c)]
            levels = self.mechanisms.levels(tx.connection, known)  # first: a rebinding or delete removes them
            yield tx
            for one in pending:
                one.write(tx)
            # After the rows, so that a precommit reads the objects as they will be.
            changes = [*contexts, *(one.context for one in pending if one.context is not NO_EVENT)]
            notified = [context for context in changes if self.mechanisms.notifies(context.operation, context.kind)]
            if notified:
                notified = self._complete(tx, notified, levels)
                for context in notified:
                    self.mechanisms.precommit(context, tx)
                entries = [self._entry(context) for context in notified if self.mechanisms.has_postcommit(context)]
                tx.insert(t.journal, entries)
            for hook in self.closing_hooks:
                hook(tx, changes)
        if entries:
            failure = self._run_postcommits(notified, changes)
            self._delete_entries([entry["id"] for entry in entries])
            if failure is not None and raises:
                raise failure

    def announce(self, kind: str, happened: str, current: Values, about: Sequence[Values]) -> None:
        """After a commit: tell the listeners, each for itself."""
        for listener in self.listeners:
            try:
                listener(kind, happened, current, about)
            except Exception:
                LOG.exception("a listener failed in %s of %s %s", happened, kind, current.get("id"))

    def _complete(self, tx: Transaction, contexts: Sequence[DriverContext], before: Levels) -> list[DriverContext]:
        """The contexts with their segments and levels, which are read only if some driver gets to see them."""
        missing = {c.network["id"] for c in contexts if c.kind != "network" and not c.segments}
        segments = read_segments(tx.connection, sorted(missing)) if missing else {}
        after = self.mechanisms.levels(tx.connection, contexts)
        return [
            replace(
                _with_levels(c, before, after),
                network=c.network or c.current,
                segments=c.segments or segments.get(c.network.get("id", ""), ()),
                dynamic_segments=self.dynamic_segments,
            )
            for c in contexts
        ]

    def _run_postcommits(
        self, notified: Sequence[DriverContext], contexts: Sequence[DriverContext]
    ) -> errors.MechanismDriverError | None:
        failure: errors.MechanismDriverError | None = None
        for context in notified:
            try:
                self.mechanisms.postcommit(context)
            except errors.MechanismDriverError as error:
                failure = error
        # The first context is the object of the request: if that was updated, ports created along with it stay too.
        if failure is not None and contexts[0].operation == "create":
            for context in contexts:
                if context.operation == "create":  # objects that were only updated along with it existed before
                    self._undo_create(context)
        return failure

    def _undo_create(self, context: DriverContext) -> None:
        try:
            with suppress(errors.NotFound):
                self.undo[context.kind](context.current)
        except Exception:
            LOG.exception("%s %s remains after its create failed", context.kind, context.current.get("id"))

    # --- the journal ----------------------------------------------------------------------------------------------

    def _entry(self, context: DriverContext) -> Object:
        after = {name: getattr(context, name) for name in ("current", "network", "segments", "port", *_LEVELS)}
        return {
            "id": new_id(),
            "operation": f"{context.operation}_{context.kind}",
            "object_id": context.current["id"],
            "before": None if context.original is None else encode(context.original),
            "after": encode(after),
            "at": time.time(),
            "owner": self._owner(os.getpid()),
        }

    def _owner(self, pid: int) -> str:
        return f"{self.host}:{pid}:{_started(pid)}"

    def replay(self) -> int:
        """Finish the entries of dead processes; returns how many there were."""
        with self.db.read() as connection:
            rows = connection.execute(sa.select(t.journal).order_by(t.journal.c.at)).all()
        done = 0
        for row in rows:
            if self._abandoned(row) and self._claim(row):
                self._finish(row)
                done += 1
        return done

    def _abandoned(self, row: NamedRow) -> bool:
        host, pid, started = row.owner.rsplit(":", 2)
        if host == self.host:
            return bool(_started(int(pid)) != started)
        return bool(time.time() - row.at > ABANDONED_SECONDS)

    @retried
    def _claim(self, row: NamedRow) -> bool:
        """Conditional on the owner: of several processes that start at once, one replays an entry."""
        j = t.journal.c
        claim = sa.update(t.journal).where(j.id == row.id, j.owner == row.owner)
        with self.db.transaction() as tx:
            return tx.execute(claim.values(owner=self._owner(os.getpid()), at=time.time())).rowcount == 1

    def _finish(self, row: NamedRow) -> None:
        operation, _, kind = row.operation.partition("_")
        after = decode(row.after)
        after["segments"] = [Segment(**segment) for segment in after["segments"]]
        for name in _LEVELS:
            rows = after.get(name, ())  # absent in entries of a server before this field
            after[name] = [BoundLevel(row["driver"], Segment(**row["segment"])) for row in rows]
        original = None if row.before is None else decode(row.before)
        context = DriverContext(operation, kind, original=original, dynamic_segments=self.dynamic_segments, **after)
        LOG.warning("replaying %s of %s, which another process left unfinished", row.operation, row.object_id)
        try:
            self.mechanisms.postcommit(context)
        except errors.MechanismDriverError:
            if operation == "create":
                self._undo_create(context)
        self._delete_entries([row.id])

    @retried
    def _delete_entries(self, ids: list[str]) -> None:
        """Delete journal entries in a retry loop of its own.

        The change is committed, and a deadlock here must not make the caller repeat it.
        """
        with self.db.transaction() as tx:
            tx.write(sa.delete(t.journal).where(t.journal.c.id.in_(ids)))


def _with_levels(context: DriverContext, before: Levels, after: Levels) -> DriverContext:
    if context.kind != "port":
        return context
    key, operation = context.current["id"], context.operation
    if operation == "delete":
        return replace(context, levels=before.get(key, ()))
    own = after.get(key, ())
    # A change that the block decided on, such as of the status, leaves the binding as it is.
    return replace(context, levels=own, original_levels=before.get(key, own) if operation == "update" else ())


def _started(pid: int) -> str:
    """Start time of a process, which distinguishes it from a later one with the same pid; empty if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # Field 22, counted from the last parenthesis: the command's name may contain spaces and parentheses.
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
