"""Metering counters of hosts: stored, and their differences sent as notifications.

The feed has left out counters of routers that the host does not have (`placed_routers.py`), and bound the others to the
routers' projects; those of labels of other projects are left out here.

A host reports the totals of all its counters, so a report that is repeated after a lost connection adds nothing. The
totals of the last report are stored in the transaction that decides the differences; notifications follow the commit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.metering.notifications import Difference, Label, Payload, render
from neutrino.features.metering.tables import metering_labels, metering_totals
from neutrino.feed.messages import Traffic
from neutrino.model.objects import Values
from neutrino.model.routing import MeteredTraffic
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.services import Publish

_totals = metering_totals.c
_LABELS = sa.select(
    metering_labels.c.id, metering_labels.c.name, metering_labels.c.shared, metering_labels.c.project_id
)
_AT_ONCE = 1000  # rows of a statement


@dataclass(frozen=True)
class TrafficReports:
    db: Database
    publish: Publish

    def take(self, host: str, message: Traffic) -> None:
        for event, payload in self._store(host, message):
            self.publish(event, payload, f"metering.{host}")  # in Neutron, an agent on the host publishes it

    @retried
    def _store(self, host: str, message: Traffic) -> list[tuple[str, Payload]]:
        """Store the totals; gives the notifications of what was counted since the last report."""
        with self.db.read() as connection:
            stored = connection.execute(sa.select(metering_totals).where(_totals.host == host))
            known = {row.counter_id: row for row in stored}
            newer = [counter for counter in message.counters if _is_newer(counter, known.get(counter.id))]
            labels = _labels(connection, {counter.label_id for counter in newer})
            counted = [counter for counter in newer if _counts(labels.get(counter.label_id), counter)]
        gone = sorted(known.keys() - {counter.id for counter in message.counters})
        with self.db.transaction() as tx:
            for counter in counted:
                totals = {"packets": counter.packets, "bytes": counter.bytes, "last_update": counter.last_update}
                row = known.get(counter.id)
                if row is None:
                    tx.insert(metering_totals, [{"host": host, "counter_id": counter.id, **totals}])
                    continue
                # Stale if the same report arrived on another connection of the host: it is decided again.
                of_counter = _totals.host == host, _totals.counter_id == counter.id
                as_read = sa.and_(*of_counter, _totals.last_update == row.last_update)
                tx.change(sa.update(metering_totals).where(as_read).values(totals))
            for start in range(0, len(gone), _AT_ONCE):
                some = _totals.counter_id.in_(gone[start : start + _AT_ONCE])
                tx.write(sa.delete(metering_totals).where(_totals.host == host, some))
        return list(render(host, _differences(counted, known), labels, granular=message.granular))


def _is_newer(counter: MeteredTraffic, row: NamedRow | None) -> bool:
    return row is None or bool(counter.last_update > row.last_update)


def _counts(label: Label | None, counter: MeteredTraffic) -> bool:
    """Whether a label counts a router of this project. One that is deleted had done so: its last traffic follows it."""
    return label is None or label.shared or label.project_id == counter.project_id


def _differences(counters: Sequence[MeteredTraffic], known: Values) -> Iterator[Difference]:
    for counter in counters:
        row = known.get(counter.id)
        yield Difference(
            label_id=counter.label_id,
            router_id=counter.router_id,
            project_id=counter.project_id,
            packets=counter.packets - (row.packets if row is not None else 0),
            bytes=counter.bytes - (row.bytes if row is not None else 0),
            seconds=counter.last_update - (row.last_update if row is not None else counter.first_update),
            first_update=counter.first_update,
            last_update=counter.last_update,
        )


def _labels(connection: Connection, ids: set[str]) -> dict[str, Label]:
    rows = read_rows(connection, _LABELS, metering_labels.c.id, sorted(ids))
    return {row.id: Label(row.name, row.shared, row.project_id) for row in rows}
