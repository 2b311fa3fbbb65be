"""Publishes the rows of `dns_records`: a thread in every API worker, woken by commits, with a poll for those of others.

    claim    all rows of a record set, with a lease; mark the wanted ones as published, before they are
    replace  the driver makes the record set equal to the wanted addresses
    mark     published rows are done, removed rows are deleted; a failure is kept in the rows, and retried with back-off

Rows that change while a record set is published stay pending, so the next round publishes them. The lease keeps the workers
of all servers from publishing one record set at the same time, with the older state last; if a worker dies, it ends.
Every claim has its own id, which stays in the rows: a claim that came and went between reading and claiming is noticed.
`published` is set before the driver is called, because an update without an answer may have been made: only addresses with
this mark are ours, and everything else that a name has is left alone.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from neutrino.features.dns.driver_api import DnsDriver, Incomplete, RecordSet, Refused, Unreachable
from neutrino.features.dns.tables import dns_records
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction

LOG = logging.getLogger(__name__)
MAX_ERROR = 1000  # characters of an error in a row
_SET = (dns_records.c.project_id, dns_records.c.zone, dns_records.c.name, dns_records.c.type)
_ROWS = (
    sa.select(dns_records).where(*(column == sa.bindparam(column.name) for column in _SET)).order_by(dns_records.c.id)
)


@dataclass(frozen=True)
class PublisherOptions:
    poll_seconds: float = 10.0  # until a row of a process without a publisher, or of a dead one, is found
    sweep_seconds: float = 3600.0
    lease_seconds: float = 120.0  # longer than any call of a driver
    longest_pause: float = 60.0  # between attempts while the DNS service does not answer
    longest_retry: float = 600.0  # between attempts of a record set that is refused
    at_once: int = 200  # record sets that are read together


@dataclass(eq=False)
class Publisher:
    db: Database
    driver: DnsDriver
    sweep: Callable[[str | None], object] = field(default=lambda network_id: None)  # records again, or one network's
    options: PublisherOptions = PublisherOptions()
    clock: Callable[[], float] = time.time
    private: Callable[[Sequence[NamedRow]], frozenset[str]] = lambda rows: (
        frozenset()
    )  # the addresses without PTR records

    def __post_init__(self) -> None:
        self._stop, self._woken = threading.Event(), threading.Event()
        self._networks: set[str] = set()
        self._failures = 0  # in a row, without an answer of the DNS service
        self._thread: threading.Thread | None = None

    # --- the thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """In the process that serves requests: threads do not survive a fork."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="dns-publisher")
        self._thread.start()

    def close(self) -> None:
        """End the thread after the record set that it works on."""
        self._stop.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def wake(self) -> None:
        """There are pending rows; returns at once."""
        self._woken.set()

    def recheck(self, network_id: str) -> None:
        """The domain of a network has changed: record its ports again; returns at once."""
        self._networks.add(network_id)
        self._woken.set()

    def _run(self) -> None:
        swept = 0.0
        while not self._stop.is_set():
            self._woken.clear()
            try:
                if self.clock() - swept >= self.options.sweep_seconds:
                    self.sweep(None)
                    swept = self.clock()
                while self._networks:
                    self._sweep_network(self._networks.pop())
                pause = self.publish()
            except Exception:  # such as a database that is down; the thread must survive it
                if self._stop.is_set():  # the database was closed at the end of the process
                    return
                LOG.exception("DNS records are not published, another attempt follows")
                pause = self.options.poll_seconds
            if self._failures:
                self._stop.wait(pause)  # commits do not shorten the pause of a DNS service that is down
            else:
                self._woken.wait(pause)

    def _sweep_network(self, network_id: str) -> None:
        try:
            self.sweep(network_id)
        except Exception:
            self._networks.add(network_id)  # again, in the next round
            raise

    # --- one round ------------------------------------------------------------------------------------------------

    def publish(self) -> float:
        """Publish all record sets that are due; returns the seconds until the next round, unless woken before."""
        while due := self._due():
            done = 0
            for record_set in due:
                if self._stop.is_set():
                    return 0.0
                try:
                    done += self._publish_set(record_set)
                except Unreachable as error:
                    self._failures += 1
                    pause = min(2.0 ** min(self._failures, 10), self.options.longest_pause)
                    LOG.warning("the DNS service does not answer, next attempt in %.0f s: %s", pause, error)
                    return pause
                self._failures = 0
            if not done:  # others have claimed all of them
                break
        return self.options.poll_seconds

    def _due(self) -> list[RecordSet]:
        now = self.clock()
        due = dns_records.c.pending == sa.true(), dns_records.c.retry_at <= now, dns_records.c.claimed_until <= now
        found = sa.select(*_SET).where(*due).distinct().limit(self.options.at_once)
        with self.db.read() as connection:
            return [RecordSet(*row) for row in connection.execute(found)]

    def _publish_set(self, record_set: RecordSet) -> bool:
        """Whether it was claimed here; Unreachable, with the rows kept as they are, if the DNS service does not answer."""
        claim = str(uuid.uuid4())
        rows = self.db.retrying(lambda: self._claim(record_set, claim))
        if not rows:
            return False
        addresses = frozenset(row.address for row in rows if row.wanted)
        ours = frozenset(row.address for row in rows if row.published)
        try:
            self.driver.replace(record_set, addresses, ours, self.private([row for row in rows if row.wanted]))
        except Refused as error:
            text = str(error)
            self._log_refused(record_set, rows, text)
            self.db.retrying(lambda: self._refused(claim, rows, text))
        except Incomplete as error:
            text = str(error)
            self._log_refused(record_set, rows, text)
            self.db.retrying(lambda: self._retry_later(claim, rows, text))
        except Unreachable as error:
            text = str(error)
            self.db.retrying(lambda: self._release(claim, rows, text))
            raise
        except Exception as error:  # a driver's bug concerns one record set, not all
            LOG.exception("the DNS driver failed for %s", record_set.name)
            text = f"{type(error).__name__}: {error}"
            self.db.retrying(lambda: self._retry_later(claim, rows, text))
        else:
            LOG.debug("published %s %s: %s", record_set.name, record_set.type, ", ".join(sorted(addresses)) or "none")
            self.db.retrying(lambda: self._settle(claim, rows))
        return True

    # --- rows -----------------------------------------------------------------------------------------------------

    def _claim(self, record_set: RecordSet, claim: str) -> Sequence[NamedRow]:
        """All rows of the record set as they were, if no other publisher has one of them and there is something to do."""
        now = self.clock()
        with self.db.transaction() as tx:
            rows = tx.execute(_ROWS, record_set._asdict()).all()
            if not any(row.pending for row in rows) or any(row.claimed_until > now for row in rows):
                return ()
            claimed = {"claimed_by": claim, "claimed_until": now + self.options.lease_seconds}
            for row in rows:
                # Of two publishers that read the same rows, one is Stale and reads again. The last claim is a condition
                # too: if another publisher has claimed and released a row since, its marks are not those that were read.
                same = (
                    dns_records.c.id == row.id,
                    dns_records.c.claimed_by == row.claimed_by,
                    dns_records.c.claimed_until <= now,
                    dns_records.c.wanted == row.wanted,
                )
                published = row.published or row.wanted
                tx.change(sa.update(dns_records).where(*same).values(published=published, **claimed))
        return rows

    def _settle(self, claim: str, rows: Sequence[NamedRow]) -> None:
        """Rows whose `wanted` has changed meanwhile stay pending."""
        wanted, removed = [row for row in rows if row.wanted], [row for row in rows if not row.wanted]
        with self.db.transaction() as tx:
            if wanted:
                done = sa.update(dns_records).where(*_own(claim, wanted), dns_records.c.wanted.is_(True))
                tx.write(done.values(pending=False, error="", attempts=0, retry_at=0.0))
            if removed:
                tx.write(sa.delete(dns_records).where(*_own(claim, removed), dns_records.c.wanted.is_(False)))
            self._unclaim(tx, claim, rows)

    def _unclaim(self, tx: Transaction, claim: str, rows: Sequence[NamedRow]) -> None:
        """`claimed_by` stays: it shows others that the rows have been claimed since they read them."""
        tx.write(sa.update(dns_records).where(*_own(claim, rows)).values(claimed_until=0.0))

    def _refused(self, claim: str, rows: Sequence[NamedRow], error: str) -> None:
        """Nothing was changed: what was not published before is not now."""
        new = [row for row in rows if not row.published]
        with self.db.transaction() as tx:
            if new:
                tx.write(sa.update(dns_records).where(*_own(claim, new)).values(published=False))
            self._postpone(tx, claim, rows, error)

    def _retry_later(self, claim: str, rows: Sequence[NamedRow], error: str) -> None:
        with self.db.transaction() as tx:
            self._postpone(tx, claim, rows, error)

    def _postpone(self, tx: Transaction, claim: str, rows: Sequence[NamedRow], error: str) -> None:
        attempts = max(row.attempts for row in rows) + 1
        retry_at = self.clock() + min(2.0 ** min(attempts, 12), self.options.longest_retry)
        values = {"error": error[:MAX_ERROR], "attempts": attempts, "retry_at": retry_at, "pending": True}
        # A row that was recorded meanwhile has another `wanted`: it is new work, and due at once.
        for is_wanted in (True, False):
            same = [row for row in rows if row.wanted == is_wanted]
            if same:
                unchanged = dns_records.c.wanted == is_wanted
                tx.write(sa.update(dns_records).where(*_own(claim, same), unchanged).values(**values))
        self._unclaim(tx, claim, rows)

    def _release(self, claim: str, rows: Sequence[NamedRow], error: str) -> None:
        with self.db.transaction() as tx:
            tx.write(sa.update(dns_records).where(*_own(claim, rows)).values(error=error[:MAX_ERROR]))
            self._unclaim(tx, claim, rows)

    def _log_refused(self, record_set: RecordSet, rows: Sequence[NamedRow], error: str) -> None:
        """Once per cause: it is retried for as long as the objects exist."""
        if all(row.error == error[:MAX_ERROR] for row in rows):
            return
        objects = ", ".join(sorted({f"{row.object_type} {row.object_id}" for row in rows}))
        LOG.warning("the DNS service refuses %s %s of %s: %s", record_set.name, record_set.type, objects, error)


def _own(claim: str, rows: Sequence[NamedRow]) -> list[sa.ColumnElement[bool]]:
    """The rows, as long as no other publisher has claimed them."""
    return [dns_records.c.id.in_([row.id for row in rows]), dns_records.c.claimed_by == claim]
