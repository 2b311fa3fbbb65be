"""Levels of port bindings with their segments, for mechanism drivers that need them (`driver_api`, `reads_levels`)."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.ml2.driver_api import BoundLevel
from neutrino.server.ml2.segments import read_segments_by_id

Levels = Mapping[str, Sequence[BoundLevel]]  # by port
_LEVELS = sa.select(t.port_bindings.c.port_id, t.port_bindings.c.levels).where(
    t.port_bindings.c.port_id.in_(sa.bindparam("ports", expanding=True)), t.port_bindings.c.status == "ACTIVE"
)


def read_levels(connection: Connection, port_ids: Sequence[str]) -> dict[str, list[BoundLevel]]:
    """Levels of the ACTIVE bindings of ports; a level whose segment has been deleted is left out."""
    rows = {row.port_id: decode(row.levels) for row in connection.execute(_LEVELS, {"ports": list(port_ids)})}
    ids = {level["segment_id"] for levels in rows.values() for level in levels}
    segments = read_segments_by_id(connection, sorted(ids)) if ids else {}
    return {
        port_id: [
            BoundLevel(level["driver"], segments[level["segment_id"]])
            for level in levels
            if level["segment_id"] in segments
        ]
        for port_id, levels in rows.items()
    }
