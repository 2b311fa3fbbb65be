"""Tap services and tap flows: create, update, delete, and what happens to them with their ports.

Hosts get a tap flow as a part of both its ports, so every change of a flow is a change of these ports for the feed.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, delete_row, new_id, update_row
from neutrino.server.db.reads import Lookup, first, read
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.views import PORTS
from neutrino.server.quota.quotas import Quotas
from neutrino.server.taas.views import DOWN, FLOWS, SERVICES
from neutrino.server.view_collection import ViewCollection

REVISION = ("revision_number",)
MAX_SOURCES = 500  # tap flows to a port, in all its services: each from another host is a tunnel on the port's host
MAX_TUNNEL_ID = 2**28 - 1  # the lower bits of the key between hosts: see model/taps.py
_s, _f = t.tap_services.c, t.tap_flows.c


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
        made = [new_object(values) | {"status": DOWN} for values in several]
        with self.db.read() as connection:
            for service in made:
                check_owner(service, own_port(connection, context, service["port_id"]))
            check_number(connection, _s.port_id, (each["port_id"] for each in made), "Port", "tap services")
            limits = self._quotas.limits(connection, "tap_service", made)
        with self.db.transaction() as tx:
            # A port that is deleted meanwhile makes this fail on its foreign key, and it is decided again.
            tx.insert(t.tap_services, [_row(t.tap_services, each) for each in made], limits)
            changed_ports(tx, (each["port_id"] for each in made))
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        """Its flows are deleted with it, as in Neutron."""
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
            flows = FLOWS.load_where(connection, _f.tap_service_id == key)
        with self.db.transaction() as tx:
            # A flow that was made since makes this fail on its foreign key, and it is decided again.
            delete_flows(tx, flows)
            delete_row(tx, t.tap_services, before)
            changed_ports(tx, [before["port_id"]])


class TapFlows(Taps):
    def __init__(self, db: Database, quotas: Quotas) -> None:
        super().__init__(db, FLOWS, quotas)

    @retried
    def create_several(self, context: Context, several: Sequence[Object]) -> list[Object]:
        made = [new_object(values) | {"status": DOWN} for values in several]
        services: dict[str, Object] = {}
        with self.db.read() as connection:
            for flow in made:
                service = _service(connection, context, flow)
                services[service["id"]] = service
                source = own_port(connection, context, flow["source_port"])
                if not context.is_admin:  # who may tap the ports of any project
                    check_owner(flow, source)
            check_number(connection, _f.source_port, (each["source_port"] for each in made), "Port", "tap flows")
            sinks = (services[each["tap_service_id"]]["port_id"] for each in made)
            of_services = t.tap_flows.join(t.tap_services, _s.id == _f.tap_service_id)
            check_number(connection, _s.port_id, sinks, "Port", "tap flows to it", MAX_SOURCES, of_services)
            limits = self._quotas.limits(connection, "tap_flow", made)
        # A tunnel id is a guess, which the unique key confirms.
        rows = [{**_row(t.tap_flows, each), "tunnel_id": random.randint(1, MAX_TUNNEL_ID)} for each in made]
        with self.db.transaction() as tx:
            tx.insert(t.tap_flows, rows, limits)
            changed_ports(tx, (each["source_port"] for each in made))
            changed_ports(tx, (each["port_id"] for each in services.values()))
        return made

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = self._view.get(connection, key, more=REVISION)
            service = SERVICES.get(connection, before["tap_service_id"])
        with self.db.transaction() as tx:
            delete_flows(tx, [before])
            changed_ports(tx, [service["port_id"]])


# --- shared with tap mirrors ------------------------------------------------------------------------------------------


def new_object(values: Object) -> Object:
    return {"id": new_id(), "tenant_id": values["project_id"], **values}


def own_port(connection: Connection, context: Context, port_id: str) -> Object:
    """A port that the caller sees."""
    port = PORTS.load(connection, port_id, context.project_id, everyone=context.is_admin)
    if port is None:
        raise errors.PortNotFound(id=port_id)
    return port


def check_owner(made: Object, port: Object) -> None:
    if port["project_id"] != made["project_id"]:
        raise errors.PortDoesNotBelongToTenant(port_id=port["id"], project_id=made["project_id"])


def changed_ports(tx: Transaction, port_ids: Iterable[str]) -> None:
    """Hosts get taps as a part of ports."""
    for port_id in port_ids:
        tx.record("port", port_id)


def _row(table: sa.Table, values: Object) -> Object:
    return {**as_row(table, values), "revision_number": 0, "reported_host": "", "reported_status": ""}


def _service(connection: Connection, context: Context, flow: Object) -> Object:
    key, everyone = flow["tap_service_id"], context.is_admin
    service = SERVICES.get(connection, key, context.project_id, everyone=everyone)
    if service["project_id"] != flow["project_id"]:
        raise errors.TapServiceNotBelongToTenant(tap_service_id=service["id"], project_id=flow["project_id"])
    return service


def delete_flows(tx: Transaction, flows: Sequence[Object]) -> None:
    """Delete flows that were read. Stale if one is gone already: it would be counted twice."""
    if not flows:
        return
    tx.change(sa.delete(t.tap_flows).where(_f.id.in_([flow["id"] for flow in flows])), rows=len(flows))
    for flow in flows:
        tx.log(t.tap_flows, flow, deleted=True)
        tx.use("tap_flow", flow["project_id"], -1)
    changed_ports(tx, (flow["source_port"] for flow in flows))


# --- hook of ports ----------------------------------------------------------------------------------------------------

_PORT = sa.bindparam("port", type_=sa.String)
_TAPPED = Lookup(
    sa.select(sa.literal_column("1")).where(
        sa.or_(sa.exists().where(_s.port_id == _PORT), sa.exists().where(_f.source_port == _PORT))
    ),
    first,
)


def port_changes(connection: Connection, context: Context, before: Object | None, after: Object | None) -> Write | None:
    """With a port that is deleted, its tap services and the flows from and to it are."""
    if before is None or after is not None:
        return None
    if read(connection, _TAPPED(port=before["id"])) is None:  # as most ports
        return None
    services = SERVICES.load_where(connection, _s.port_id == before["id"])
    keys = [service["id"] for service in services]
    flows = FLOWS.load_where(connection, sa.or_(_f.source_port == before["id"], _f.tap_service_id.in_(keys)))
    if not services and not flows:
        return None
    sinks = sa.select(_s.port_id).where(_s.id.in_([flow["tap_service_id"] for flow in flows]))
    peers = set(connection.execute(sinks).scalars())

    def write(tx: Transaction) -> None:
        delete_flows(tx, flows)
        if services:
            tx.change(sa.delete(t.tap_services).where(_s.id.in_(keys)), rows=len(services))
        for service in services:
            tx.log(t.tap_services, service, deleted=True)
            tx.use("tap_service", service["project_id"], -1)
        changed_ports(tx, peers)

    return write
