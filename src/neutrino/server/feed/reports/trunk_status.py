"""Trunks that their host could not wire completely, by its reports.

Only the host that the parent is bound to counts: after a move, what the previous one reported has no effect, because the
status of the trunk (`trunks/views.py`) compares the two.
"""

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
_t, _p = t.trunks.c, t.ports.c
_CURRENT = sa.select(_p.host, _t.failed_host).join(t.ports, _p.id == _t.port_id).where(_t.id == sa.bindparam("trunk"))


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
            tx.write(sa.update(t.trunks).where(_t.id == message.id).values(failed_host=failed_host))
            tx.log(t.trunks, {"id": message.id})
        return True
