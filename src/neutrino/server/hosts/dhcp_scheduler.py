"""Networks to DHCP agents: given when a network needs them, taken over when an agent appears, moved when one is lost.

An agent whose admin state is down serves nothing: its networks go to others, and it is given no new ones. Where there are
no others it keeps them, and comes back with them. The ports that agents
serve from are written in the same transactions (`dhcp_placements.py`, `dhcp_ports.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.dhcp_failover import Failover, Move
from neutrino.server.hosts.dhcp_placements import (
    AGENTS,
    BATCH,
    HAS_DHCP,
    Placements,
    networks_on,
    serving_agents,
)
from neutrino.server.hosts.dhcp_ports import DhcpPorts
from neutrino.server.hosts.registry import Registry, Report
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.operations import PendingWrite

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
Notify = Callable[[Object | None, Object | None], None]  # a port before and after its change
PORTS_BATCH = 50  # networks placed in one transaction where each of them gets a port
_a, _b, _n = t.agents.c, t.network_dhcp_agents.c, t.networks.c


def build_dhcp(conf: cfg.ConfigOpts, db: Database, registry: Registry, core: Any, notify: Notify) -> DhcpScheduler:
    """The scheduler, registered with the core: DHCP ports follow subnets and are replaced when somebody deletes them."""
    scheduler = DhcpScheduler(
        db,
        registry,
        conf.dhcp_agents_per_network,
        ports=DhcpPorts(core.networks, core.ports, core.operations, notify, conf.base_mac),
        release=core.provisioning.release_unserved,
        default_zones=conf.default_availability_zones,
        automatic=conf.network_auto_schedule,
        failover=conf.allow_automatic_dhcp_failover,
    )
    core.subnets.observers.append(scheduler)
    core.ports.commit_hooks.append(scheduler.port_changed)
    return scheduler


class DhcpScheduler:
    def __init__(
        self,
        db: Database,
        registry: Registry,
        agents_per_network: int = 1,
        *,
        ports: DhcpPorts | None = None,
        release: Callable[[str], Collection[str]] | None = None,
        default_zones: Sequence[str] = (),
        automatic: bool = True,  # network_auto_schedule
        failover: bool = True,  # allow_automatic_dhcp_failover
    ) -> None:
        self._db = db
        self._registry = registry
        self._ports = ports
        self._placements = Placements(db, registry, agents_per_network, ports)
        self._lost = Failover(db, registry, self._placements, default_zones)
        self._default_zones = list(default_zones)
        self._automatic = automatic
        self._failover = failover and automatic
        self._release = release  # by heartbeat cutoff: unblocks ports whose agents have not reported since

    # --- the ports that agents serve from ---------------------------------------------------------------------------

    def prepare(self, connection: Connection, network_id: str, subnets: Sequence[Object]) -> list[PendingWrite]:
        """Changes of the network's DHCP ports when these are its subnets."""
        return [] if self._ports is None else self._ports.steps(connection, network_id, subnets=subnets)

    def committed(
        self, network: Object, before: Object | None, after: Object | None, writes: Sequence[PendingWrite]
    ) -> None:
        """A subnet has changed, and its network's DHCP ports with it."""
        if self._ports is not None:
            self._ports.told(writes)
        had = before is not None and before["enable_dhcp"]
        has = after is not None and after["enable_dhcp"]
        if has and not had:
            self.schedule(network["id"], network["availability_zone_hints"])
        elif had and not has and after is not None:
            self.settle(network["id"])

    def port_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is None and before["device_owner"] == DHCP_OWNER:
            self.settle(before["network_id"])  # somebody deleted the port that an agent serves from

    def steps(
        self, connection: Connection, network_id: str, coming: Collection[str] = (), going: Collection[str] = ()
    ) -> list[Any]:
        return self._placements.steps(connection, network_id, coming, going)

    def write(self, steps: Sequence[Any]) -> AbstractContextManager[Transaction]:
        return self._placements.write(steps)

    def settle(self, network_id: str) -> None:
        """Bring a network's DHCP ports to what its agents and subnets ask for, if they are not there."""
        self._placements.settle(network_id)

    # --- a network needs agents -----------------------------------------------------------------------------------

    def schedule(self, network_id: str, hints: Sequence[str] = ()) -> list[str]:
        """Give a network the agents that it lacks. For networks with a DHCP subnet; the ids of the agents added."""
        if not self._automatic:
            self.settle(network_id)
            return []
        return self._db.retrying(lambda: self._schedule(network_id, list(hints) or self._default_zones))

    def _schedule(self, network_id: str, hints: Sequence[str]) -> list[str]:
        with self._db.read() as connection:
            rows = connection.execute(AGENTS, {"network": network_id}).all()
            candidates, hosted = self._placements.candidates(rows), {row.id for row in rows if row.hosted}
            chosen, steps = (
                self._placements.choose(connection, network_id, candidates, hints, hosted) if rows else ([], [])
            )
            if not chosen and not steps:
                return []
            revision = connection.execute(sa.select(_n.revision_number).where(_n.id == network_id)).scalar()
        if revision is None:  # deleted meanwhile
            return []

        with self._placements.write(steps) as tx:
            for agent_id in chosen:
                self._placements.give(tx, [network_id], agent_id)
            if chosen:
                tx.record("network", network_id, revision)
        if chosen:
            LOG.info("Network %s is served by DHCP agents %s", network_id, ", ".join(chosen))
        if steps:
            self._placements.settle(network_id)
        return chosen

    def schedule_all(self, network_ids: Sequence[str]) -> None:
        """The same for many networks; those without a DHCP subnet are passed over."""
        for batch in _batches(network_ids):
            statement = sa.select(_n.id, _n.availability_zone_hints).where(_n.id.in_(batch), HAS_DHCP)
            with self._db.read() as connection:
                rows = connection.execute(statement).all()
            for network_id, hints in rows:
                self.schedule(network_id, msgspec.json.decode(hints))

    # --- an agent appears -----------------------------------------------------------------------------------------

    def reported(self, report: Report) -> int:
        """After a report: an agent that is new, back or restarted takes the networks that lack one.

        So does that of a host whose switch is: it may carry networks that it could not carry before.
        """
        if report.agent_type not in (words.DHCP, words.OVS) or not report.needs_everything:
            return 0
        taken = self.auto_schedule(report.host)
        self._placements.refresh(report.host)
        return taken

    def auto_schedule(self, host: str) -> int:
        """Give a host's DHCP agent the networks that lack one; how many these were."""
        if not self._automatic:
            return 0
        with self._db.read() as connection:
            found = connection.execute(sa.select(t.agents).where(_a.agent_type == words.DHCP, _a.host == host)).first()
        if found is None or not found.admin_state_up or not self._registry.alive(found._asdict()):
            return 0
        taken = 0
        last: str | None = ""
        while last is not None:
            count, last = self._db.retrying(partial(self._take, found.id, host, found.availability_zone, last))
            taken += count
        if taken:
            LOG.info("The DHCP agent on %s takes %d networks that lacked one", host, taken)
        return taken

    def _take(self, agent_id: str, host: str, zone: str | None, after: str) -> tuple[int, str | None]:
        """Give an agent the next networks that lack one and are for its zone; how many, and where to go on."""
        for_zone = _n.availability_zone_hints.contains(encode(zone), autoescape=True) if zone else sa.false()
        if not self._default_zones or zone in self._default_zones:
            for_zone = sa.or_(for_zone, _n.availability_zone_hints == "[]")
        has = sa.exists().where(_b.network_id == _n.id, _b.agent_id == agent_id)
        most = BATCH if self._placements.ports is None else PORTS_BATCH
        statement = (
            sa.select(_n.id, _n.revision_number, _n.availability_zone_hints)
            .where(_n.id > after, HAS_DHCP, for_zone, ~has, serving_agents < self._placements.wanted)
            .order_by(_n.id)
            .limit(most)
        )
        with self._db.read() as connection:
            if connection.execute(sa.select(_a.id).where(_a.id == agent_id)).first() is None:
                return 0, None  # deleted meanwhile
            rows = connection.execute(statement, {"cutoff": self._registry.cutoff()}).all()
            # The databases do not agree on whether LIKE tells "A" from "a"; zones do.
            networks = {r.id: r.revision_number for r in rows if zone in (msgspec.json.decode(r[2]) or [zone])}
            steps = {key: self._placements.steps(connection, key, coming=[agent_id]) for key in networks}
            for key, some in list(steps.items()):
                if self._placements.unbound(connection, some).get(host):  # the host cannot carry it: for others to take
                    del networks[key], steps[key]

        if networks:
            with self._placements.write([step for some in steps.values() for step in some]) as tx:
                self._placements.give(tx, list(networks), agent_id)
                for network_id, revision in networks.items():
                    tx.record("network", network_id, revision)
            for network_id, some in steps.items():
                if some:
                    self._placements.settle(network_id)
        return len(networks), rows[-1].id if len(rows) == most else None

    # --- an agent is lost -----------------------------------------------------------------------------------------

    def reschedule_dead(self) -> list[Move]:
        """Move networks from agents that have been dead for a while, or are set down, to others, where there are others.

        Ports that nobody is left to serve are not held back for that.
        """
        moves = self._lost.relieve_all() if self._failover else []
        if self._release is not None and (released := self._release(self._registry.cutoff())):
            LOG.warning("%d ports are ACTIVE though no DHCP agent that lives serves their network", len(released))
        return moves

    def agent_disabled(self, agent_id: str) -> list[Move]:
        """The operator has set an agent down: others take its networks at once."""
        return self._lost.relieve(agent_id) if self._failover else []

    # --- by the operator ------------------------------------------------------------------------------------------

    def add(self, agent_id: str, network_id: str) -> None:
        """Give an agent a network, however many others have it."""
        self._db.retrying(lambda: self._add(agent_id, network_id))

    def _add(self, agent_id: str, network_id: str) -> None:
        both = sa.and_(_b.network_id == network_id, _b.agent_id == agent_id)
        with self._db.read() as connection:
            revision = connection.execute(sa.select(_n.revision_number).where(_n.id == network_id)).scalar()
            agent = connection.execute(sa.select(_a.agent_type, _a.admin_state_up).where(_a.id == agent_id)).first()
            has = connection.execute(sa.select(_b.agent_id).where(both)).first() is not None
            steps = self._placements.steps(connection, network_id, coming=[agent_id])
        if revision is None:
            raise errors.NetworkNotFound(id=network_id)
        if agent is None:
            raise errors.AgentNotFound(id=agent_id)
        if agent.agent_type != words.DHCP or not agent.admin_state_up:
            raise errors.InvalidDHCPAgent(id=agent_id)
        if has:
            raise errors.NetworkHostedByDHCPAgent(network_id=network_id, agent_id=agent_id)

        with self._placements.write(steps) as tx:
            tx.execute(sa.insert(t.network_dhcp_agents).values(network_id=network_id, agent_id=agent_id))
            tx.record("network", network_id, revision)

    def remove(self, agent_id: str, network_id: str) -> None:
        """Take a network from an agent; no other gets it for that."""
        self._db.retrying(lambda: self._remove(agent_id, network_id))

    def _remove(self, agent_id: str, network_id: str) -> None:
        with self._db.read() as connection:
            revision = connection.execute(sa.select(_n.revision_number).where(_n.id == network_id)).scalar()
            if connection.execute(sa.select(_a.id).where(_a.id == agent_id)).first() is None:
                raise errors.AgentNotFound(id=agent_id)
            steps = self._placements.steps(connection, network_id, going=[agent_id])
        leave = sa.delete(t.network_dhcp_agents).where(_b.network_id == network_id, _b.agent_id == agent_id)

        with self._placements.write(steps) as tx:
            if revision is None or not tx.execute(leave).rowcount:
                raise errors.NetworkNotHostedByDhcpAgent(network_id=network_id, agent_id=agent_id)
            tx.record("network", network_id, revision)

    # --- questions ------------------------------------------------------------------------------------------------

    def networks_on(self, connection: Connection, agent_id: str) -> list[str]:
        return networks_on(connection, agent_id)


def _batches(items: Sequence[str]) -> Iterable[list[str]]:
    return (list(items[i : i + BATCH]) for i in range(0, len(items), BATCH))
