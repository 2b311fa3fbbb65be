"""Reads which ports are parents or subports of trunks: for the ports of the L2 role.

Subports have no bindings of their own for a live migration. Where their parent has an inactive one, the host gets them
as inactive too, to prepare their patches before the instance arrives.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.state import Port
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.feed.declarations import Changed
from neutrino.server.feed.readers.rows import Ids, grouped, read_ids, read_rows
from neutrino.server.feed.records import PortRecord, migrating
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.binding import EXPIRED

_t, _s, _b = t.trunks.c, t.trunk_subports.c, t.port_bindings.c
_PARENTS = RowsLookup(sa.select(_t.port_id, _t.id))
_SUBPORTS = RowsLookup(sa.select(_s.port_id, _s.trunk_id, _s.segmentation_id))
_WITH_PARENTS = sa.select(_s.port_id).join(t.trunks, _t.id == _s.trunk_id)
_INACTIVE = (
    sa.select(_s.port_id, _b.host)
    .join(t.trunks, _t.id == _s.trunk_id)
    .join(t.port_bindings, _b.port_id == _t.port_id)
    .where(_b.status == "INACTIVE", _b.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]), _b.host != "")
    .where(sa.or_(_b.inactive_since.is_(None), _b.inactive_since != EXPIRED))
)


def read_trunks(connection: Connection, ids: Ids) -> dict[str, Mapping[str, Any]]:
    """The fields of ports that are in trunks, by port. Not columns of the statement for ports: few ports are."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in read_rows(connection, _PARENTS, _t.port_id, ids):
        found[row.port_id] = {"trunk_id": row.id}
    for row in read_rows(connection, _SUBPORTS, _s.port_id, ids):
        found[row.port_id] = {"trunk_id": row.trunk_id, "trunk_vlan": row.segmentation_id}
    return found


def subports_of(connection: Connection, changed: Changed) -> set[str]:
    """The subports of those of the changed ports that are parents."""
    return read_ids(connection, _WITH_PARENTS, _t.port_id, changed.named("port"))


def read_inactive_hosts(connection: Connection, ids: Ids) -> Callable[[PortRecord, Port], PortRecord]:
    """Subports are inactive on hosts that their parent may migrate to, or has left."""
    hosts = grouped(connection, _INACTIVE, _s.port_id, ids, attrgetter("host"))

    def place(record: PortRecord, _: Port) -> PortRecord:
        active = next((port for port in record.bound.values() if port.active), None)
        if active is None or record.id not in hosts:
            return record
        others = {host: msgspec.structs.replace(active, host=host, active=False) for host in hosts[record.id]}
        return migrating(replace(record, bound=others | record.bound), hosts[record.id])

    return place
