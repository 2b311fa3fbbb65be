"""A bound port is ACTIVE when all that has to be done for it is done, and not before.

Binding leaves one block per component: L2 (the agent has wired it), DHCP (its lease can be given). Each is taken away
by whoever did the work; the last one makes the port ACTIVE. All of it passes the port's own row, so that two who finish
at once cannot both believe the other is still at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.clock import now
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.port_view import VIEW

Object = dict[str, Any]
L2, DHCP = "L2", "DHCP"
ACTIVE, DOWN = "ACTIVE", "DOWN"
_p, _b = t.ports.c, t.provisioning_blocks.c


def block(tx: Transaction, port_id: str, components: Iterable[str]) -> None:
    """Hold a port back for these components alone."""
    tx.execute(sa.delete(t.provisioning_blocks).where(_b.port_id == port_id))
    rows = [{"port_id": port_id, "component": component} for component in components]
    if rows:
        tx.execute(sa.insert(t.provisioning_blocks), rows)


class Provisioning:
    def __init__(self, db: Database, told: Callable[[Object, Object], None]) -> None:
        """`told(before, after)` hears of every change of a port's status."""
        self._db = db
        self._told = told

    def complete(self, port_id: str, component: str, host: str) -> bool:
        """A component's work for a port on a host is done; whether that made the port ACTIVE."""
        return self._change(port_id, host, lambda tx: self._completed(tx, port_id, component))

    def lost(self, port_id: str, host: str) -> bool:
        """The port is no longer wired on its host: it is DOWN until it is again."""
        return self._change(port_id, host, lambda tx: self._blocked(tx, port_id))

    def _change(self, port_id: str, host: str, status: Callable[[Transaction], str | None]) -> bool:
        with self._db.read() as connection:
            before = VIEW.load(connection, port_id)
        if before is None or before["binding:host_id"] != host:
            return False  # it has moved on: the news is of yesterday
        if before["binding:vif_type"] in (VIF_UNBOUND, VIF_FAILED):
            return False

        def attempt() -> str | None:
            with self._db.transaction() as tx:
                locked = tx.execute(
                    sa.update(t.ports).where(_p.id == port_id, _p.host == host).values(updated_at=now())
                )
                new = status(tx) if locked.rowcount else None
                if new is None or new == before["status"]:
                    return None
                tx.execute(
                    sa.update(t.ports)
                    .where(_p.id == port_id)
                    .values(status=new, revision_number=_p.revision_number + 1)
                )
                revision = tx.execute(sa.select(_p.revision_number).where(_p.id == port_id)).scalar_one()
                tx.record("port", port_id, revision)
                return new

        new = self._db.retrying(attempt)
        if new is None:
            return False
        self._told(before, {**before, "status": new})
        return new == ACTIVE

    def _completed(self, tx: Transaction, port_id: str, component: str) -> str | None:
        tx.execute(sa.delete(t.provisioning_blocks).where(_b.port_id == port_id, _b.component == component))
        remaining = tx.execute(sa.select(_b.component).where(_b.port_id == port_id).limit(1)).first()
        return ACTIVE if remaining is None else None

    def _blocked(self, tx: Transaction, port_id: str) -> str:
        block(tx, port_id, [L2])
        return DOWN
