"""A port's bindings on several hosts, which live migration moves between: one active, the others waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.port_placing import Placing
from neutrino.server.ml2.port_view import RENAMED
from neutrino.server.ml2.ports import provisioning
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.rows import binding_row
from neutrino.server.query import Query

Object = dict[str, Any]
_b = t.port_bindings.c
VIEW = View(
    t.port_bindings,
    key="host",
    scope=sa.true(),
    hidden=("port_id", "levels"),
)
ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"


class PortBindings:
    def __init__(
        self,
        db: Database,
        networks: Networks,
        ports: Ports,
        placing: Placing,
        told: Callable[[Object | None, Object | None], None],
    ) -> None:
        self._db = db
        self._networks = networks
        self._ports = ports
        self._placing = placing
        self._told = told

    def target(self, context: Context, port_id: str, request: Any) -> Object:
        """The port behind the bindings, for the policy. Only ports of compute instances have them."""
        with self._db.read() as connection:
            port = self._ports.load(connection, port_id)
        if not isinstance(request, dict):  # on a create, the policy answers first
            _check_compute(port)
        return {"project_id": port["project_id"]}

    def index(self, context: Context, port_id: str, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return VIEW.many(connection, query, context.project_id, _b.port_id == port_id)

    def show(self, context: Context, port_id: str, host: str, fields: Sequence[str] | None, everyone: bool) -> Object:
        with self._db.read() as connection:
            _check_compute(self._ports.load(connection, port_id))
            row = _api(_needed(connection, port_id, host))
        return row if fields is None else {name: row[name] for name in fields if name in row}

    def create(self, context: Context, port_id: str, values: Object) -> Object:
        def attempt() -> Object:
            with self._db.read() as connection:
                port = self._ports.load(connection, port_id)
                _check_compute(port)
                if _row(connection, port_id, values["host"]) is not None:
                    raise errors.PortBindingAlreadyExists(port_id=port_id, host=values["host"])
                row = self._bound(connection, port, values["host"], values)
            with self._db.transaction() as tx:
                tx.execute(sa.insert(t.port_bindings).values(as_row(t.port_bindings, row)))
                tx.record("port", port_id, port["revision_number"])
            return _api(row)

        return self._db.retrying(attempt)

    def update(self, context: Context, port_id: str, host: str, values: Object, revision: int | None) -> Object:
        def attempt() -> Object:
            with self._db.read() as connection:
                port = self._ports.load(connection, port_id)
                _check_compute(port)
                before = _needed(connection, port_id, host)
                if before["status"] == ACTIVE:
                    raise errors.PortBindingAlreadyActive(port_id=port_id, host=host)
                row = self._bound(connection, port, host, {**before, **values})
            with self._db.transaction() as tx:
                tx.execute(
                    sa.update(t.port_bindings)
                    .where(_b.port_id == port_id, _b.host == host, _b.status == INACTIVE)
                    .values(as_row(t.port_bindings, row))
                )
                tx.record("port", port_id, port["revision_number"])
            return _api(row)

        return self._db.retrying(attempt)

    def _bound(self, connection: Connection, port: Object, host: str, values: Object) -> Object:
        vnic_type = values.get("vnic_type") or "normal"
        profile = values.get("profile") or {}
        network = self._networks.load(connection, port["network_id"])
        binding = self._placing.try_bind(connection, port, network, host, vnic_type, profile)
        if not binding.is_bound:
            raise errors.PortBindingError(port_id=port["id"], host=host)
        asked = {**port, "binding:vnic_type": vnic_type, "binding:profile": profile}
        return binding_row(asked, binding, INACTIVE, host)

    def delete(self, context: Context, port_id: str, host: str, revision: int | None) -> None:
        def attempt() -> None:
            with self._db.read() as connection:
                port = self._ports.load(connection, port_id)
                _check_compute(port)
                before = _needed(connection, port_id, host)
            after = {**port, **_UNBOUND} if before["status"] == ACTIVE else port
            with self._db.transaction() as tx:
                tx.execute(sa.delete(t.port_bindings).where(_b.port_id == port_id, _b.host == host))
                if after is not port:
                    update_row(tx, t.ports, port, after, renamed=RENAMED)
                    provisioning.block(tx, port_id, ())
                tx.record("port", port_id, port["revision_number"] + (after is not port))

        self._db.retrying(attempt)

    def activate(self, context: Context, port_id: str, host: str, body: Any) -> Object:
        """Make the waiting binding the port's own; the one that was waits in its place until it is deleted."""
        told: list[tuple[Object, Object]] = []

        def attempt() -> Object:
            with self._db.read() as connection:
                port = self._ports.load(connection, port_id)
                _check_compute(port)
                row = _needed(connection, port_id, host)
            if row["status"] == ACTIVE:
                raise errors.PortBindingAlreadyActive(port_id=port_id, host=host)
            after = {
                **port,
                "binding:host_id": host,
                "binding:vif_type": row["vif_type"],
                "binding:vif_details": row["vif_details"],
                "binding:vnic_type": row["vnic_type"],
                "binding:profile": row["profile"],
                "status": provisioning.DOWN,
            }
            with self._db.transaction() as tx:
                self._swap(tx, port, after, host)
            told[:] = [(port, after)]
            return _api({**row, "status": ACTIVE})

        answer = self._db.retrying(attempt)
        for before, after in told:
            self._told(before, after)
        return answer

    def _swap(self, tx: Transaction, port: Object, after: Object, host: str) -> None:
        here = _b.port_id == port["id"]
        tx.execute(sa.update(t.port_bindings).where(here, _b.host != host).values(status=INACTIVE))
        tx.execute(sa.update(t.port_bindings).where(here, _b.host == host).values(status=ACTIVE))
        stamp = update_row(tx, t.ports, port, after, renamed=RENAMED)
        provisioning.block(tx, port["id"], [provisioning.L2])
        tx.record("port", port["id"], stamp["revision_number"])


_UNBOUND = {
    "binding:host_id": "",
    "binding:vif_type": "unbound",
    "binding:vif_details": {},
    "status": provisioning.DOWN,
}


def _check_compute(port: Object) -> None:
    if not port["device_owner"].startswith("compute:"):
        raise errors.BadRequest(
            resource="port", msg=f"port {port['id']} belongs to no compute instance: it has no bindings"
        )


def _row(connection: Connection, port_id: str, host: str) -> Object | None:
    found = (
        connection.execute(sa.select(t.port_bindings).where(_b.port_id == port_id, _b.host == host)).mappings().first()
    )
    if found is None:
        return None
    return {k: msgspec.json.decode(v) if k in ("profile", "vif_details", "levels") else v for k, v in found.items()}


def _needed(connection: Connection, port_id: str, host: str) -> Object:
    row = _row(connection, port_id, host)
    if row is None:
        raise errors.PortBindingNotFound(port_id=port_id, host=host)
    return row


def _api(row: Object) -> Object:
    return {name: row[name] for name in ("host", "status", "vnic_type", "vif_type", "profile", "vif_details")}
