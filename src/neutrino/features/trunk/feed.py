"""Reads which ports are parents or subports of trunks: for the ports of the L2 role.

Subports have no bindings of their own for a live migration. Where their parent has an inactive one, the host gets them
as inactive too, to prepare their patches before the instance arrives.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.model.objects import Values
from neutrino.model.roles import L2
from neutrino.model.state import Port
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.feed.declarations import Affects, Changed, Feed, Part, Placed
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids, read_rows
from neutrino.server.feed.records import PortRecord, migrating
from neutrino.server.feed.reports.rules import DONE_OR_NOT, ReportedStatus
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.binding import EXPIRED

_PARENTS = RowsLookup(sa.select(trunks.c.port_id, trunks.c.id))
_SUBPORTS = RowsLookup(sa.select(trunk_subports.c.port_id, trunk_subports.c.trunk_id, trunk_subports.c.segmentation_id))
_WITH_PARENTS = sa.select(trunk_subports.c.port_id).join(trunks, trunks.c.id == trunk_subports.c.trunk_id)
_INACTIVE = (
    sa.select(trunk_subports.c.port_id, t.port_bindings.c.host)
    .join(trunks, trunks.c.id == trunk_subports.c.trunk_id)
    .join(t.port_bindings, t.port_bindings.c.port_id == trunks.c.port_id)
    .where(
        t.port_bindings.c.status == "INACTIVE",
        t.port_bindings.c.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]),
        t.port_bindings.c.host != "",
    )
    .where(sa.or_(t.port_bindings.c.inactive_since.is_(None), t.port_bindings.c.inactive_since != EXPIRED))
)


def read_trunks(connection: Connection, ids: Ids) -> dict[str, Values]:
    """The fields of ports that are in trunks, by port. Not columns of the statement for ports: few ports are."""
    found: dict[str, Values] = {}
    for row in read_rows(connection, _PARENTS, trunks.c.port_id, ids):
        found[row.port_id] = {"trunk_id": row.id}
    for row in read_rows(connection, _SUBPORTS, trunk_subports.c.port_id, ids):
        found[row.port_id] = {"trunk_id": row.trunk_id, "trunk_vlan": row.segmentation_id}
    return found


def subports_of(connection: Connection, changed: Changed) -> set[str]:
    """The subports of those of the changed ports that are parents."""
    return read_ids(connection, _WITH_PARENTS, trunks.c.port_id, changed.named("port"))


def read_inactive_hosts(connection: Connection, ids: Ids) -> Callable[[PortRecord, Port], PortRecord]:
    """Subports are inactive on hosts that their parent may migrate to, or has left."""
    hosts = grouped(connection, _INACTIVE, trunk_subports.c.port_id, ids, attrgetter("host"))

    def place(record: PortRecord, _: Port) -> PortRecord:
        if record.id not in hosts:  # nearly all: there are a hundred thousand at the start
            return record
        active = next((port for port in record.bound.values() if port.active), None)
        if active is None:
            return record
        others = {host: msgspec.structs.replace(active, host=host, active=False) for host in hosts[record.id]}
        return migrating(replace(record, bound=others | record.bound), hosts[record.id])

    return place


FEED = Feed(
    parts=(Part(of="port", defaults={}, read=read_trunks),),
    placed=(Placed(of="port", read=read_inactive_hosts),),
    affects=(Affects(records="port", named=("port",), find=subports_of),),
    statuses={"trunk": ReportedStatus(DONE_OR_NOT, frozenset({L2}))},
)
