"""Port bindings API: bindings of one port on several hosts, which live migration moves between.

One binding is ACTIVE and also in the port's own row; the others are INACTIVE until `activate` swaps them.

While a port has an INACTIVE binding, hosts send copies of its packets to that host, as a live migration needs. Nova may
fail before it deletes the binding. So copies end after `inactive_binding_timeout`; the binding itself stays Nova's.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.port import COMPUTE_OWNER
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, changed, exists, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.hosts.registry import timestamp
from neutrino.server.ml2.driver_api import DriverContext
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.ports import hardware, provisioning
from neutrino.server.ml2.ports.binding import EXPIRED, UNBOUND, Binder, binding_row
from neutrino.server.ml2.ports.collection import Ports, check_macs_free
from neutrino.server.ml2.views import PORT_RENAMED
from neutrino.server.query import Query

LOG = logging.getLogger(__name__)
NAMES = ("host", "status", "vnic_type", "vif_type", "profile", "vif_details")
VIEW = View(t.port_bindings, columns=NAMES, key="host", scope=sa.true())  # policy decides by the port's project
_ROWS = View(t.port_bindings, key="host", scope=sa.true())
ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"
BATCH = 500  # bindings that one sweep expires


@dataclass(eq=False)
class PortBindings:
    db: Database
    operations: Operations
    networks: Networks
    ports: Ports
    binder: Binder
    timeout: float = 0  # seconds after which an INACTIVE binding has no effect; 0: never

    def __post_init__(self) -> None:
        self.operations.undo["port_binding"] = lambda binding: self.delete(
            admin_context(), binding["port_id"], binding["host"], None
        )

    # --- reading --------------------------------------------------------------------------------------------------

    def target(self, context: Context, port_id: str, request: object) -> Object:
        """The project of the port, for policy rules. Only ports of compute instances have bindings."""
        with self.db.read() as connection:
            port = self.ports.view.get(connection, port_id)
        if not isinstance(request, dict):  # on a create, policy is checked before the kind of port
            _check_compute(port)
        return {"project_id": port["project_id"]}

    def index(self, context: Context, port_id: str, query: Query) -> list[Object]:
        with self.db.read() as connection:
            return VIEW.many(connection, query, context.project_id, t.port_bindings.c.port_id == port_id)

    def show(self, context: Context, port_id: str, host: str, fields: Sequence[str] | None, everyone: bool) -> Object:
        with self.db.read() as connection:
            _check_compute(self.ports.view.get(connection, port_id))
            row = _api(_existing(connection, port_id, host))
        return row if fields is None else {name: row[name] for name in fields if name in row}

    # --- writing --------------------------------------------------------------------------------------------------

    @retried
    def create(self, context: Context, port_id: str, values: Object) -> Object:
        with self.db.read() as connection:
            port = self._port(connection, port_id)
            network = self.networks.view.get(connection, port["network_id"])
            if exists(connection, t.port_bindings.c.port_id == port_id, t.port_bindings.c.host == values["host"]):
                raise errors.PortBindingAlreadyExists(port_id=port_id, host=values["host"])
            row = self._bound(connection, port, network, values["host"], values)
        with self.operations.write([_context("create", row, port, network)]) as tx:
            tx.insert(t.port_bindings, [as_row(t.port_bindings, row)])
            tx.record("port", port_id, port["project_id"])
        return _api(row)

    @retried
    def update(self, context: Context, port_id: str, host: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            port = self._port(connection, port_id)
            network = self.networks.view.get(connection, port["network_id"])
            before = _existing(connection, port_id, host)
            if before["status"] == ACTIVE:
                raise errors.PortBindingAlreadyActive(port_id=port_id, host=host)
            row = self._bound(connection, port, network, host, {**before, **values})
        with self.operations.write([_context("update", row, port, network, before)]) as tx:
            where = [
                t.port_bindings.c.port_id == port_id,
                t.port_bindings.c.host == host,
                t.port_bindings.c.status == INACTIVE,
            ]
            # Stale if it was activated or deleted meanwhile: an ACTIVE binding must not change under the port.
            tx.change(sa.update(t.port_bindings).where(*where).values(as_row(t.port_bindings, row)))
            tx.record("port", port_id, port["project_id"])
        return _api(row)

    @retried
    def delete(self, context: Context, port_id: str, host: str, revision: int | None) -> None:
        with self.db.read() as connection:
            port = self._port(connection, port_id)
            network = self._network_for_drivers(connection, port, "delete")
            before = _existing(connection, port_id, host)
            after, moved = None, []
            if before["status"] == ACTIVE:
                after = changed(port, {"binding:host_id": "", **UNBOUND.port_values})
                moved = self.ports.following(connection, port, after)
        contexts = [_context("delete", before, port, network)]
        if after is not None:
            contexts.append(DriverContext("update", "port", after, port, network=network))
        with self.operations.write(contexts, moved) as tx:
            # With the status that was read: if it was activated since, the port has to be unbound too.
            as_read = (
                t.port_bindings.c.port_id == port_id,
                t.port_bindings.c.host == host,
                t.port_bindings.c.status == before["status"],
            )
            tx.change(sa.delete(t.port_bindings).where(*as_read))
            if after is not None:
                update_row(tx, t.ports, port, after, renamed=PORT_RENAMED)
                provisioning.block(tx, port_id, ())
            tx.record("port", port_id, port["project_id"])

    @retried
    def activate(self, context: Context, port_id: str, host: str, body: object) -> Object:
        """Make an INACTIVE binding the port's own; the one that was ACTIVE stays until it is deleted."""
        with self.db.read() as connection:
            port = self._port(connection, port_id)
            network = self._network_for_drivers(connection, port, "activate")
            row = _existing(connection, port_id, host)
            if row["status"] == ACTIVE:
                raise errors.PortBindingAlreadyActive(port_id=port_id, host=host)
            after = self._activated(connection, port, row)
            moved = self.ports.following(connection, port, after)
        binding = {**row, "status": ACTIVE}
        contexts = [
            _context("activate", binding, port, network, row),
            DriverContext("update", "port", after, port, network=network),
        ]
        with self.operations.write(contexts, moved) as tx:
            here = t.port_bindings.c.port_id == port_id
            # Also of other INACTIVE ones: a migration from this host may follow.
            left = {"status": INACTIVE, "inactive_since": self._now()}
            tx.write(sa.update(t.port_bindings).where(here, t.port_bindings.c.host != host).values(left))
            tx.write(
                sa.update(t.port_bindings)
                .where(here, t.port_bindings.c.host == host)
                .values(status=ACTIVE, inactive_since=None)
            )
            update_row(tx, t.ports, port, after, renamed=PORT_RENAMED)
            # DHCP does not block it: the instance has its lease already, and keeps running while it migrates.
            provisioning.block(tx, port_id, [provisioning.L2])
            tx.after_commit(self.ports.notify, port, after)
        return _api(binding)

    # --- expiry ---------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """End the copies for bindings that have been INACTIVE for too long."""
        if not self.timeout:
            return
        before = timestamp(self._clock() - self.timeout)
        old = sa.and_(
            t.port_bindings.c.status == INACTIVE,
            t.port_bindings.c.inactive_since < before,
            t.port_bindings.c.inactive_since != EXPIRED,
        )
        with self.db.read() as connection:  # first: nearly always there is none
            found = connection.execute(
                sa.select(t.port_bindings.c.port_id, t.port_bindings.c.host).where(old).limit(BATCH)
            ).all()
        for row in found:
            self._expire(row.port_id, row.host, old)
            LOG.warning(
                "port %s: its INACTIVE binding to host %s is older than inactive_binding_timeout: no copies there",
                *(row.port_id, row.host),
            )

    @retried
    def _expire(self, port_id: str, host: str, old: sa.ColumnElement[bool]) -> None:
        this = sa.update(t.port_bindings).where(
            t.port_bindings.c.port_id == port_id, t.port_bindings.c.host == host, old
        )
        with self.db.transaction() as tx:
            if tx.execute(this.values(inactive_since=EXPIRED)).rowcount:
                tx.record("port", port_id)

    def _clock(self) -> float:
        return self.binder.registry.clock()

    def _now(self) -> str:
        return timestamp(self._clock())

    # --- parts ----------------------------------------------------------------------------------------------------

    def _port(self, connection: Connection, port_id: str) -> Object:
        port = self.ports.view.get(connection, port_id)
        _check_compute(port)
        return port

    def _activated(self, connection: Connection, port: Object, row: Object) -> Object:
        """The port with the values of the binding that becomes its own."""
        values = {name: row[column] for name, column in PORT_RENAMED.items()}
        values[hardware.PROFILE] = hardware.shown_profile(row["profile"], port["trusted"])
        mac = hardware.device_mac(values) or port["mac_address"]
        after = changed(port, {**values, "mac_address": mac, "status": provisioning.DOWN})
        if mac != port["mac_address"]:
            check_macs_free(connection, [after])
        return after

    def _network_for_drivers(self, connection: Connection, port: Object, operation: str) -> Object:
        """The query is saved if no driver is notified."""
        notifies = self.operations.mechanisms.notifies
        if notifies(operation, "port_binding") or notifies("update", "port"):
            return self.networks.view.get(connection, port["network_id"])
        return {"id": port["network_id"]}

    def _bound(self, connection: Connection, port: Object, network: Object, host: str, values: Object) -> Object:
        """The row of an INACTIVE binding to the host."""
        wanted = {
            **port,
            "binding:host_id": host,
            "binding:vnic_type": values.get("vnic_type") or "normal",
            "binding:profile": values.get("profile") or {},
        }
        binding = self.binder.bind(connection, wanted, network)
        if not binding.is_bound:
            raise errors.PortBindingError(port_id=port["id"], host=host)
        return {**binding_row(wanted, binding, INACTIVE), "inactive_since": self._now()}


def _context(
    operation: str, row: Object, port: Object, network: Object, original: Object | None = None
) -> DriverContext:
    current = {**row, "id": row["port_id"]}
    return DriverContext(operation, "port_binding", current, original, port=port, network=network)


def _check_compute(port: Object) -> None:
    if not port["device_owner"].startswith(COMPUTE_OWNER):
        raise errors.BadRequest(
            resource="port", msg=f"port {port['id']} belongs to no compute instance: it has no bindings"
        )


def _existing(connection: Connection, port_id: str, host: str) -> Object:
    rows = _ROWS.load_where(connection, t.port_bindings.c.port_id == port_id, t.port_bindings.c.host == host)
    if not rows:
        raise errors.PortBindingNotFound(port_id=port_id, host=host)
    return rows[0]


def _api(row: Object) -> Object:
    return {name: row[name] for name in NAMES}
