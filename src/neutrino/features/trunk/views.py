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

from neutrino.features.trunk.errors import TrunkNotFound
from neutrino.features.trunk.resources import ACTIVE, BUILD, DEGRADED, DOWN, ERROR
from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.view import Added, View
from neutrino.server.ml2.driver_api import VIF_FAILED
from neutrino.server.ml2.ports import provisioning

SUBPORT_NAMES = ("port_id", "segmentation_type", "segmentation_id")
BATCH = 1000
_parent, _sub = t.ports.alias("trunk_parent"), t.ports.alias("trunk_subport")
_SUBPORTS = sa.select(trunk_subports.c.trunk_id, *(trunk_subports.c[name] for name in SUBPORT_NAMES)).order_by(
    trunk_subports.c.segmentation_id
)
_PORT = sa.bindparam("port", type_=sa.String)
# The trunk of a port, of which it is the parent or a subport.
TRUNK_OF_PORT = RowsLookup(
    sa.select(trunk_subports.c.trunk_id, sa.literal_column("0").label("is_parent"))
    .where(trunk_subports.c.port_id == _PORT)
    .union_all(sa.select(trunks.c.id, sa.literal_column("1")).where(trunks.c.port_id == _PORT))
)


def _parent_is(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists(sa.select(_parent.c.id).where(_parent.c.id == trunks.c.port_id, condition))


def _some_subport_is(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    joined = (
        sa.select(_sub.c.id)
        .join(trunk_subports, trunk_subports.c.port_id == _sub.c.id)
        .where(trunk_subports.c.trunk_id == trunks.c.id)
    )
    return sa.exists(joined.where(condition).correlate(trunks))


def _waits(port: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether a port is to be wired and is not. One that is administratively down has no wiring to wait for."""
    return sa.and_(port.c.status != provisioning.ACTIVE, port.c.admin_state_up)


_HOST = sa.select(_parent.c.host).where(_parent.c.id == trunks.c.port_id).correlate(trunks).scalar_subquery()
_STATUS = sa.case(
    (_parent_is(_parent.c.host == ""), DOWN),
    (sa.or_(_parent_is(_parent.c.vif_type == VIF_FAILED), _some_subport_is(_sub.c.vif_type == VIF_FAILED)), ERROR),
    (_some_subport_is(_sub.c.host != _HOST), DEGRADED),
    (_parent_is(_waits(_parent)), DOWN),
    (_some_subport_is(_waits(_sub)), sa.case((trunks.c.failed_host == _HOST, DEGRADED), else_=BUILD)),
    else_=ACTIVE,
)


def _sub_ports(connection: Connection, rows: Sequence[Object]) -> list[list[Object]]:
    found = subports_of(connection, [row["id"] for row in rows])
    return [found[row["id"]] for row in rows]


_HIDDEN = ("generation", "failed_host")
TRUNKS = View(trunks, computed={"status": _STATUS}, hidden=_HIDDEN, not_found=TrunkNotFound).composed(
    {"sub_ports": Added(("id",), _sub_ports)}
)


def subports_of(connection: Connection, trunk_ids: Sequence[str]) -> defaultdict[str, list[Object]]:
    """The subports of these trunks as the API shows them, by trunk."""
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for start in range(0, len(trunk_ids), BATCH):
        for row in connection.execute(_SUBPORTS.where(trunk_subports.c.trunk_id.in_(trunk_ids[start : start + BATCH]))):
            found[row.trunk_id].append({name: getattr(row, name) for name in SUBPORT_NAMES})
    return found


def parents_among(connection: Connection, ports: Sequence[str]) -> dict[str, str]:
    """Which of these ports are parents, with their trunk."""
    rows = connection.execute(sa.select(trunks.c.port_id, trunks.c.id).where(trunks.c.port_id.in_(list(ports)))).all()
    return {row.port_id: row.id for row in rows}


def subports_among(connection: Connection, ports: Sequence[str]) -> dict[str, str]:
    """Which of these ports are subports, with their trunk."""
    rows = connection.execute(
        sa.select(trunk_subports.c.port_id, trunk_subports.c.trunk_id).where(trunk_subports.c.port_id.in_(list(ports)))
    ).all()
    return {row.port_id: row.trunk_id for row in rows}
