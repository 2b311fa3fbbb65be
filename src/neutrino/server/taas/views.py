"""Reading tap services, flows and mirrors, with the status that follows from the ports and from reports of hosts.

    ACTIVE  the host of the port delivers copies to it (service), or makes them (flow) and the service is ACTIVE
    ERROR   the host of the port reported that it cannot
    DOWN    the port is not wired, or its host has not reported yet

A report counts while the port is on the host that sent it, so nothing has to be written when a port moves.
"""

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.view import View

ACTIVE, DOWN, ERROR = "ACTIVE", "DOWN", "ERROR"
_HIDDEN = ("revision_number", "reported_host", "reported_status", "tunnel_id")
_s, _f = t.tap_services.c, t.tap_flows.c
_source, _sink = t.ports.alias("tap_source"), t.ports.alias("tap_sink")
_service = t.tap_services.alias("tap_service_of_flow")


def _reported(table: sa.FromClause, port: sa.FromClause, port_id: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """What the host of a port has reported on an object, if the port is wired there."""
    found = (
        sa.select(table.c.reported_status)
        .where(port.c.id == port_id, port.c.host == table.c.reported_host, port.c.status == ACTIVE)
        .where(table.c.reported_status != "")
        .correlate(table)
    )
    return sa.func.coalesce(found.scalar_subquery(), DOWN)


_OF_SERVICE = (
    sa.select(_reported(_service, _sink, _service.c.port_id))
    .where(_service.c.id == _f.tap_service_id)
    .correlate(t.tap_flows)
    .scalar_subquery()
)
SERVICES = View(
    t.tap_services,
    computed={"status": _reported(t.tap_services, _sink, _s.port_id)},
    hidden=_HIDDEN,
    not_found=errors.TapServiceNotFound,
)
FLOWS = View(
    t.tap_flows,
    computed={"status": sa.case((_OF_SERVICE != ACTIVE, DOWN), else_=_reported(t.tap_flows, _source, _f.source_port))},
    hidden=_HIDDEN,
    not_found=errors.TapFlowNotFound,
)
MIRRORS = View(t.tap_mirrors, hidden=_HIDDEN, not_found=errors.TapMirrorNotFound)
