"""The bindings of subports: a subport is bound where its parent is, in the transaction that binds or unbinds the parent.

Two writes concern them: the parent's host changes (`with_parent`, called by every write of a port's host), and a subport is
added or removed (`changed`). Both raise the trunk's `generation` on the condition that it is as they read it, so of two at
once one is repeated, and no subport stays behind on another host.

A new trunk and the first binding of its parent exclude each other by the parent's row: see `new_trunk` and
`refuse_unknown`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.model.objects import Object
from neutrino.model.trunks import SUBPORT_OWNER
from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.operations import NO_EVENT, PendingWrite
from neutrino.server.ml2.ports.collection import Ports

_NEXT = (
    sa.update(trunks)
    .where(trunks.c.id == sa.bindparam("trunk"), trunks.c.generation == sa.bindparam("as_read", type_=sa.Integer))
    .values(generation=trunks.c.generation + 1)
)
# Changes nothing but locks the row, if the port is as it was read.
_LOCK_PORT = (
    sa.update(t.ports)
    .where(t.ports.c.id == sa.bindparam("port"), t.ports.c.revision_number == sa.bindparam("as_read", type_=sa.Integer))
    .values(status=t.ports.c.status)
)
_UNKNOWN = sa.update(trunks).where(trunks.c.port_id == sa.bindparam("port")).values(port_id=trunks.c.port_id)
_AS_PARENT = sa.update(trunks).where(trunks.c.port_id == sa.bindparam("port")).values(generation=trunks.c.generation)
_AS_SUBPORT = (
    sa.update(trunk_subports)
    .where(trunk_subports.c.port_id == sa.bindparam("port"))
    .values(trunk_id=trunk_subports.c.trunk_id)
)


@dataclass(frozen=True)
class Followers:
    ports: Ports

    def with_parent(self, connection: Connection, before: Object, after: Object) -> list[PendingWrite]:
        """The writes that bind the subports of a parent whose host changes; none for other ports."""
        trunk_id, host = before["trunk_id"], after["binding:host_id"]
        if trunk_id is None or host == before["binding:host_id"]:
            return []
        found = connection.execute(sa.select(trunks.c.generation).where(trunks.c.id == trunk_id)).first()
        generation = -1 if found is None else found.generation  # deleted since: the write is repeated
        members = (
            connection.execute(sa.select(trunk_subports.c.port_id).where(trunk_subports.c.trunk_id == trunk_id))
            .scalars()
            .all()
        )
        moved = self._load(connection, members)
        return [
            PendingWrite(NO_EVENT, lambda tx: claim(tx, trunk_id, generation)),
            *self.bound(connection, moved, trunk_id, host),
        ]

    def bound(self, connection: Connection, ports: Sequence[Object], trunk_id: str, host: str) -> list[PendingWrite]:
        """The writes that bind subports to the parent's host; without one, that unbind them."""
        values = {"binding:host_id": host} | ({"device_owner": SUBPORT_OWNER, "device_id": trunk_id} if host else {})
        return self._updates(connection, ports, values)

    def released(self, connection: Connection, ids: Sequence[str]) -> list[PendingWrite]:
        """The writes that unbind ports that are no subports any more."""
        values = {"binding:host_id": "", "device_owner": "", "device_id": ""}
        return self._updates(connection, self._load(connection, ids), values)

    def _load(self, connection: Connection, ids: Sequence[str]) -> list[Object]:
        return self.ports.view.load_in(connection, "id", sorted(ids)) if ids else []

    def _updates(self, connection: Connection, ports: Sequence[Object], values: Object) -> list[PendingWrite]:
        wanted = sorted({port["network_id"] for port in ports})
        networks: Mapping[str, Object] = {}
        if wanted:
            loaded = self.ports.networks.view.load_in(connection, "id", wanted)
            networks = {network["id"]: network for network in loaded}
        out = []
        for port in sorted(ports, key=lambda each: each["id"]):  # in one order: no deadlocks
            pending = self.ports.prepare_update(connection, port, values, networks[port["network_id"]])
            if pending is not None:
                out.append(self._notifying(port, pending))
        return out

    def _notifying(self, before: Object, pending: PendingWrite) -> PendingWrite:
        def write(tx: Transaction) -> None:
            pending.write(tx)
            tx.after_commit(self.ports.notify, before, dict(pending.context.current))

        return PendingWrite(pending.context, write)


def claim(tx: Transaction, trunk_id: str, generation: int) -> None:
    """Exclude all other changes of subports and of the parent's host since the generation was read."""
    tx.change(_NEXT, {"trunk": trunk_id, "as_read": generation})


def new_trunk(tx: Transaction, parent: Object) -> None:
    """Exclude a binding of the parent since it was read, and that it becomes a subport."""
    _lock(tx, parent)
    tx.change(_AS_SUBPORT, {"port": parent["id"]}, rows=0)


def refuse_unknown(tx: Transaction, port: Object) -> None:
    """Repeat the binding of a port that has become a parent since it was read: it needs the trunk's bridge."""
    if port.get("trunk_id", "") is None:
        tx.change(_UNKNOWN, {"port": port["id"]}, rows=0)


def new_subport(tx: Transaction, port: Object) -> None:
    """Exclude changes of the port since it was read, and that it becomes a parent."""
    _lock(tx, port)
    tx.change(_AS_PARENT, {"port": port["id"]}, rows=0)


def _lock(tx: Transaction, port: Object) -> None:
    tx.change(_LOCK_PORT, {"port": port["id"], "as_read": port["revision_number"]})
    tx.exclude_other_nodes(t.ports.c.status, [port["id"]])
