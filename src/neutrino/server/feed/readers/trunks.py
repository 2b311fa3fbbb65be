"""Reads which ports are parents or subports of trunks: for the ports of the L2 role."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.compiled import kept
from neutrino.server.feed.readers.rows import Ids, read_rows

_t, _s = t.trunks.c, t.trunk_subports.c
_PARENTS = kept(sa.select(_t.port_id, _t.id))
_SUBPORTS = kept(sa.select(_s.port_id, _s.trunk_id, _s.segmentation_id))
NO_TRUNK: Final[Mapping[str, Any]] = {}


def read_trunks(connection: Connection, ids: Ids) -> dict[str, Mapping[str, Any]]:
    """The fields of ports that are in trunks, by port. Not columns of the statement for ports: few ports are."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in read_rows(connection, _PARENTS, _t.port_id, ids):
        found[row.port_id] = {"trunk_id": row.id}
    for row in read_rows(connection, _SUBPORTS, _s.port_id, ids):
        found[row.port_id] = {"trunk_id": row.trunk_id, "trunk_vlan": row.segmentation_id}
    return found
