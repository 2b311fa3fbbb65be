"""Status of firewall groups, from the reports of the hosts that have their ports.

A group is ACTIVE when a host with one of its ports has applied the current revision, and ERROR while some host could
not. What each role of each host reported is kept, so that the success of one does not hide the error of another. Hosts
that do not have a port of the group any more do not count, nor do reports on older revisions. INACTIVE and DOWN are
derived when the group is read (`views.py`).
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.firewall.checks import ACTIVE, ERROR, INACTIVE, PENDING_CREATE, PENDING_UPDATE
from neutrino.features.firewall.tables import firewall_groups, group_hosts, group_ports
from neutrino.features.router.hosts import read_agent_modes, read_local_hosts
from neutrino.features.router.tables import router_l3_agents, router_ports, routers
from neutrino.feed.messages import Status
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.reports.rules import one_line

LOG = logging.getLogger(__name__)
_GROUP = sa.bindparam("group", type_=sa.String)
_CURRENT = sa.select(firewall_groups.c.revision_number, firewall_groups.c.status).where(firewall_groups.c.id == _GROUP)
_REPORTED = sa.select(group_hosts.c.host, group_hosts.c.revision, group_hosts.c.status).where(
    group_hosts.c.firewall_group_id == _GROUP
)
_BOUND = (
    sa.select(t.port_bindings.c.host)
    .join(group_ports, group_ports.c.port_id == t.port_bindings.c.port_id)
    .where(group_ports.c.firewall_group_id == _GROUP)
)
_ROUTERS = (
    sa.select(router_ports.c.router_id, routers.c.distributed)
    .join(group_ports, group_ports.c.port_id == router_ports.c.port_id)
    .join(routers, routers.c.id == router_ports.c.router_id)
    .where(group_ports.c.firewall_group_id == _GROUP)
    .distinct()
)


@dataclass(frozen=True)
class FirewallStatus:
    db: Database

    @retried
    def take(self, host: str, message: Status) -> bool:
        """Store the status that a host reports; whether the group's changed."""
        with self.db.read() as connection:
            group = connection.execute(_CURRENT, {"group": message.id}).first()
            if group is None or _is_stale(message, group):
                return False
            own = _REPORTED.where(group_hosts.c.host == host, group_hosts.c.role == message.role)
            known = connection.execute(own, {"group": message.id}).first()
            # Read first, without locks: a host repeats its reports after a reconnect, and most are stored.
            same = known is not None and (known.revision, known.status) == (message.revision, message.status)
            if (same and group.status == message.status) or (known is None and message.status == INACTIVE):
                return False
            hosts = hosts_with(connection, message.id)
        if host not in hosts and message.status != INACTIVE:
            return False
        if message.status == ERROR and not same:
            reason = one_line(message.reason)
            LOG.warning("host %s could not apply firewall group %s: %s", host, message.id, reason)
        return self._write(host, message, hosts)

    def _write(self, host: str, message: Status, hosts: Collection[str]) -> bool:
        key = {"group": message.id}
        with self.db.transaction() as tx:
            # Locked: of two hosts that report at once, the second counts what the first reported.
            group = tx.execute(_CURRENT.with_for_update(), key).first()
            if group is None or _is_stale(message, group):
                return False
            tx.exclude_other_nodes(firewall_groups.c.status, [message.id])
            own = sa.and_(group_hosts.c.host == host, group_hosts.c.role == message.role)
            replaced = sa.or_(own, group_hosts.c.revision < group.revision_number)
            tx.write(sa.delete(group_hosts).where(group_hosts.c.firewall_group_id == message.id, replaced))
            if message.status != INACTIVE:
                row = {"firewall_group_id": message.id, "host": host, "role": message.role}
                tx.insert(group_hosts, [{**row, "revision": message.revision, "status": message.status}])
            status = _together({each.status for each in tx.execute(_REPORTED, key) if each.host in hosts})
            if status == group.status or (status == PENDING_UPDATE and group.status == PENDING_CREATE):
                return False
            # Not a new revision: hosts would report on it again, without end.
            current = sa.and_(
                firewall_groups.c.id == message.id, firewall_groups.c.revision_number == group.revision_number
            )
            tx.change(sa.update(firewall_groups).where(current).values(status=status))
            tx.log(firewall_groups, {"id": message.id}, changed={"status": (group.status, status)})
        return True


def _is_stale(message: Status, group: NamedRow) -> bool:
    """Whether it is about an earlier state: the host reports again when it has applied the current one."""
    return message.status != INACTIVE and message.revision != group.revision_number


def _together(reported: Collection[str]) -> str:
    """The status of a group by the reports on its current revision that count."""
    if not reported:
        return PENDING_UPDATE
    return ERROR if ERROR in reported else ACTIVE


def hosts_with(connection: Connection, group_id: str) -> set[str]:
    """The hosts that have a port of the group: bound to them, or the interface of a router that they serve."""
    hosts = set(connection.execute(_BOUND, {"group": group_id}).scalars())
    routers = connection.execute(_ROUTERS, {"group": group_id}).all()
    if not routers:
        return hosts
    scheduled = (
        sa.select(t.agents.c.host)
        .join(router_l3_agents, router_l3_agents.c.agent_id == t.agents.c.id)
        .where(router_l3_agents.c.router_id.in_([row.router_id for row in routers]))
    )
    hosts |= set(connection.execute(scheduled).scalars())
    distributed = [row.router_id for row in routers if row.distributed]
    if distributed:
        local = read_local_hosts(connection, distributed, read_agent_modes(connection))
        hosts |= {host for some in local.values() for host in some}
    return hosts
