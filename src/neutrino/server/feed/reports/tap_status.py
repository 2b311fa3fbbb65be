"""Statuses of tap services and tap flows, from the reports of their ports' hosts.

Only the host of the service's port, or of the flow's source, counts. What it reported is kept with its name, so that it has
no effect after the port has moved: the views (`taas/views.py`) compare the two.
"""

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
_p = t.ports.c
_KEY = sa.bindparam("key", type_=sa.String)
_TABLES = {
    "tap_service": (t.tap_services, t.tap_services.c.port_id),
    "tap_flow": (t.tap_flows, t.tap_flows.c.source_port),
}
_CURRENT = {
    kind: sa.select(_p.host, table.c.reported_host, table.c.reported_status)
    .join(t.ports, _p.id == port)
    .where(table.c.id == _KEY)
    for kind, (table, port) in _TABLES.items()
}


@dataclass(frozen=True)
class TapStatus:
    db: Database

    @retried
    def take(self, host: str, message: Status) -> bool:
        """Store what a host reports on a tap service or flow; whether that is new."""
        status = "" if message.status == "INACTIVE" else message.status
        with self.db.read() as connection:
            known = connection.execute(_CURRENT[message.kind], {"key": message.id}).first()
        if known is None or known.host != host or (known.reported_host, known.reported_status) == (host, status):
            return False
        if status == "ERROR":
            kind, reason = message.kind.replace("_", " "), one_line(message.reason)
            LOG.warning("host %s could not apply %s %s: %s", host, kind, message.id, reason)
        table, _ = _TABLES[message.kind]
        with self.db.transaction() as tx:
            # Not a new revision: nothing that the API lets clients change has changed.
            values = {"reported_host": host, "reported_status": status}
            tx.write(sa.update(table).where(table.c.id == message.id).values(**values))
            tx.log(table, {"id": message.id})
        return True
