"""Statuses of tap services and tap flows: reported by the hosts of their ports, and computed in the views.

    ACTIVE  the host of the port delivers copies to it (service), or makes them (flow) and the service is ACTIVE
    ERROR   the host of the port reported that it cannot
    DOWN    the port is not wired, or its host has not reported yet

Only the host of the service's port, or of the flow's source, counts. Its report is stored with its name and counts while
the port is on that host, so nothing has to be written when a port moves.
"""

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.taas.errors import TapFlowNotFound, TapServiceNotFound
from neutrino.features.taas.tables import tap_flows, tap_services
from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.view import View
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
ACTIVE, DOWN, ERROR = "ACTIVE", "DOWN", "ERROR"
HIDDEN = ("revision_number", "reported_host", "reported_status", "tunnel_id")
_source, _sink = t.ports.alias("tap_source"), t.ports.alias("tap_sink")
_service = tap_services.alias("tap_service_of_flow")


def _reported(table: sa.FromClause, port: sa.FromClause, port_id: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """What the host of a port has reported on an object, if the port is wired there."""
    reported = (
        sa.select(table.c.reported_status)
        .where(port.c.id == port_id, port.c.host == table.c.reported_host, port.c.status == ACTIVE)
        .where(table.c.reported_status != "")
        .correlate(table)
    )
    return sa.func.coalesce(reported.scalar_subquery(), DOWN)


_OF_SERVICE = (
    sa.select(_reported(_service, _sink, _service.c.port_id))
    .where(_service.c.id == tap_flows.c.tap_service_id)
    .correlate(tap_flows)
    .scalar_subquery()
)
_OF_FLOW = sa.case((_OF_SERVICE != ACTIVE, DOWN), else_=_reported(tap_flows, _source, tap_flows.c.source_port))
SERVICES = View(
    tap_services,
    computed={"status": _reported(tap_services, _sink, tap_services.c.port_id)},
    hidden=HIDDEN,
    not_found=TapServiceNotFound,
)
FLOWS = View(tap_flows, computed={"status": _OF_FLOW}, hidden=HIDDEN, not_found=TapFlowNotFound)

# The column with the port whose host reports.
_PORT_COLUMNS = {"tap_service": tap_services.c.port_id, "tap_flow": tap_flows.c.source_port}
_CURRENT = {
    kind: sa.select(t.ports.c.host, port_id.table.c.reported_host, port_id.table.c.reported_status)
    .join(t.ports, t.ports.c.id == port_id)
    .where(port_id.table.c.id == sa.bindparam("key", type_=sa.String))
    for kind, port_id in _PORT_COLUMNS.items()
}


@dataclass(frozen=True)
class TapStatus:
    db: Database

    @retried
    def take(self, host: str, message: Status) -> bool:
        """Store what a host reports on a tap service or flow; whether that is new."""
        status = "" if message.status == "INACTIVE" else message.status
        with self.db.read() as connection:
            known = connection.execute(_CURRENT[message.kind], {"key": message.id}).first()
        if known is None or known.host != host or (known.reported_host, known.reported_status) == (host, status):
            return False
        if status == ERROR:
            kind, reason = message.kind.replace("_", " "), one_line(message.reason)
            LOG.warning("host %s could not apply %s %s: %s", host, kind, message.id, reason)
        table = _PORT_COLUMNS[message.kind].table
        with self.db.transaction() as tx:
            # Not a new revision: nothing that the API lets clients change has changed.
            values = {"reported_host": host, "reported_status": status}
            tx.write(sa.update(table).where(table.c.id == message.id).values(**values))
            tx.log(table, {"id": message.id})
        return True
