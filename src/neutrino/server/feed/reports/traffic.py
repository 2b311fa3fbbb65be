"""Metering counters of hosts: stored, and their differences sent as notifications.

The feed has left out counters of routers that the host does not have (`placed_routers.py`), and bound the others to the
routers' projects; those of labels of other projects are left out here.

A host reports the totals of all its counters, so a report that is repeated after a lost connection adds nothing. The
totals of the last report are stored in the transaction that decides the differences; notifications follow the commit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.feed.messages import Traffic
from neutrino.model.metering import MeteredTraffic
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.metering.notifications import Difference, Label, Payload, render

Send = Callable[[str, Payload, str], None]  # takes the event type, the payload and the host
_m, _l = t.metering_totals.c, t.metering_labels.c
_LABELS = sa.select(_l.id, _l.name, _l.shared, _l.project_id)
_AT_ONCE = 1000  # rows of a statement


@dataclass(frozen=True)
class TrafficReports:
    db: Database
    send: Send

    def take(self, host: str, message: Traffic) -> None:
        for event, payload in self._store(host, message):
            self.send(event, payload, host)

    @retried
    def _store(self, host: str, message: Traffic) -> list[tuple[str, Payload]]:
        """Store the totals; gives the notifications of what was counted since the last report."""
        with self.db.read() as connection:
            known = {
                row.counter_id: row for row in connection.execute(sa.select(t.metering_totals).where(_m.host == host))
            }
            newer = [each for each in message.counters if _is_newer(each, known.get(each.id))]
            labels = _labels(connection, {each.label_id for each in newer})
            fresh = [each for each in newer if _counts(labels.get(each.label_id), each)]
        gone = sorted(known.keys() - {each.id for each in message.counters})
        with self.db.transaction() as tx:
            for each in fresh:
                totals = {"packets": each.packets, "bytes": each.bytes, "last_update": each.last_update}
                row = known.get(each.id)
                if row is None:
                    tx.insert(t.metering_totals, [{"host": host, "counter_id": each.id, **totals}])
                    continue
                # Stale if the same report arrived on another connection of the host: it is decided again.
                as_read = sa.and_(_m.host == host, _m.counter_id == each.id, _m.last_update == row.last_update)
                tx.change(sa.update(t.metering_totals).where(as_read).values(totals))
            for start in range(0, len(gone), _AT_ONCE):
                some = _m.counter_id.in_(gone[start : start + _AT_ONCE])
                tx.write(sa.delete(t.metering_totals).where(_m.host == host, some))
        return list(render(host, _differences(fresh, known), labels, granular=message.granular))


def _is_newer(counter: MeteredTraffic, row: Any) -> bool:
    return row is None or counter.last_update > row.last_update


def _counts(label: Label | None, counter: MeteredTraffic) -> bool:
    """Whether a label counts a router of this project. One that is deleted had done so: its last traffic follows it."""
    return label is None or label.shared or label.project_id == counter.project_id


def _differences(counters: Sequence[MeteredTraffic], known: Mapping[str, Any]) -> Iterator[Difference]:
    for each in counters:
        row = known.get(each.id)
        yield Difference(
            label_id=each.label_id,
            router_id=each.router_id,
            project_id=each.project_id,
            packets=each.packets - (row.packets if row is not None else 0),
            bytes=each.bytes - (row.bytes if row is not None else 0),
            seconds=each.last_update - (row.last_update if row is not None else each.first_update),
            first_update=each.first_update,
            last_update=each.last_update,
        )


def _labels(connection: Connection, ids: set[str]) -> dict[str, Label]:
    rows = read_rows(connection, _LABELS, _l.id, sorted(ids))
    return {row.id: Label(row.name, row.shared, row.project_id) for row in rows}
