"""A bound port is ACTIVE when all that has to be done for it is done, and not before.

Binding leaves one block per component: L2 (the agent has wired it), DHCP (its lease can be given). Each is taken away
by whoever did the work; the last one makes the port ACTIVE. All of it passes the port's own row, so that two who finish
at once cannot both believe the other is still at it.

Work is done as of a revision of the port. If the port is newer than that, by a new binding or by anything else, the news
is of yesterday and changes nothing: whoever did the work hears of the newer revision too, and answers for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.clock import now
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.port_view import VIEW

Object = dict[str, Any]
Claims = Mapping[tuple[str, str], int | None]  # by port and host: the revision that the work was done for
L2, DHCP = "L2", "DHCP"
ACTIVE, DOWN = "ACTIVE", "DOWN"
BATCH = 100  # ports that one transaction changes
_p, _b = t.ports.c, t.provisioning_blocks.c
_WAITING = sa.select(_p.id, _p.network_id, _p.host, _p.revision_number).where(_b.port_id == _p.id, _b.component == DHCP)
_WAITS = _WAITING.where(_p.id == sa.bindparam("port"))
_BLOCKS = sa.select(_b.component).where(_b.port_id == sa.bindparam("port"))
_AMONG: sa.BindParameter[list[str]] = sa.bindparam("among", expanding=True)
_UNDONE = sa.select(_p.id, _p.host).where(
    _p.id.in_(_AMONG),
    sa.or_(_p.status != ACTIVE, sa.exists(sa.select(_b.port_id).where(_b.port_id == _p.id))),
)
_LOCK = (
    sa.select(_p.id, _p.host, _p.status, _p.revision_number, _p.vif_type)
    .where(_p.id.in_(_AMONG))
    .order_by(_p.id)  # one order for all: they cannot wait for each other
    .with_for_update()
)
_HELD = sa.select(_b.port_id).where(_b.port_id.in_(_AMONG)).distinct()


def block(tx: Transaction, port_id: str, components: Iterable[str]) -> None:
    """Hold a port back for these components alone."""
    tx.execute(sa.delete(t.provisioning_blocks).where(_b.port_id == port_id))
    rows = [{"port_id": port_id, "component": component} for component in components]
    if rows:
        tx.execute(sa.insert(t.provisioning_blocks), rows)


class Done(NamedTuple):
    """Somebody's work for a port on a host, as of a revision; None: of whichever the port has."""

    port_id: str
    host: str
    revision: int | None = None


class WaitingPort(NamedTuple):
    """A bound port that waits for a DHCP agent to be ready to give its lease."""

    port_id: str
    network_id: str
    host: str


@dataclass(frozen=True)
class LeaseProviders:
    """Queries for the DHCP agents that give ports their leases (`server/dhcp/lease_providers.py`)."""

    is_provider: Callable[[Connection, str, str, str], bool]  # network, host of the port, host of the agent
    without_live: Callable[[Connection, Sequence[WaitingPort], str], list[WaitingPort]]  # agents dead since the cutoff


class Provisioning:
    def __init__(self, db: Database, told: Callable[[Object, Object], None], lease_providers: LeaseProviders) -> None:
        """`told(before, after)` hears of every change of a port's status."""
        self._db = db
        self._told = told
        self._lease_providers = lease_providers

    def complete(self, port_id: str, component: str, host: str, revision: int | None = None) -> bool:
        """A component's work for a port on a host is done; whether that made the port ACTIVE."""
        return bool(self.complete_all([Done(port_id, host, revision)], component))

    def complete_all(self, done: Iterable[Done], component: str) -> set[str]:
        """The same for ports of any hosts; those that became ACTIVE.

        A host says it again for all its ports when it starts: those that are ACTIVE cost one read together.
        """
        active: set[str] = set()
        claims = {(one.port_id, one.host): one.revision for one in done}
        ids = sorted({port_id for port_id, _ in claims})
        for start in range(0, len(ids), BATCH):
            with self._db.read() as connection:
                rows = connection.execute(_UNDONE, {"among": ids[start : start + BATCH]}).all()
                undone = [row.id for row in rows if (row.id, row.host) in claims]
                before = {port["id"]: port for port in VIEW.load_in(connection, "id", undone)} if undone else {}
            if not undone:
                continue
            found = self._db.retrying(partial(self._complete, undone, claims, component))
            for key, status in found.items():
                if key in before:
                    self._told({**before[key], "status": status}, {**before[key], "status": ACTIVE})
            active |= found.keys()
        return active

    def _complete(self, ids: Sequence[str], claims: Claims, component: str) -> dict[str, str]:
        """The ports that are ACTIVE now, with what they were."""
        with self._db.transaction() as tx:
            there = {row.id: row for row in tx.execute(_LOCK, {"among": list(ids)}) if _is_of(row, claims)}
            if not there:
                return {}
            tx.execute(sa.delete(t.provisioning_blocks).where(_b.port_id.in_(list(there)), _b.component == component))
            held = set(tx.execute(_HELD, {"among": list(there)}).scalars())
            if held:  # through the port's row, so that the next one to finish sees this
                tx.execute(sa.update(t.ports).where(_p.id.in_(sorted(held))).values(updated_at=now()))
            active = {key: row.status for key, row in there.items() if key not in held and row.status != ACTIVE}
            if active:
                tx.execute(
                    sa.update(t.ports)
                    .where(_p.id.in_(list(active)))
                    .values(status=ACTIVE, revision_number=_p.revision_number + 1, updated_at=now())
                )
            for key in active:
                tx.record("port", key, there[key].revision_number + 1)
            return active

    def ready(self, port_id: str, component: str, revision: int, host: str) -> bool:
        """A host that gives the port its lease, though it may not wire it, has done its part as of a revision.

        News of an older revision says nothing: the host hears of the newer one, and answers for that. Whether the host
        is one that the port waits for is asked here, so that none speaks for ports that are not its own.
        """
        if component != DHCP:
            return False
        with self._db.read() as connection:
            port = connection.execute(_WAITS, {"port": port_id}).first()
            if port is None or revision < port.revision_number:
                return False
            if not self._lease_providers.is_provider(connection, port.network_id, port.host, host):
                return False
        return self.complete(port_id, component, port.host, revision)

    def release_unserved(self, cutoff: str) -> set[str]:
        """Ports that wait for DHCP of agents that are all dead or down are held back no longer; those now ACTIVE."""
        with self._db.read() as connection:
            waiting = [WaitingPort(row.id, row.network_id, row.host) for row in connection.execute(_WAITING)]
            unserved = self._lease_providers.without_live(connection, waiting, cutoff)
        return self.complete_all([Done(port.port_id, port.host) for port in unserved], DHCP) if unserved else set()

    def lost(self, port_id: str, host: str) -> bool:
        """The port is no longer wired on its host: it is DOWN until it is again. Whether it was not before."""
        with self._db.read() as connection:
            before = VIEW.load(connection, port_id)
            is_blocked = L2 in connection.execute(_BLOCKS, {"port": port_id}).scalars()
        if before is None or before["binding:host_id"] != host:
            return False  # it has moved on: the news is of yesterday
        if before["binding:vif_type"] in (VIF_UNBOUND, VIF_FAILED):
            return False
        if before["status"] == DOWN and is_blocked:
            return False

        def attempt() -> str:
            with self._db.transaction() as tx:
                port = tx.execute(_LOCK, {"among": [port_id]}).first()
                if port is None or port.host != host:
                    return DOWN
                block(tx, port_id, [L2])
                if port.status != DOWN:
                    values = {"status": DOWN, "revision_number": port.revision_number + 1, "updated_at": now()}
                    tx.execute(sa.update(t.ports).where(_p.id == port_id).values(values))
                    tx.record("port", port_id, port.revision_number + 1)
                return str(port.status)

        was = self._db.retrying(attempt)
        if was == DOWN:
            return False
        self._told({**before, "status": was}, {**before, "status": DOWN})
        return True


def _is_of(port: Any, claims: Claims) -> bool:
    """Whether somebody's work is for the port as it is now."""
    if port.vif_type in (VIF_UNBOUND, VIF_FAILED) or (port.id, port.host) not in claims:
        return False
    revision = claims[port.id, port.host]
    return revision is None or port.revision_number <= revision
