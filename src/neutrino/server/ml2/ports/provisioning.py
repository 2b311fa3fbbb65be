"""Provisioning blocks: a bound port is ACTIVE when all components have finished their work for it.

Binding writes one block per component: L2 (an agent wires the port), DHCP (its lease can be given). The component's report
removes its block; removing the last one makes the port ACTIVE. All transactions lock the port's own row, so that of two
components that finish at once one sees the other's block removed.

A report names the revision of the port that it is for. A report for an older revision is stale, by a rebinding or any other
change, and is ignored: the host receives the newer revision and reports for that.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.db.view import View
from neutrino.server.ml2.driver_api import VIF_FAILED, VIF_UNBOUND, DriverContext
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.ports.lease_providers import WaitingPort, provider_hosts, without_live_provider
from neutrino.server.ml2.views import NETWORKS, PORTS

L2, DHCP = "L2", "DHCP"
ACTIVE, DOWN = "ACTIVE", "DOWN"
BATCH = 100  # ports that one transaction changes: hosts report all of theirs after a start
_WAITING = sa.select(t.ports.c.id, t.ports.c.network_id, t.ports.c.host, t.ports.c.revision_number).where(
    t.provisioning_blocks.c.port_id == t.ports.c.id, t.provisioning_blocks.c.component == DHCP
)
_BLOCKS = sa.select(t.provisioning_blocks.c.component).where(t.provisioning_blocks.c.port_id == sa.bindparam("port"))
_INACTIVE = sa.select(t.port_bindings.c.host).where(
    t.port_bindings.c.port_id == sa.bindparam("port"),
    t.port_bindings.c.host == sa.bindparam("host"),
    t.port_bindings.c.status == "INACTIVE",
)
_AMONG: sa.BindParameter[list[str]] = sa.bindparam("among", expanding=True)
_WAITS = _WAITING.where(t.ports.c.id.in_(_AMONG))
_UNFINISHED = sa.select(t.ports.c.id, t.ports.c.host).where(
    t.ports.c.id.in_(_AMONG),
    sa.or_(
        t.ports.c.status != ACTIVE,
        sa.exists(sa.select(t.provisioning_blocks.c.port_id).where(t.provisioning_blocks.c.port_id == t.ports.c.id)),
    ),
)
_LOCK = (
    sa.select(t.ports.c.id, t.ports.c.host, t.ports.c.status, t.ports.c.revision_number, t.ports.c.vif_type)
    .where(t.ports.c.id.in_(_AMONG))
    .order_by(t.ports.c.id)  # the same order in all transactions, or two would deadlock
    .with_for_update()
)
_BLOCKED = sa.select(t.provisioning_blocks.c.port_id).where(t.provisioning_blocks.c.port_id.in_(_AMONG)).distinct()


def block(tx: Transaction, port_id: str, components: Iterable[str]) -> None:
    """Replace a port's blocks by these."""
    tx.write(sa.delete(t.provisioning_blocks).where(t.provisioning_blocks.c.port_id == port_id))
    block_new(tx, port_id, components)


def block_new(tx: Transaction, port_id: str, components: Iterable[str]) -> None:
    """The blocks of a port that has none."""
    tx.insert(t.provisioning_blocks, [{"port_id": port_id, "component": component} for component in components])


class Done(NamedTuple):
    """A component's report that its work for a port on a host is finished."""

    port_id: str
    host: str
    revision: int | None = None  # of the port; None: whichever it has


class Ready(NamedTuple):
    """The report of a DHCP agent, which may be on another host than the port, that it can give the port's lease."""

    port_id: str
    host: str  # of the agent
    revision: int  # of the port


@dataclass(frozen=True)
class Provisioning:
    db: Database
    operations: Operations
    notify: Callable[[Object, Object], None]  # with a port before and after every change of its status
    view: View = PORTS  # with the attributes of extension drivers

    # --- a component has finished ---------------------------------------------------------------------------------

    def complete(self, port_id: str, component: str, host: str, revision: int | None = None) -> bool:
        """A component's work for a port on a host is done; whether that made the port ACTIVE."""
        return bool(self.complete_all([Done(port_id, host, revision)], component))

    def complete_all(self, done: Iterable[Done], component: str) -> set[str]:
        """The same for ports of any hosts; the ids of those that became ACTIVE.

        A host repeats its reports for all its ports when it starts: those that are ACTIVE cost one read together.
        """
        active: set[str] = set()
        reports = {(one.port_id, one.host): one.revision for one in done}
        ids = sorted({port_id for port_id, _ in reports})
        for start in range(0, len(ids), BATCH):
            with self.db.read() as connection:
                rows = connection.execute(_UNFINISHED, {"among": ids[start : start + BATCH]}).all()
                unfinished = [row.id for row in rows if (row.id, row.host) in reports]
                if not unfinished:
                    continue
                ports = {port["id"]: port for port in self.view.load_in(connection, "id", unfinished)}
                networks = self._networks_for_drivers(connection, ports.values())
            active |= self._complete(unfinished, reports, component, ports, networks)
        return active

    @retried
    def _complete(
        self,
        ids: Sequence[str],
        reports: Mapping[tuple[str, str], int | None],
        component: str,
        ports: Mapping[str, Object],
        networks: Mapping[str, Object],
    ) -> set[str]:
        """Remove the component's block; the ids of ports that become ACTIVE."""
        contexts: list[DriverContext] = []
        with self.operations.write(contexts, raises=False) as tx:
            rows = {row.id: row for row in tx.execute(_LOCK, {"among": list(ids)}) if _is_current(row, reports)}
            if not rows:
                return set()
            tx.exclude_other_nodes(t.ports.c.status, rows)
            tx.write(
                sa.delete(t.provisioning_blocks).where(
                    t.provisioning_blocks.c.port_id.in_(list(rows)), t.provisioning_blocks.c.component == component
                )
            )
            blocked = set(tx.execute(_BLOCKED, {"among": list(rows)}).scalars())
            if blocked:  # written through the port's row, so that the component that finishes next sees this removal
                tx.write(sa.update(t.ports).where(t.ports.c.id.in_(sorted(blocked))).values(updated_at=now()))
            active = [row for key, row in rows.items() if key not in blocked and row.status != ACTIVE]
            contexts += self._set_status(tx, active, ACTIVE, ports, networks)
        return {row.id for row in active}

    def ready_all(self, reports: Iterable[Ready]) -> set[str]:
        """DHCP agents can give the leases of ports of any hosts; the ids of those that became ACTIVE.

        Ignored for hosts that the port does not wait for, so that no host reports for ports that are not its own.
        """
        by_port = defaultdict[str, list[Ready]](list)
        for report in reports:
            by_port[report.port_id].append(report)
        ids, done = sorted(by_port), list[Done]()
        for start in range(0, len(ids), BATCH):
            with self.db.read() as connection:
                waiting = connection.execute(_WAITS, {"among": ids[start : start + BATCH]}).all()
                providers: dict[tuple[str, str], Collection[str]] = {}  # by network and host of ports
                for port in waiting:
                    current = [one for one in by_port[port.id] if one.revision >= port.revision_number]
                    place = (port.network_id, port.host)
                    if current and place not in providers:
                        providers[place] = provider_hosts(connection, *place)
                    done += [Done(port.id, port.host, one.revision) for one in current if one.host in providers[place]]
        return self.complete_all(done, DHCP) if done else set()

    def plugged(self, port_id: str, host: str) -> bool:
        """The target of a live migration has plugged a port, whose binding to it is INACTIVE; whether it has one.

        Nova moves the instance only after `network-vif-plugged`, which a change of the status causes. The status in the
        database does not change: the port is ACTIVE on the source.
        """
        with self.db.read() as connection:
            found = connection.execute(_INACTIVE, {"port": port_id, "host": host}).first()
            port = self.view.load(connection, port_id) if found is not None else None
        if port is None:
            return False
        self.notify({**port, "status": DOWN}, {**port, "status": ACTIVE})
        return True

    def release_unserved(self, cutoff: str) -> set[str]:
        """Remove the DHCP block of ports whose agents are all dead or down; the ids of ports that became ACTIVE."""
        with self.db.read() as connection:
            waiting = [WaitingPort(row.id, row.network_id, row.host) for row in connection.execute(_WAITING)]
            unserved = without_live_provider(connection, waiting, cutoff) if waiting else ()
        return self.complete_all([Done(port.port_id, port.host) for port in unserved], DHCP) if unserved else set()

    # --- the port is no longer wired ------------------------------------------------------------------------------

    def lost(self, port_id: str, host: str) -> bool:
        """The port is no longer wired on its host: it is DOWN until it is wired again. Whether the status changed."""
        with self.db.read() as connection:
            before = self.view.load(connection, port_id)
            is_blocked = L2 in connection.execute(_BLOCKS, {"port": port_id}).scalars()
            if before is None or before["binding:host_id"] != host:
                return False  # stale report: the port has been rebound since
            is_bound = before["binding:vif_type"] not in (VIF_UNBOUND, VIF_FAILED)
            if not is_bound or (before["status"] == DOWN and is_blocked):
                return False
            networks = self._networks_for_drivers(connection, [before])
        return self._block_again(before, host, networks)

    @retried
    def _block_again(self, port: Object, host: str, networks: Mapping[str, Object]) -> bool:
        contexts: list[DriverContext] = []
        with self.operations.write(contexts, raises=False) as tx:
            row = tx.execute(_LOCK, {"among": [port["id"]]}).first()
            if row is not None and row.host == host:
                block(tx, row.id, [L2])
                changing = [row] if row.status != DOWN else []
                contexts += self._set_status(tx, changing, DOWN, {row.id: port}, networks)
        return bool(contexts)

    # --- a driver sets the status itself --------------------------------------------------------------------------

    @retried
    def set_status(self, port_id: str, status: str) -> bool:
        """Give a port a status, whatever it waits for; whether there is the port."""
        with self.db.read() as connection:
            before = self.view.load(connection, port_id)
            networks = self._networks_for_drivers(connection, [before]) if before is not None else {}
        if before is None:
            return False
        contexts: list[DriverContext] = []
        with self.operations.write(contexts, raises=False) as tx:
            row = tx.execute(_LOCK, {"among": [port_id]}).first()
            if row is not None and row.status != status:
                contexts += self._set_status(tx, [row], status, {port_id: before}, networks)
        return True

    def _networks_for_drivers(self, connection: Connection, ports: Iterable[Object]) -> dict[str, Object]:
        """Networks of the ports by id; the query is saved if no driver is notified."""
        if not self.operations.mechanisms.notifies("update", "port"):
            return {}
        ids = sorted({port["network_id"] for port in ports})
        return {network["id"]: network for network in NETWORKS.load_in(connection, "id", ids)}

    def _set_status(
        self,
        tx: Transaction,
        rows: Sequence[NamedRow],
        status: str,
        ports: Mapping[str, Object],
        networks: Mapping[str, Object],
    ) -> list[DriverContext]:
        """Change the status of ports whose rows are locked; returns the changes, for the drivers."""
        if rows:
            values = {"status": status, "revision_number": t.ports.c.revision_number + 1, "updated_at": now()}
            tx.write(sa.update(t.ports).where(t.ports.c.id.in_([row.id for row in rows])).values(values))
        contexts = []
        for row in rows:
            project_id = ports[row.id].get("project_id")
            tx.record("port", row.id, project_id, changed={"status": (row.status, status)})
            before = {**ports[row.id], "status": row.status}
            after = {**before, "status": status, "revision_number": row.revision_number + 1}
            network = networks.get(before["network_id"], {"id": before["network_id"]})
            contexts.append(DriverContext("update", "port", after, before, network=network))
            tx.after_commit(self.notify, before, after)
        return contexts


def _is_current(port: NamedRow, reports: Mapping[tuple[str, str], int | None]) -> bool:
    """Whether a report is for the port's present binding and revision."""
    if port.vif_type in (VIF_UNBOUND, VIF_FAILED) or (port.id, port.host) not in reports:
        return False
    revision = reports[port.id, port.host]
    return revision is None or port.revision_number <= revision
