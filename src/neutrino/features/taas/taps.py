"""Tap services and tap flows: create, update, delete, and what happens to them with their ports.

Hosts get a tap flow as a part of both its ports, so every change of a flow is a change of these ports for the feed.
"""

import random
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.taas.errors import PortDoesNotBelongToTenant, TapServiceNotBelongToTenant
from neutrino.features.taas.status import DOWN, FLOWS, SERVICES
from neutrino.features.taas.tables import tap_flows, tap_services
from neutrino.model.objects import Object
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction
from neutrino.server.host_limits import check_number
from neutrino.server.ml2.ports.uses import Write
from neutrino.server.ml2.views import PORTS

MAX_SOURCES = 500  # tap flows to a port, in all its services: each from another host is a tunnel on the port's host
MAX_TUNNEL_ID = 2**28 - 1  # the lower bits of the key between hosts: see model/taps.py


class TapServices(Collection):
    def new(self, context: Context, values: Object) -> Object:
        return {**super().new(context, values), "status": DOWN}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for service in objects:
            check_owner(service, PORTS.get_visible(connection, context, service["port_id"]))
        check_number(
            connection, tap_services.c.port_id, [service["port_id"] for service in objects], "Port", "tap services"
        )

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:  # its flows are deleted with it, as in Neutron
            flows = FLOWS.load_where(tx.connection, tap_flows.c.tap_service_id == before["id"])
            delete_rows(tx, tap_flows, flows)
            record_ports(tx, [before["port_id"], *(flow["source_port"] for flow in flows)])
        elif before is None and after is not None:
            record_ports(tx, [after["port_id"]])


class TapFlows(Collection):
    def new(self, context: Context, values: Object) -> Object:
        # A tunnel id is a guess, which the unique key confirms.
        return {**super().new(context, values), "status": DOWN, "tunnel_id": random.randint(1, MAX_TUNNEL_ID)}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        sinks = []
        for flow in objects:
            sinks.append(_service(connection, context, flow)["port_id"])
            source = PORTS.get_visible(connection, context, flow["source_port"])
            if not context.is_admin:  # who may tap the ports of any project
                check_owner(flow, source)
        sources = [flow["source_port"] for flow in objects]
        check_number(connection, tap_flows.c.source_port, sources, "Port", "tap flows")
        of_services = tap_flows.join(tap_services, tap_services.c.id == tap_flows.c.tap_service_id)
        check_number(connection, tap_services.c.port_id, sinks, "Port", "tap flows to it", MAX_SOURCES, of_services)

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if before is None or after is None:
            flow = {**(before or {}), **(after or {})}
            sink = sa.select(tap_services.c.port_id).where(tap_services.c.id == flow["tap_service_id"])
            record_ports(tx, [flow["source_port"], *tx.execute(sink).scalars()])


def _service(connection: Connection, context: Context, flow: Object) -> Object:
    service = SERVICES.get_visible(connection, context, flow["tap_service_id"])
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
