"""Tap services and tap flows: create, update, delete, and what happens to them with their ports.

Hosts get a tap flow as a part of both its ports, so every change of a flow is a change of these ports for the feed.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.taas.errors import PortDoesNotBelongToTenant, TapServiceNotBelongToTenant
from neutrino.features.taas.status import DOWN, FLOWS, SERVICES
from neutrino.features.taas.tables import tap_flows, tap_services
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, new_id, update_row
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.views import PORTS
from neutrino.server.quota.quotas import Quotas
from neutrino.server.view_collection import ViewCollection

REVISION = ("revision_number",)
MAX_SOURCES = 500  # tap flows to a port, in all its services: each from another host is a tunnel on the port's host
MAX_TUNNEL_ID = 2**28 - 1  # the lower bits of the key between hosts: see model/taps.py


class Taps(ViewCollection, ABC):
    """What services, flows and mirrors have in common. Their names and descriptions alone can be changed."""

    def __init__(self, db: Database, view: View, quotas: Quotas) -> None:
        super().__init__(db, view)
        self._quotas = quotas

    def create(self, context: Context, values: Object) -> Object:
        return self.create_several(context, [values])[0]

    @abstractmethod
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]: ...

    @retried
    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
        with self.db.transaction() as tx:
            update_row(tx, self._view.table, before, values)
        return {**before, **values}


class TapServices(Taps):
    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, SERVICES, quotas)

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        services = [new_object(values) | {"status": DOWN} for values in several]
        port_ids = [service["port_id"] for service in services]
        with self.db.read() as connection:
            for service in services:
                check_owner(service, visible_port(connection, context, service["port_id"]))
            check_number(connection, tap_services.c.port_id, port_ids, "Port", "tap services")
            limits = self._quotas.limits(connection, "tap_service", services)
        with self.db.transaction() as tx:
            # A port that is deleted meanwhile makes this fail on its foreign key, and it is decided again.
            tx.insert(tap_services, [_row(tap_services, service) for service in services], limits)
            record_ports(tx, port_ids)
        return services

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        """Its flows are deleted with it, as in Neutron."""
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
            flows = FLOWS.load_where(connection, tap_flows.c.tap_service_id == key)
        with self.db.transaction() as tx:
            # A flow that was created since makes this fail on its foreign key, and it is decided again.
            delete_rows(tx, tap_flows, flows)
            delete_row(tx, tap_services, before)
            record_ports(tx, [before["port_id"], *(flow["source_port"] for flow in flows)])


class TapFlows(Taps):
    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, FLOWS, quotas)

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        flows = [new_object(values) | {"status": DOWN} for values in several]
        sources = [flow["source_port"] for flow in flows]
        with self.db.read() as connection:
            sinks = []
            for flow in flows:
                sinks.append(_service(connection, context, flow)["port_id"])
                source = visible_port(connection, context, flow["source_port"])
                if not context.is_admin:  # who may tap the ports of any project
                    check_owner(flow, source)
            check_number(connection, tap_flows.c.source_port, sources, "Port", "tap flows")
            of_services = tap_flows.join(tap_services, tap_services.c.id == tap_flows.c.tap_service_id)
            sink = tap_services.c.port_id
            check_number(connection, sink, sinks, "Port", "tap flows to it", MAX_SOURCES, of_services)
            limits = self._quotas.limits(connection, "tap_flow", flows)
        # A tunnel id is a guess, which the unique key confirms.
        rows = [{**_row(tap_flows, flow), "tunnel_id": random.randint(1, MAX_TUNNEL_ID)} for flow in flows]
        with self.db.transaction() as tx:
            tx.insert(tap_flows, rows, limits)
            record_ports(tx, [*sources, *sinks])
        return flows

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
            service = SERVICES.get(connection, before["tap_service_id"])
        with self.db.transaction() as tx:
            delete_rows(tx, tap_flows, [before])
            record_ports(tx, [before["source_port"], service["port_id"]])


def _row(table: sa.Table, values: Object) -> Object:
    return {**as_row(table, values), "revision_number": 0, "reported_host": "", "reported_status": ""}


def _service(connection: Connection, context: Context, flow: Object) -> Object:
    service = SERVICES.get(connection, flow["tap_service_id"], context.project_id, everyone=context.is_admin)
    if service["project_id"] != flow["project_id"]:
        raise TapServiceNotBelongToTenant(tap_service_id=service["id"], project_id=flow["project_id"])
    return service


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """With a port that is deleted, its tap services and the flows from and to it are."""
    if before is None or after is not None:
        return None
    services = SERVICES.load_where(connection, tap_services.c.port_id == before["id"])
    of_services = tap_flows.c.tap_service_id.in_([service["id"] for service in services])
    flows = FLOWS.load_where(connection, sa.or_(tap_flows.c.source_port == before["id"], of_services))
    service_ids = [flow["tap_service_id"] for flow in flows]
    sinks = connection.execute(sa.select(tap_services.c.port_id).where(tap_services.c.id.in_(service_ids)))
    peers = {*sinks.scalars(), *(flow["source_port"] for flow in flows)}

    def write(tx: Transaction) -> None:
        delete_rows(tx, tap_flows, flows)
        delete_rows(tx, tap_services, services)
        record_ports(tx, peers)

    return write


# --- shared with tap mirrors ------------------------------------------------------------------------------------------


def new_object(values: Object) -> Object:
    return {"id": new_id(), "tenant_id": values["project_id"], **values}


def visible_port(connection: Connection, context: Context, port_id: str) -> Object:
    """A port that the caller sees."""
    port = PORTS.load(connection, port_id, context.project_id, everyone=context.is_admin)
    if port is None:
        raise errors.PortNotFound(id=port_id)
    return port


def check_owner(tap: Object, port: Object) -> None:
    if port["project_id"] != tap["project_id"]:
        raise PortDoesNotBelongToTenant(port_id=port["id"], project_id=tap["project_id"])


def delete_rows(tx: Transaction, table: sa.Table, objects: Sequence[Object]) -> None:
    """Delete objects that were read. Stale if one is gone already: it would be counted twice."""
    if not objects:
        return
    tx.change(sa.delete(table).where(table.c.id.in_([one["id"] for one in objects])), rows=len(objects))
    for one in objects:
        tx.log(table, one, deleted=True)
        tx.use(t.quota_of(table), one["project_id"], -1)


def record_ports(tx: Transaction, port_ids: Iterable[str]) -> None:
    """Log a change of ports, as hosts get taps as a part of them."""
    for port_id in port_ids:
        tx.record("port", port_id)
