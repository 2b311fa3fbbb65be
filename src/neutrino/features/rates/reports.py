"""Reports of hosts on what their ports and tunnels have counted: stored in a ring of rows, those of many hosts at once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino.features.rates.tables import host_rates
from neutrino.feed.messages import Rates
from neutrino.server.db.session import Database, retried

SLOT_SECONDS: Final = 15  # a host that reports more often replaces its last report
SLOTS: Final = 40
WINDOW: Final = SLOT_SECONDS * SLOTS  # seconds that are kept
FORGET_SECONDS: Final = 600.0  # between deletions of rows of hosts that do not report any more
_HOSTS: Final = 500  # in one statement
_rows = host_rates.c


@dataclass(eq=False)
class RateReports:
    """Stores reports; in the feed process, by one thread."""

    db: Database
    clock: Callable[[], float] = time.time
    _taken: dict[str, float] = field(default_factory=dict)  # when a report of each host was stored
    _forgotten: float = 0.0

    def take(self, reports: Sequence[tuple[str, Rates]]) -> None:
        now = self.clock()
        newest = {host: report for host, report in reports if not self._is_too_soon(host, now)}
        if newest:
            self._store(newest, int(now))
            self._taken |= dict.fromkeys(newest, now)
        if now - self._forgotten >= FORGET_SECONDS:
            self._forgotten = now
            self._forget(int(now))

    def _is_too_soon(self, host: str, now: float) -> bool:
        """A host must not cause a write with each of many messages. Clocks may be set back."""
        return 0 <= now - self._taken.get(host, -SLOT_SECONDS) < SLOT_SECONDS / 2

    @retried
    def _store(self, reports: dict[str, Rates], now: int) -> None:
        slot = now // SLOT_SECONDS % SLOTS
        hosts = sorted(reports)
        with self.db.transaction(of_cloud=False) as tx:
            for start in range(0, len(hosts), _HOSTS):
                some = hosts[start : start + _HOSTS]
                tx.write(sa.delete(host_rates).where(_rows.slot == slot, _rows.host.in_(some)))
                tx.insert(host_rates, [_row(host, slot, now, reports[host]) for host in some])

    @retried
    def _forget(self, now: int) -> None:
        self._taken = {host: at for host, at in self._taken.items() if now - at < FORGET_SECONDS}
        old = _rows.at < now - 2 * WINDOW
        with self.db.read() as connection:  # first: nearly always there is nothing to delete
            hosts = connection.execute(sa.select(_rows.host).where(old).distinct().limit(_HOSTS)).scalars().all()
        if hosts:
            with self.db.transaction(of_cloud=False) as tx:
                tx.write(sa.delete(host_rates).where(old, _rows.host.in_(hosts)))


def _row(host: str, slot: int, now: int, report: Rates) -> dict[str, object]:
    counted = msgspec.json.encode({"ports": report.ports, "tunnels": report.tunnels}).decode()
    return {"host": host, "slot": slot, "at": now, "seconds": report.seconds, "counted": counted}
