"""L3 scheduler: which L3 agents serve which routers.

A router needs an agent when it has an interface or a gateway, an HA router from its creation, a distributed one for its
SNAT while it has a gateway. Agents are assigned in the transaction of the request that makes them necessary (`assign`), so
the hosts of the router's ports are right from the start. Later changes (an agent is new or lost, or the operator moves the
router) go through `place`: read the router, decide its agents, reconcile its ports, in one transaction on the condition
that the router's revision has not changed.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import (
    DVRL3CannotAssignToDvrAgent,
    DVRL3CannotRemoveFromDvrAgent,
    InvalidL3Agent,
    RouterHostedByL3Agent,
    RouterL3AgentMismatch,
    RouterNotHostedByL3Agent,
)
from neutrino.features.router.routers import view as router_view
from neutrino.features.router.routers.port_layout import RouterAgent, RouterPort, central_host, central_port_host
from neutrino.features.router.routers.router_ports import RouterPorts, read_agents, read_router, reading_router
from neutrino.features.router.scheduling import candidates as l3
from neutrino.features.router.scheduling.candidates import DOWN, fits, mode, needs_agent
from neutrino.features.router.tables import floatingips, router_l3_agents, router_ports, routers
from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.model.routing import ACTIVE, STANDBY
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.reads import Read, read, read_together
from neutrino.server.db.session import retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.registry import AgentReport, check_agent
from neutrino.server.ml2.operations import NO_EVENT, Operations, PendingWrite, Writes, pending_statement
from neutrino.server.scheduling.placements import Candidate, PlacementTable
from neutrino.server.scheduling.scheduler import AgentScheduler, Move, PlacementChange

LOG = logging.getLogger(__name__)
MAX_REASONS = 10000  # routers whose last logged reason is remembered


@dataclass(frozen=True)
class Assignment:
    """The agents of a router after a change, and the writes of the placements that change.

    `candidates`: all agents, if they were looked at for this.
    """

    agents: tuple[RouterAgent, ...]
    writes: Writes = ()
    candidates: Sequence[Candidate] | None = None


@dataclass(eq=False)
class L3Scheduler(AgentScheduler):
    placements: PlacementTable = field(default=l3.PLACEMENTS, kw_only=True)
    operations: Operations
    ports: RouterPorts
    driver: str
    _reasons: dict[str, str] = field(default_factory=dict, init=False)  # why routers are DOWN, as last logged

    # --- as a part of a request -----------------------------------------------------------------------------------

    def assign(
        self,
        connection: Connection,
        router: Object,
        current: tuple[RouterAgent, ...],
        *,
        needed: bool = True,
        recast: bool = False,
    ) -> Assignment:
        """The agents of a router as it will be after the request.

        `current`: its agents now. `needed`: it has, or gets, an interface or a gateway. `recast`: it becomes, or ceases
        to be, HA or distributed.
        """
        kept = self._keep_fitting(connection, router, current) if recast else Assignment(current)
        if not needed or not self.options.automatic or (kept.agents and not router["ha"]):
            return kept
        if not needs_agent(router, has_interface=True):
            return kept
        added = self._add_lacking(connection, router, kept.agents)
        return replace(added, writes=kept.writes + added.writes)

    def _keep_fitting(self, connection: Connection, router: Object, current: tuple[RouterAgent, ...]) -> Assignment:
        """The agents that can keep a router of another kind. They get it as if it were new: HA ports are another kind's."""
        able = {agent.id for agent in self.candidates(connection).candidates if fits(agent, router)}
        # The active agent first: if the router is not HA any more it stays on the host that forwards its traffic now.
        fitting = sorted((a for a in current if a.agent_id in able), key=lambda a: a.ha_state != ACTIVE)
        staying = fitting if router["ha"] else fitting[:1]
        renew = (
            sa.update(router_l3_agents)
            .where(router_l3_agents.c.router_id == router["id"])
            .values(ha_port_id=None, ha_state=None)
        )
        leave = _leave(router["id"], {a.agent_id for a in current} - {a.agent_id for a in staying})
        agents = tuple(RouterAgent(a.agent_id, a.host) for a in staying)
        return Assignment(agents, (*leave, pending_statement(renew)))

    def _add_lacking(
        self, connection: Connection, router: Object, current: tuple[RouterAgent, ...], barred: Collection[str] = ()
    ) -> Assignment:
        """Add the agents that the router lacks, but none that is `barred`."""
        candidates = self.candidates(connection).candidates
        chosen = l3.choose_agents(
            [agent for agent in candidates if agent.id not in barred],
            router,
            {agent.agent_id for agent in current},
            router["availability_zone_hints"] or list(self.options.default_zones),
            self.options.agents_per_object,
            self.driver,
        )
        agents = (*current, *(RouterAgent(a.id, a.host) for a in chosen))
        return Assignment(agents, self._join(router["id"], chosen), candidates)

    def _join(self, router_id: str, agents: Sequence[Candidate]) -> Writes:
        """Write the placements of a router on these agents."""
        ids = [agent.id for agent in agents]

        def write(tx: Transaction) -> None:
            tx.insert(router_l3_agents, [{"router_id": router_id, "agent_id": key} for key in ids])
            self.loads.placed(ids)

        return (PendingWrite(NO_EVENT, write),) if ids else ()

    def commit(self, router: Object, writes: Writes, assigned: Assignment | None = None) -> None:
        """Write a change of a router's ports and agents, on the condition that the router is as it was read.

        `assigned`: the agents of the router with its interfaces. Without any, the reason is logged.
        """
        router_id = router["id"]
        with self.operations.write([], writes) as tx:
            update_row(tx, routers, router, {})
            if assigned is None:
                pass
            elif router["distributed"] or (not assigned.agents and assigned.candidates is None):
                tx.after_commit(self.status, router_id)
            else:
                reason = "" if assigned.agents else self._reason(router, assigned.candidates or (), has_agent=False)
                tx.after_commit(self._log_reason, router_id, reason)

    # --- one router by itself -------------------------------------------------------------------------------------

    @retried
    def place(self, object_id: str, change: PlacementChange) -> Move | None:
        with self.db.read() as connection:
            inputs = read_router(connection, object_id)
            router, ports, before = inputs.router, inputs.ports, inputs.agents
            # Agents, ports and revision are read together, and the write is conditional on the revision: the plan of
            # ports is never written for other agents than it was made for.
            leave = self._surplus(connection, router, ports, before) if change.trim else change.leave
            staying = tuple(agent for agent in before if agent.agent_id not in leave)
            joining = [a for a in self.candidates(connection).candidates if a.id in change.join] if change.join else []
            agents = (*staying, *(RouterAgent(agent.id, agent.host) for agent in joining))
            writes = _leave(object_id, {a.agent_id for a in before}.intersection(leave))
            writes += self._join(object_id, joining)
            if change.fill and needs_agent(router, has_interface=any(port.is_interface for port in ports)):
                added = self._add_lacking(connection, router, agents, change.leave)
                agents, writes = added.agents, writes + added.writes
                if change.leave and not agents and not change.force:
                    return None  # no other agent: this one finds the router when it is back
            if change.leave and not agents and not router["distributed"]:
                writes += _floating_ips_down(object_id)
            writes += self.ports.reconcile(connection, router, ports, agents, rebind=change.rebind)
        if not writes:
            return None
        self.commit(router, writes, Assignment(agents))
        was, now = {agent.agent_id for agent in before}, {agent.agent_id for agent in agents}
        return Move(object_id, tuple(sorted(was - now)), tuple(sorted(now - was)))

    # --- status ---------------------------------------------------------------------------------------------------

    def status(self, router_id: str) -> str:
        """A router's status after a change. The reason why it is DOWN is logged, once."""
        with self.db.read() as connection:
            status = str(read(connection, router_view.STATUS_OF(router=router_id)))
            self.explain(connection, router_id, status)
        return status

    def reading_status(self, router_id: str) -> tuple[Read[str], Read[list[str]]]:
        """A router's status, and the availability zones of its agents."""
        return router_view.STATUS_OF(router=router_id), self.placements.reading_zones(router_id)

    def explain(self, connection: Connection, router_id: str, status: str) -> None:
        """Log why a router is DOWN, once."""
        self._log_reason(router_id, self._why_down(connection, router_id) if status == DOWN else "")

    def _log_reason(self, router_id: str, reason: str) -> None:
        """Log why a router is DOWN, unless that is known; without a reason it is not."""
        if not reason:
            self._reasons.pop(router_id, None)
        elif self._reasons.get(router_id) != reason:
            if len(self._reasons) >= MAX_REASONS:  # deleted routers stay in it
                self._reasons.clear()
            self._reasons[router_id] = reason
            LOG.warning("router %s is DOWN: %s", router_id, reason)

    def unhosted(self) -> dict[str, str]:
        """Every router that no agent can serve, with the reason."""
        with self.db.read() as connection:
            ids = (
                connection.execute(sa.select(routers.c.id).where(l3.STATUS == DOWN).order_by(routers.c.id))
                .scalars()
                .all()
            )
            reasons = {router_id: self._why_down(connection, router_id) for router_id in ids}
        return {router_id: reason for router_id, reason in reasons.items() if reason}

    def _why_down(self, connection: Connection, router_id: str) -> str:
        candidates = self.placements.reading_candidates(self.registry.cutoff(), self.loads)
        router, ports, agents, agents_known = read_together(connection, *reading_router(router_id), candidates)
        if router is None:  # deleted meanwhile
            return ""
        has_interface = any(port.is_interface for port in ports)
        return self._reason(router, agents_known.candidates, has_agent=bool(agents), has_interface=has_interface)

    def _reason(
        self, router: Object, candidates: Sequence[Candidate], *, has_agent: bool, has_interface: bool = True
    ) -> str:
        zones = router["availability_zone_hints"] or list(self.options.default_zones)
        return l3.why_down(router, candidates, zones, has_agent=has_agent, has_interface=has_interface)

    # --- the life of agents ---------------------------------------------------------------------------------------

    def reported(self, report: AgentReport) -> int:
        """After a report of an L3 agent that is new, back or restarted: it gets the routers that lack an agent.

        After that of an Open vSwitch agent: ports that its host could not bind before are bound now.
        """
        if not report.needs_everything:
            return 0
        if report.agent_type == words.L3:
            return self.auto_schedule(report.host)
        if report.agent_type == words.OVS:
            return self._rebind(report.host)
        return 0

    def auto_schedule(self, host: str) -> int:
        with self.db.read() as connection:
            agent = next((a for a in self.candidates(connection).candidates if a.host == host), None)
            if agent is None or not agent.serves or not self.options.automatic:
                return 0
            router_ids = self._lacking(connection)
        return self._place_all(router_ids, PlacementChange(fill=True, rebind=True))

    def _place_all(self, router_ids: Sequence[str], change: PlacementChange) -> int:
        """How many of the routers changed."""
        return sum(self.try_place(router_id, change) is not None for router_id in router_ids)

    def _rebind(self, host: str) -> int:
        statement = (
            sa.select(router_ports.c.router_id)
            .select_from(router_ports.join(t.ports))
            .where(t.ports.c.host == host, t.ports.c.vif_type == "binding_failed")
            .distinct()
        )
        with self.db.read() as connection:
            router_ids = list(connection.execute(statement).scalars())
        return self._place_all(router_ids, PlacementChange(rebind=True))

    def _lacking(self, connection: Connection) -> list[str]:
        """Routers with ports that are on fewer agents than they may be."""
        # HA routers lack agents also while they have some; others only without any.
        lacks_some = self.placements.placed < (self.options.agents_per_object or 2**31 - 1)  # 0: all agents
        lacks_all = sa.and_(sa.exists().where(router_ports.c.router_id == routers.c.id), self.placements.placed == 0)
        statement = (
            sa.select(routers.c.id).where(sa.case((routers.c.ha, lacks_some), else_=lacks_all)).order_by(routers.c.id)
        )
        return list(connection.execute(statement).scalars())

    def with_surplus(self, connection: Connection) -> Sequence[str]:
        """Routers that are not HA and on two agents: both would answer for the gateway's address."""
        statement = (
            sa.select(routers.c.id).where(sa.not_(routers.c.ha), self.placements.serving > 1).order_by(routers.c.id)
        )
        return connection.execute(statement, {"cutoff": self.registry.cutoff()}).scalars().all()

    def _surplus(
        self, connection: Connection, router: Object, ports: Sequence[RouterPort], agents: Sequence[RouterAgent]
    ) -> set[str]:
        """The live agents of a router that is not HA, but for the one whose host has its ports."""
        live = {agent.id for agent in self.candidates(connection).candidates if agent.serves}
        serving = [agent for agent in agents if agent.agent_id in live]
        if router["ha"] or len(serving) < 2:
            return set()
        host = central_host(serving, central_port_host(router, ports))
        return {agent.agent_id for agent in serving if agent.host != host}

    # --- by the operator ------------------------------------------------------------------------------------------

    def add(self, agent_id: str, object_id: str) -> None:
        with self.db.read() as connection:
            agent = next((a for a in self.candidates(connection).candidates if a.id == agent_id), None)
            if agent is None:
                check_agent(connection, agent_id)
            router = router_view.VIEW.get(connection, object_id)
            current = read_agents(connection, object_id)
        if agent is not None and mode(agent) in l3.NOT_SCHEDULED_TO:
            raise DVRL3CannotAssignToDvrAgent()
        if agent is not None and mode(agent) == words.LEGACY and router["distributed"]:
            raise RouterL3AgentMismatch(router_id=object_id, agent_id=agent_id)
        if agent is None or not agent.admin_state_up or not fits(agent, router):
            raise InvalidL3Agent(id=agent_id)
        if any(other.agent_id == agent_id for other in current):
            return
        if current and not router["ha"]:
            raise RouterHostedByL3Agent(router_id=object_id, agent_id=current[0].agent_id)
        self.place(object_id, PlacementChange(join=[agent_id]))

    def remove(self, agent_id: str, object_id: str) -> None:
        with self.db.read() as connection:
            agent = connection.execute(sa.select(t.agents.c.configurations).where(t.agents.c.id == agent_id)).first()
            current = read_agents(connection, object_id)
        if agent is None:
            raise errors.AgentNotFound(id=agent_id)
        if msgspec.json.decode(agent.configurations).get(words.AGENT_MODE) in l3.NOT_SCHEDULED_TO:
            raise DVRL3CannotRemoveFromDvrAgent()
        if not any(agent.agent_id == agent_id for agent in current):
            raise RouterNotHostedByL3Agent(router_id=object_id, agent_id=agent_id)
        self.place(object_id, PlacementChange(leave={agent_id}))

    # --- HA -------------------------------------------------------------------------------------------------------

    def set_ha_state(self, host: str, router_id: str, state: str) -> bool:
        """Store the HA state that a host reports for a router, whose ports follow the active host; whether it changed."""
        changed = self._write_ha_state(host, router_id, state)
        # With the bindings move the forwarding entries, by which other hosts' tunnels lead to the active host.
        if state == ACTIVE:  # also if unchanged: an earlier report may have failed before the ports moved
            self.try_place(router_id, PlacementChange())
        return changed

    @retried
    def _write_ha_state(self, host: str, router_id: str, state: str) -> bool:
        """The last host that reports `active` wins: the one before may be lost, and cannot report that it is standby."""
        agent = (
            sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.L3, t.agents.c.host == host).scalar_subquery()
        )
        placements = sa.update(router_l3_agents).where(router_l3_agents.c.router_id == router_id)
        other_state = sa.or_(router_l3_agents.c.ha_state.is_(None), router_l3_agents.c.ha_state != state)
        with self.db.transaction() as tx:
            if not tx.execute(
                placements.where(router_l3_agents.c.agent_id == agent, other_state).values(ha_state=state)
            ).rowcount:
                return False
            if state == ACTIVE:
                # With two active agents `central_host` would leave the ports on the lost host.
                others = placements.where(router_l3_agents.c.agent_id != agent, router_l3_agents.c.ha_state == ACTIVE)
                tx.write(others.values(ha_state=STANDBY))
            tx.record("router", router_id)  # all its hosts get the new active host
        return True


def _leave(router_id: str, agent_ids: Collection[str]) -> Writes:
    if not agent_ids:
        return ()
    gone = sa.delete(router_l3_agents).where(
        router_l3_agents.c.router_id == router_id, router_l3_agents.c.agent_id.in_(sorted(agent_ids))
    )
    return (pending_statement(gone),)


def _floating_ips_down(router_id: str) -> Writes:
    """No host translates the floating IPs of a router that has lost its agents; the next one reports them as ACTIVE."""
    served = sa.update(floatingips).where(floatingips.c.router_id == router_id, floatingips.c.status != DOWN)
    return (pending_statement(served.values(status=DOWN)),)
