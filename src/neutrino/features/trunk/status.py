"""Trunks that their host could not wire completely, by its reports.

Only the host that the parent is bound to counts: after a move, what the previous one reported has no effect, because the
status of the trunk (`views.py`) compares the two.
"""

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.trunk.tables import trunks
from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
_CURRENT = (
    sa.select(t.ports.c.host, trunks.c.failed_host)
    .join(t.ports, t.ports.c.id == trunks.c.port_id)
    .where(trunks.c.id == sa.bindparam("trunk"))
)


@dataclass(frozen=True)
class TrunkStatus:
    db: Database

    @retried
    def take(self, host: str, message: Status) -> bool:
        """Store that a host could not wire a trunk, or can now; whether that is new."""
        failed_host = host if message.status == "ERROR" else ""
        with self.db.read() as connection:
            trunk = connection.execute(_CURRENT, {"trunk": message.id}).first()
        if trunk is None or trunk.host != host or trunk.failed_host == failed_host:
            return False
        if failed_host:
            LOG.warning("host %s could not wire trunk %s: %s", host, message.id, one_line(message.reason))
        with self.db.transaction() as tx:
            tx.write(sa.update(trunks).where(trunks.c.id == message.id).values(failed_host=failed_host))
            tx.log(trunks, {"id": message.id})
        return True
