"""Keeps Placement in step with what agents report: one thread of the feed process, and a bounded queue.

An agent is queued when it is new, has restarted or has changed its report; while Placement does not have what it reported,
by each of its heartbeats; and otherwise once in a while, which repairs what others have changed. Reports and requests only
queue: none waits for Placement. `resources_synced` of the agent says whether Placement has its resources.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from neutrino.features.placement import reconcile
from neutrino.features.placement.providers import BadReport, Tree, claims_other_host, trees
from neutrino.model.agents import shortened
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database
from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered
from neutrino.server.features import Running
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.ml2.driver_api import HasProviders, ResourceProviders
from neutrino.server.placement import SECTION, Call, Unavailable, caller, guarantees
from neutrino.server.services import Services

LOG = logging.getLogger(__name__)
RESYNC = 600.0  # seconds
_AGENTS = sa.select(
    *(t.agents.c.id, t.agents.c.agent_type, t.agents.c.host, t.agents.c.configurations, t.agents.c.resources_synced)
)
_AGENT = _AGENTS.where(t.agents.c.id == sa.bindparam("agent"))
_UNMARKED = _AGENTS.where(
    t.agents.c.id.in_(sa.bindparam("agents", expanding=True)), t.agents.c.resources_synced.is_not(False)
)


@dataclass(eq=False)
class Reporter:
    db: Database
    call: Call
    supported: Mapping[str, ResourceProviders]  # by type of agent
    options: DeliveryOptions = field(default_factory=DeliveryOptions)
    clock: Callable[[], float] = time.monotonic
    queue: DeliveryQueue[str] = field(init=False)
    _synced: dict[str, float] = field(default_factory=dict)  # agents, and when Placement had theirs
    _problems: dict[str, str] = field(default_factory=dict)  # logged once each

    def __post_init__(self) -> None:
        self.queue = DeliveryQueue("resources of hosts", self.deliver, self.options, merge_equal=True)

    def host_reported(self, report: AgentReport) -> None:
        if report.agent_type not in self.supported:
            return
        at = self._synced.get(report.agent_id)
        if report.is_heartbeat and at is not None and self.clock() - at < RESYNC:
            return
        self.queue.put(report.agent_id)

    def deliver(self, batch: Sequence[str]) -> Undelivered[str] | None:
        for done, agent_id in enumerate(batch):
            try:
                self._sync(agent_id)
            except Unavailable as why:
                self._unsynced(batch[done:])
                return Undelivered(batch[done:], str(why), some_accepted=done > 0)
        return None

    def _sync(self, agent_id: str) -> None:
        with self.db.read() as connection:
            row = connection.execute(_AGENT, {"agent": agent_id}).mappings().first()
        if row is None:
            self._synced.pop(agent_id, None)
            return
        has_any, problems = True, list[str]()
        try:
            found = trees(self.supported[row["agent_type"]], row["host"], msgspec.json.decode(row["configurations"]))
            has_any = any(tree.providers for tree in found)
            # An agent that reports none, and of which Placement has none, costs no request.
            if has_any or row["resources_synced"] is not None:
                problems = [problem for tree in found for problem in self._sync_tree(row["host"], tree)]
        except BadReport as why:
            problems = [f"its report: {why}"]
        self._store(agent_id, not problems if has_any or problems else None, row["resources_synced"])
        self._log(agent_id, f"{row['agent_type']} on {row['host']}", "; ".join(problems))
        if problems:
            self._synced.pop(agent_id, None)
        else:
            self._synced[agent_id] = self.clock()

    def _sync_tree(self, host: str, tree: Tree) -> list[str]:
        if claims_other_host(tree.hypervisor, host) and self._is_host(tree.hypervisor):
            return [f"compute node {tree.hypervisor} is that of another host"]
        try:
            return reconcile.sync(self.call, tree)
        except reconcile.Refused as why:
            return [str(why)]

    def _is_host(self, name: str) -> bool:
        """Whether there is a host of this name, whose resources another one could replace by its own."""
        names = {name, name.partition(".")[0]}
        with self.db.read() as connection:
            return exists(connection, t.agents.c.host.in_(names))

    def _store(self, agent_id: str, synced: bool | None, before: bool | None) -> None:
        if synced is not before:
            with self.db.transaction() as tx:
                tx.write(sa.update(t.agents).where(t.agents.c.id == agent_id).values(resources_synced=synced))

    def _unsynced(self, agents: Sequence[str]) -> None:
        """Placement is away: mark the agents that have something for it, or of which it may have something."""
        for agent_id in agents:
            self._synced.pop(agent_id, None)
        with self.db.read() as connection:
            rows = connection.execute(_UNMARKED, {"agents": list(agents)}).mappings().all()
        ids = [row["id"] for row in rows if row["resources_synced"] is not None or self._has_any(row)]
        if ids:
            with self.db.transaction() as tx:
                tx.write(sa.update(t.agents).where(t.agents.c.id.in_(ids)).values(resources_synced=False))

    def _has_any(self, row: sa.RowMapping) -> bool:
        try:
            found = trees(self.supported[row["agent_type"]], row["host"], msgspec.json.decode(row["configurations"]))
        except BadReport:
            return True
        return any(tree.providers for tree in found)

    def _log(self, agent_id: str, agent: str, problem: str) -> None:
        if self._problems.get(agent_id, "") != problem:
            if problem:
                LOG.warning("Placement does not have the resources of %s: %s", agent, shortened(problem))
                self._problems[agent_id] = problem
            else:
                LOG.info("Placement has the resources of %s again", agent)
                del self._problems[agent_id]


def start(services: Services) -> Running:
    conf = services.conf
    if not guarantees(conf):
        return Running()
    drivers = services.core.operations.mechanisms.drivers.values()
    supported = {one.providers.agent_type: one.providers for one in drivers if isinstance(one, HasProviders)}
    call = caller(conf, SECTION, "placement", reconcile.VERSION, "report the resources of hosts")
    reporter = Reporter(services.db, call, supported)
    return Running(host_reported=reporter.host_reported, close=reporter.queue.close)
