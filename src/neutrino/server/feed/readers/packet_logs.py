"""Reads logs of packets: the enabled ones, since hosts need not know of others."""

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.packet_log import PacketLog
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import Ids, build, read_rows, select

_l, _p = t.logs.c, t.ports.c
_NETWORK = sa.select(_p.network_id).where(_p.id == _l.target_id).scalar_subquery()
_LOGS = select(PacketLog, t.logs, sa.func.coalesce(_NETWORK, "").label("network_id")).where(_l.enabled)


def read_logs(connection: Connection, ids: Ids) -> Iterator[tuple[str, PacketLog]]:
    for row in read_rows(connection, _LOGS, _l.id, ids):
        yield row.id, build(PacketLog, row, resource_id=row.resource_id or "", target_id=row.target_id or "")


def topic(log: PacketLog) -> str:
    """What a host has to have to get a log: the network of its port, its group, or any group of its project."""
    return log.network_id or log.resource_id or log.project_id
