"""Reading trunks: the view of the API, with the status that follows from the ports, and a port's place in a trunk.

A status that is stored would have to be written by everything that changes a port. This one is always right:

    DOWN      the parent is not bound, or not wired: its instance does not run
    ERROR     the parent or a subport could not be bound
    DEGRADED  a subport is bound to another host than the parent, or to none; or the host could not wire one
    BUILD     the host has not wired all subports yet
    ACTIVE    all of them are wired on the parent's host
"""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.resources.trunk import ACTIVE, BUILD, DEGRADED, DOWN, ERROR
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.view import Added, View
from neutrino.server.ml2.driver_api import VIF_FAILED
from neutrino.server.ml2.ports import provisioning

SUBPORT_NAMES = ("port_id", "segmentation_type", "segmentation_id")
BATCH = 1000
_t, _s = t.trunks.c, t.trunk_subports.c
_parent, _sub = t.ports.alias("trunk_parent"), t.ports.alias("trunk_subport")
_SUBPORTS = sa.select(_s.trunk_id, *(_s[name] for name in SUBPORT_NAMES)).order_by(_s.segmentation_id)
_PORT = sa.bindparam("port", type_=sa.String)
# The trunk of a port, of which it is the parent or a subport.
TRUNK_OF_PORT = RowsLookup(
    sa.select(_s.trunk_id, sa.literal_column("0").label("is_parent"))
    .where(_s.port_id == _PORT)
    .union_all(sa.select(_t.id, sa.literal_column("1")).where(_t.port_id == _PORT))
)


def _parent_is(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists(sa.select(_parent.c.id).where(_parent.c.id == _t.port_id, condition))


def _some_subport_is(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    joined = sa.select(_sub.c.id).join(t.trunk_subports, _s.port_id == _sub.c.id).where(_s.trunk_id == _t.id)
    return sa.exists(joined.where(condition).correlate(t.trunks))


def _waits(port: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether a port is to be wired and is not. One that is administratively down has no wiring to wait for."""
    return sa.and_(port.c.status != provisioning.ACTIVE, port.c.admin_state_up)


_HOST = sa.select(_parent.c.host).where(_parent.c.id == _t.port_id).correlate(t.trunks).scalar_subquery()
_STATUS = sa.case(
    (_parent_is(_parent.c.host == ""), DOWN),
    (sa.or_(_parent_is(_parent.c.vif_type == VIF_FAILED), _some_subport_is(_sub.c.vif_type == VIF_FAILED)), ERROR),
    (_some_subport_is(_sub.c.host != _HOST), DEGRADED),
    (_parent_is(_waits(_parent)), DOWN),
    (_some_subport_is(_waits(_sub)), sa.case((_t.failed_host == _HOST, DEGRADED), else_=BUILD)),
    else_=ACTIVE,
)


def _sub_ports(connection: Connection, rows: Sequence[Object]) -> list[list[Object]]:
    found = subports_of(connection, [row["id"] for row in rows])
    return [found[row["id"]] for row in rows]


_HIDDEN = ("generation", "failed_host")
TRUNKS = View(t.trunks, computed={"status": _STATUS}, hidden=_HIDDEN, not_found=errors.TrunkNotFound).composed(
    {"sub_ports": Added(("id",), _sub_ports)}
)


def subports_of(connection: Connection, trunks: Sequence[str]) -> defaultdict[str, list[Object]]:
    """The subports of these trunks as the API shows them, by trunk."""
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for start in range(0, len(trunks), BATCH):
        for row in connection.execute(_SUBPORTS.where(_s.trunk_id.in_(trunks[start : start + BATCH]))):
            found[row.trunk_id].append({name: getattr(row, name) for name in SUBPORT_NAMES})
    return found


def parents_among(connection: Connection, ports: Sequence[str]) -> dict[str, str]:
    """Which of these ports are parents, with their trunk."""
    rows = connection.execute(sa.select(_t.port_id, _t.id).where(_t.port_id.in_(list(ports)))).all()
    return {row.port_id: row.id for row in rows}


def subports_among(connection: Connection, ports: Sequence[str]) -> dict[str, str]:
    """Which of these ports are subports, with their trunk."""
    rows = connection.execute(sa.select(_s.port_id, _s.trunk_id).where(_s.port_id.in_(list(ports)))).all()
    return {row.port_id: row.trunk_id for row in rows}
