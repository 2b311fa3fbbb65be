"""Logs as hosts get them: the enabled ones, since hosts need not know of others.

Logs of security groups are objects of their own. Those of firewall groups are a part of the groups: a host has a firewall
group if it has a port of it, and gets the logs of these groups and no others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall.tables import firewall_groups
from neutrino.features.log.concerns import CONCERNS
from neutrino.features.log.tables import logs
from neutrino.features.log.types import SECURITY_GROUP
from neutrino.model.firewall import FirewallLog
from neutrino.model.kinds import KINDS
from neutrino.model.packet_log import PacketLog
from neutrino.model.state import SecurityGroup
from neutrino.server.db import tables as t
from neutrino.server.feed.declarations import Affects, Changed, Feed, Part, Reference
from neutrino.server.feed.fanout import ServedKind, SharedObjects
from neutrino.server.feed.readers.rows import Ids, build, read_ids, read_rows, select

_NETWORK = sa.select(t.ports.c.network_id).where(t.ports.c.id == logs.c.target_id).scalar_subquery()
_LOGS = select(PacketLog, logs, sa.func.coalesce(_NETWORK, "").label("network_id")).where(
    logs.c.enabled, logs.c.resource_type == SECURITY_GROUP
)
_LOG_COLUMNS = (logs.c.id, logs.c.name, logs.c.project_id, logs.c.event, logs.c.target_id)
_OF_GROUPS = (
    sa.select(firewall_groups.c.id.label("firewall_group_id"), *_LOG_COLUMNS)
    .select_from(firewall_groups.join(logs, CONCERNS))
    .where(logs.c.enabled)
    .order_by(logs.c.id)
)
_GROUPS = sa.select(firewall_groups.c.id).select_from(firewall_groups.join(logs, CONCERNS))
# All groups of the projects of deleted logs: of a log itself, the change log has no more.
_GROUPS_OF_PROJECTS = (
    sa.select(firewall_groups.c.id)
    .join(t.changes, t.changes.c.project_id == firewall_groups.c.project_id)
    .where(t.changes.c.kind == "log", t.changes.c.deleted)
)


def read_logs(connection: Connection, ids: Ids) -> Iterator[tuple[str, PacketLog]]:
    for row in read_rows(connection, _LOGS, logs.c.id, ids):
        yield row.id, build(PacketLog, row, resource_id=row.resource_id or "", target_id=row.target_id or "")


def topic(log: PacketLog) -> str:
    """What a host has to have to get a log: the network of its port, its group, or any group of its project."""
    return log.network_id or log.resource_id or log.project_id


def _of_group(group: SecurityGroup) -> Iterable[str]:
    return filter(None, (group.id, group.project_id))


def read_group_logs(connection: Connection, group_ids: Ids) -> dict[str, dict[str, tuple[FirewallLog, ...]]]:
    """The enabled logs of these firewall groups, by group."""
    found: defaultdict[str, list[FirewallLog]] = defaultdict(list)
    for row in read_rows(connection, _OF_GROUPS, firewall_groups.c.id, group_ids):
        found[row.firewall_group_id].append(build(FirewallLog, row, target_id=row.target_id or ""))
    return {group_id: {"logs": tuple(several)} for group_id, several in found.items()}


def groups_of_logs(connection: Connection, changed: Changed) -> set[str]:
    """The firewall groups that changed logs concern.

    Of a deleted log, its deletion names them, except those of its project that were created at the same time.
    """
    ids = changed.named("log")
    of_deleted = read_ids(connection, _GROUPS_OF_PROJECTS, t.changes.c.object_id, ids)
    return of_deleted | read_ids(connection, _GROUPS, logs.c.id, ids)


FEED = Feed(
    kinds=(ServedKind(KINDS["log"], SharedObjects, source="log", read=read_logs, key=topic),),
    parts=(Part(of="firewall_group", defaults={"logs": ()}, read=read_group_logs),),
    affects=(Affects(records="firewall_group", named=("log",), find=groups_of_logs),),
    references=(
        Reference("log", "network", lambda network: (network.id,)),
        Reference("log", "security_group", _of_group),
    ),
)
