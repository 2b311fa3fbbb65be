"""Status of distributed router ports: such a port is ACTIVE while at least one host that needs it has it wired.

These ports are bound to no single host, so no host's report alone sets their status. The hosts that reported a port as
wired are stored; a host that no longer needs the port sends no report about it, so its row stops counting by the query.
Every change locks the port's row, so that two concurrent reports do not miss each other.

Reports on all other ports go to `others`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.router.hosts import LOCAL_HOSTS, read_router_hosts
from neutrino.features.router.routers.router_ports import VIF_DISTRIBUTED
from neutrino.features.router.tables import distributed_port_hosts, router_l3_agents, router_ports
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.feed.reports.reports import PortReports
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND
from neutrino.server.ml2.ports.provisioning import ACTIVE, DOWN, Done, Ready

BATCH = 200  # ports per transaction
_port = t.ports.alias("port")
_AMONG: sa.BindParameter[list[str]] = sa.bindparam("among", expanding=True)
_DISTRIBUTED = sa.select(_port.c.id, _port.c.status, _port.c.revision_number).where(
    _port.c.id.in_(_AMONG), _port.c.vif_type == VIF_DISTRIBUTED
)
_LOCK = _DISTRIBUTED.order_by(_port.c.id).with_for_update()  # in one order: no deadlocks
_WIRED = sa.select(distributed_port_hosts.c.port_id, distributed_port_hosts.c.host).where(
    distributed_port_hosts.c.port_id.in_(_AMONG)
)
_LOCAL = (
    LOCAL_HOSTS.where(
        router_ports.c.port_id == distributed_port_hosts.c.port_id,
        t.port_bindings.c.host == distributed_port_hosts.c.host,
        t.port_bindings.c.vif_type.not_in([VIF_UNBOUND, VIF_FAILED]),
    )
    .correlate(distributed_port_hosts)
    .exists()
)
_SCHEDULED = (
    sa.exists()
    .select_from(
        router_ports.join(router_l3_agents, router_l3_agents.c.router_id == router_ports.c.router_id).join(
            t.agents, t.agents.c.id == router_l3_agents.c.agent_id
        )
    )
    .where(router_ports.c.port_id == distributed_port_hosts.c.port_id, t.agents.c.host == distributed_port_hosts.c.host)
    .correlate(distributed_port_hosts)
)
_HELD = sa.exists().where(distributed_port_hosts.c.port_id == _port.c.id, sa.or_(_LOCAL, _SCHEDULED)).correlate(_port)
_UNUSED = sa.select(_port.c.id).where(_port.c.vif_type == VIF_DISTRIBUTED, _port.c.status == ACTIVE, sa.not_(_HELD))


@dataclass(frozen=True)
class DistributedPortStatus:
    db: Database
    others: PortReports

    def complete_all(self, reports: Sequence[Done], component: str) -> None:
        """Take `port_up` reports."""
        ids = sorted({one.port_id for one in reports})
        distributed: set[str] = set()
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            with self.db.read() as connection:
                # Read first, without locks: a host repeats its reports for all ports after a start, and most are stored.
                ports = {row.id: row for row in connection.execute(_DISTRIBUTED, {"among": batch})}
                if not ports:
                    continue
                distributed |= ports.keys()
                wired = {tuple(row) for row in connection.execute(_WIRED, {"among": list(ports)})}
                changed = [
                    one
                    for one in reports
                    if one.port_id in ports
                    and ((one.port_id, one.host) not in wired or ports[one.port_id].status != ACTIVE)
                ]
                asked = sorted({one.port_id for one in changed})
                needing = read_router_hosts(connection, asked).distributed if changed else {}
            # A host that lost its last port on the router's subnets may still report: its row would keep the port ACTIVE.
            needed = [one for one in changed if one.host in needing.get(one.port_id, ())]
            if needed:
                self._complete(needed)
        rest = [one for one in reports if one.port_id not in distributed]
        if rest:
            self.others.complete_all(rest, component)

    @retried
    def _complete(self, reports: Sequence[Done]) -> None:
        ids = sorted({one.port_id for one in reports})
        with self.db.transaction() as tx:
            ports = {row.id: row for row in tx.execute(_LOCK, {"among": ids})}
            tx.exclude_other_nodes(t.ports.c.status, ports)
            wired = {tuple(row) for row in tx.execute(_WIRED, {"among": ids})}
            # For the current revision only: a host that is behind reports again after the next change.
            current = {
                (one.port_id, one.host)
                for one in reports
                if (port := ports.get(one.port_id)) and (one.revision is None or one.revision >= port.revision_number)
            }
            rows = [{"port_id": port_id, "host": host} for port_id, host in sorted(current - wired)]
            tx.insert(distributed_port_hosts, rows)
            for port_id in sorted({port_id for port_id, _ in current if ports[port_id].status != ACTIVE}):
                _set_status(tx, ports[port_id], ACTIVE)

    def ready_all(self, reports: Sequence[Ready]) -> None:
        self.others.ready_all(reports)

    def plugged(self, port_id: str, host: str) -> bool:
        return self.others.plugged(port_id, host)

    @retried
    def lost(self, port_id: str, host: str) -> bool:
        """Take a `port_down` report; whether the port became DOWN by it."""
        with self.db.read() as connection:
            distributed = connection.execute(_DISTRIBUTED, {"among": [port_id]}).first()
        if distributed is None:
            return self.others.lost(port_id, host)
        with self.db.transaction() as tx:
            tx.execute(_LOCK, {"among": [port_id]})
            tx.exclude_other_nodes(t.ports.c.status, [port_id])
            tx.write(
                sa.delete(distributed_port_hosts).where(
                    distributed_port_hosts.c.port_id == port_id, distributed_port_hosts.c.host == host
                )
            )
        return bool(self._set_down([port_id]))

    def settle(self) -> int:
        """Set ports DOWN that no host needs any more; returns how many."""
        with self.db.read() as connection:
            ids = list(connection.execute(_UNUSED).scalars())
        return sum(len(self._set_down(ids[start : start + BATCH])) for start in range(0, len(ids), BATCH))

    @retried
    def _set_down(self, ids: Sequence[str]) -> list[str]:
        """Set those of these ports DOWN that no host has wired."""
        with self.db.transaction() as tx:
            ports = {row.id: row for row in tx.execute(_LOCK, {"among": list(ids)})}
            tx.exclude_other_nodes(t.ports.c.status, ports)
            # Evaluated again under the lock: a host may have reported the port as wired since.
            gone = list(tx.execute(_UNUSED.where(_port.c.id.in_(list(ids)))).scalars())
            for port_id in sorted(gone):
                _set_status(tx, ports[port_id], DOWN)
            tx.write(sa.delete(distributed_port_hosts).where(distributed_port_hosts.c.port_id.in_(gone)))
        return gone


def _set_status(tx: Transaction, port: NamedRow, status: str) -> None:
    values = {"status": status, "revision_number": port.revision_number + 1, "updated_at": now()}
    tx.write(sa.update(t.ports).where(t.ports.c.id == port.id).values(values))
    tx.record("port", port.id, changed={"status": (port.status, status)})
