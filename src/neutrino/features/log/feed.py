"""Logs as hosts get them: the enabled ones, since hosts need not know of others."""

from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.log.tables import logs
from neutrino.model.kinds import KINDS
from neutrino.model.packet_log import PacketLog
from neutrino.model.state import SecurityGroup
from neutrino.server.db import tables as t
from neutrino.server.feed.declarations import Feed, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, build, read_rows, select

_NETWORK = sa.select(t.ports.c.network_id).where(t.ports.c.id == logs.c.target_id).scalar_subquery()
_LOGS = select(PacketLog, logs, sa.func.coalesce(_NETWORK, "").label("network_id")).where(logs.c.enabled)


def read_logs(connection: Connection, ids: Ids) -> Iterator[tuple[str, PacketLog]]:
    for row in read_rows(connection, _LOGS, logs.c.id, ids):
        yield row.id, build(PacketLog, row, resource_id=row.resource_id or "", target_id=row.target_id or "")


def topic(log: PacketLog) -> str:
    """What a host has to have to get a log: the network of its port, its group, or any group of its project."""
    return log.network_id or log.resource_id or log.project_id


def _of_group(group: SecurityGroup) -> Iterable[str]:
    return filter(None, (group.id, group.project_id))


FEED = Feed(
    kinds=(ServedKind(KINDS["log"], SharedObjects, source="log", read=read_logs, key=topic),),
    references=(
        Reference("log", "network", lambda network: (network.id,)),
        Reference("log", "security_group", _of_group),
    ),
)
