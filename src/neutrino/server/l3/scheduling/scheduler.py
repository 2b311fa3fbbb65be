"""Routers to L3 agents: given with the change that needs one, taken over when an agent appears, moved when one is lost.

A router needs an agent when it has an interface or a gateway; an HA router from the start, a distributed one for its SNAT
while it has a gateway. Which agents it has is part of the change that made it need them, and so are its ports' hosts.
What happens later (an agent comes, goes, or is given the router by the operator) is `settle`: the router is read, its
agents are decided, and its ports are made what they should be, in one transaction on the router's revision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import update_row
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.registry import Registry, Report
from neutrino.server.l3 import router_view
from neutrino.server.l3.device_owners import GATEWAY, INTERFACES
from neutrino.server.l3.routers.port_layout import ACTIVE, STANDBY
from neutrino.server.l3.routers.router_ports import NOTHING, Part, RouterPorts
from neutrino.server.l3.routers.state import RouterPort, Serving, read_agents, read_ports
from neutrino.server.l3.scheduling.candidates import DVR, DVR_NO_EXTERNAL, LEGACY, L3Agent, choose_agents, fits
from neutrino.server.l3.scheduling.hosting import DOWN, STATUS, why_unhosted
from neutrino.server.ml2.operations import Operations
from neutrino.server.scheduling.candidates import Candidate

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
BATCH = 500
MOST_REASONS = 10000
_a, _b, _r, _rp = t.agents.c, t.router_l3_agents.c, t.routers.c, t.router_ports.c
_AGENTS = (
    sa.select(
        _a.id,
        _a.host,
        _a.availability_zone,
        _a.admin_state_up,
        _a.heartbeat_timestamp,
        _a.configurations,
        sa.select(sa.func.count()).where(_b.agent_id == _a.id).scalar_subquery().label("routers"),
    )
    .where(_a.agent_type == words.L3)
    .order_by(_a.id)
)


@dataclass(frozen=True)
class Settings:
    driver: str
    agents_per_router: int
    default_zones: Sequence[str] = ()
    automatic: bool = True  # router_auto_schedule
    failover: bool = True  # allow_automatic_l3agent_failover


@dataclass(frozen=True)
class Placed:
    """The agents that a router has after a change, and what writes those that it did not have before."""

    agents: tuple[Serving, ...]
    part: Part = NOTHING


class L3Scheduler:
    def __init__(
        self, db: Database, registry: Registry, operations: Operations, ports: RouterPorts, settings: Settings
    ) -> None:
        self._db = db
        self._registry = registry
        self._operations = operations
        self._ports = ports
        self._settings = settings
        self._reasons: dict[str, str] = {}  # why routers are DOWN, as last logged

    # --- as a part of a change --------------------------------------------------------------------------------------

    def place(
        self, connection: Connection, router: Object, *, new: bool = False, work: bool = True, recast: bool = False
    ) -> Placed:
        """The agents of a router as it will be.

        `work`: it has, or is about to get, something to do. `recast`: it is becoming one of another kind.
        """
        serving = () if new else read_agents(connection, router["id"])
        kept = Placed(serving)
        if recast:
            kept = self._still_fitting(connection, router, serving)
        if not work or not self._settings.automatic or (kept.agents and not router["ha"]):
            return kept
        if router["distributed"] and router["gw_network_id"] is None and not router["ha"]:
            return kept
        more = self._with_more(connection, router, kept.agents)
        return Placed(more.agents, kept.part + more.part)

    def _still_fitting(self, connection: Connection, router: Object, serving: tuple[Serving, ...]) -> Placed:
        """Of a router's agents, those that can keep it when it is one of another kind, as if it were new to them."""
        able = {agent.candidate.id for agent in self.read_candidates(connection) if fits(agent, router)}
        fitting = sorted((a for a in serving if a.agent_id in able), key=lambda a: a.ha_state != ACTIVE)
        staying = fitting if router["ha"] else fitting[:1]
        kept = {agent.agent_id for agent in staying}
        leaving = self._leaving(router["id"], [agent for agent in serving if agent.agent_id not in kept])
        renew = sa.update(t.router_l3_agents).where(_b.router_id == router["id"]).values(ha_port_id=None, ha_state=None)

        def write(tx: Transaction) -> None:
            tx.execute(renew)

        return Placed(tuple(Serving(a.agent_id, a.host) for a in staying), leaving + Part(first=(write,)))

    def _with_more(
        self, connection: Connection, router: Object, serving: tuple[Serving, ...], barred: Collection[str] = ()
    ) -> Placed:
        """With the agents that the router lacks; none of those that are `barred`."""
        hints = router["availability_zone_hints"] or list(self._settings.default_zones)
        chosen = choose_agents(
            [agent for agent in self.read_candidates(connection) if agent.candidate.id not in barred],
            router,
            {agent.agent_id for agent in serving},
            hints,
            self._settings.agents_per_router,
            self._settings.driver,
        )
        return Placed((*serving, *(_serving(agent) for agent in chosen)), joining(router["id"], chosen))

    def read_candidates(self, connection: Connection) -> list[L3Agent]:
        cutoff = self._registry.cutoff()
        return [
            L3Agent(
                Candidate(
                    row.id,
                    row.availability_zone,
                    row.routers,
                    row.heartbeat_timestamp >= cutoff,
                    bool(row.admin_state_up),
                ),
                row.host,
                msgspec.json.decode(row.configurations),
            )
            for row in connection.execute(_AGENTS)
        ]

    # --- what operators see -----------------------------------------------------------------------------------------

    def status(self, router_id: str) -> str:
        """A router's status after a change. The reason why it is DOWN is logged, once."""
        with self._db.read() as connection:
            status = router_view.status_of(connection, router_id)
            if status != DOWN:
                self._reasons.pop(router_id, None)
                return status
            reason = self._why_down(connection, router_id)
        if reason and self._reasons.get(router_id) != reason:
            if len(self._reasons) >= MOST_REASONS:
                self._reasons.clear()
            self._reasons[router_id] = reason
            LOG.warning("router %s is DOWN: %s", router_id, reason)
        return status

    def unhosted(self) -> dict[str, str]:
        """Every router that no agent can host, with the reason."""
        with self._db.read() as connection:
            ids = connection.execute(sa.select(_r.id).where(STATUS == DOWN).order_by(_r.id)).scalars().all()
            reasons = {router_id: self._why_down(connection, router_id) for router_id in ids}
        return {router_id: reason for router_id, reason in reasons.items() if reason}

    def _why_down(self, connection: Connection, router_id: str) -> str:
        try:
            router = router_view.load(connection, router_id)
        except errors.RouterNotFound:  # deleted meanwhile
            return ""
        return why_unhosted(
            router,
            self.read_candidates(connection),
            router["availability_zone_hints"] or list(self._settings.default_zones),
            has_agent=bool(read_agents(connection, router_id)),
            is_attached=any(port.type in INTERFACES for port in read_ports(connection, router_id)),
        )

    # --- by itself ------------------------------------------------------------------------------------------------

    def settle(
        self,
        router_id: str,
        *,
        leave: Collection[str] = (),
        join: Sequence[L3Agent] = (),
        fill: bool = False,
        rebind: bool = False,
    ) -> bool:
        """Take a router from some agents, give it to others, and have its ports follow; whether anything changed.

        `fill`: it gets the agents that it lacks; if there are none to be had, it stays where it is.
        """

        def attempt() -> bool:
            with self._db.read() as connection:
                router = router_view.load(connection, router_id)
                ports = read_ports(connection, router_id)
                before = read_agents(connection, router_id)
                staying = tuple(agent for agent in before if agent.agent_id not in leave)
                placed = Placed((*staying, *(_serving(agent) for agent in join)), joining(router_id, join))
                if fill and self.needs_agent(router, ports):
                    more = self._with_more(connection, router, placed.agents, leave)
                    placed = Placed(more.agents, placed.part + more.part)
                    if leave and len(placed.agents) == len(staying) and not staying:
                        return False  # nobody takes over: the agent finds its work when it comes back
                part = self._leaving(router_id, [a for a in before if a.agent_id in leave]) + placed.part
                part += self._ports.conform(connection, router, ports, placed.agents, rebind=rebind)
            if not part:
                return False
            self.commit(router, part)
            return True

        done = self._db.retrying(attempt)
        if done:
            self.status(router_id)
        return done

    def _leaving(self, router_id: str, agents: Sequence[Serving]) -> Part:
        if not agents:
            return NOTHING
        leave = sa.delete(t.router_l3_agents).where(
            _b.router_id == router_id, _b.agent_id.in_([agent.agent_id for agent in agents])
        )

        def write(tx: Transaction) -> None:
            tx.execute(leave)

        return Part(first=(write,))

    def commit(self, router: Object, part: Part, values: Object | None = None) -> Object:
        """Write a change of a router on the condition that it is as it was read; gives its new revision and time."""
        with self._operations.write([step.context for step in part.steps]) as tx:
            stamp = update_row(tx, t.routers, router, values or {})
            part.write(tx)
            tx.record("router", router["id"], stamp["revision_number"])
        return stamp

    def needs_agent(self, router: Object, ports: Sequence[RouterPort]) -> bool:
        if router["ha"]:
            return True
        if router["distributed"]:
            return router["gw_network_id"] is not None
        return any(port.type == GATEWAY or port.type in INTERFACES for port in ports)

    # --- an agent appears -----------------------------------------------------------------------------------------

    def reported(self, report: Report) -> int:
        """After a report: an agent that is new, back or restarted takes the routers that lack one.

        Where it is the switch that is back, ports that could not be wired are tried again.
        """
        if not report.needs_everything:
            return 0
        if report.agent_type == words.L3:
            return self.auto_schedule(report.host)
        if report.agent_type == words.OVS:
            return self.rebind(report.host)
        return 0

    def auto_schedule(self, host: str) -> int:
        """Give routers that lack an agent to a host's; how many these were."""
        with self._db.read() as connection:
            agent = next((a for a in self.read_candidates(connection) if a.host == host), None)
        if agent is None or not agent.candidate.serves or not self._settings.automatic:
            return 0
        return sum(self._quietly(router_id, fill=True, rebind=True) for router_id in self._lacking())

    def rebind(self, host: str) -> int:
        statement = (
            sa.select(_rp.router_id)
            .select_from(t.router_ports.join(t.ports))
            .where(t.ports.c.host == host, t.ports.c.vif_type == "binding_failed")
            .distinct()
        )
        with self._db.read() as connection:
            routers = list(connection.execute(statement).scalars())
        return sum(self._quietly(router_id, rebind=True) for router_id in routers)

    def _lacking(self) -> list[str]:
        """Routers that have something to do and fewer agents alive than they may have."""
        live = (
            sa.select(_b.router_id, sa.func.count().label("number"))
            .select_from(t.router_l3_agents.join(t.agents))
            .where(_a.admin_state_up, _a.heartbeat_timestamp >= self._registry.cutoff())
            .group_by(_b.router_id)
            .subquery()
        )
        number = sa.func.coalesce(live.c.number, 0)
        most = self._settings.agents_per_router or 2**31 - 1
        busy = sa.exists().where(_rp.router_id == _r.id)
        statement = (
            sa.select(_r.id)
            .select_from(t.routers.outerjoin(live, live.c.router_id == _r.id))
            .where(sa.or_(sa.and_(_r.ha, number < most), sa.and_(sa.not_(_r.ha), busy, number == 0)))
            .order_by(_r.id)
        )
        with self._db.read() as connection:
            return list(connection.execute(statement).scalars())

    def _quietly(self, router_id: str, **how: Any) -> bool:
        try:
            return self.settle(router_id, **how)
        except errors.RouterNotFound:  # deleted meanwhile
            return False
        except errors.ApiError as error:
            LOG.warning("router %s stays as it is: %s", router_id, error.message)
            return False

    # --- an agent is lost -----------------------------------------------------------------------------------------

    @property
    def has_failover(self) -> bool:
        return self._settings.failover and self._settings.automatic

    def reschedule_dead(self) -> list[str]:
        """Move routers from agents that have been dead for a while to others; HA routers see to themselves."""
        if not self.has_failover:
            return []
        statement = (
            sa.select(_b.router_id, _b.agent_id)
            .select_from(t.router_l3_agents.join(t.agents).join(t.routers))
            .where(_a.heartbeat_timestamp < self._registry.cutoff(times=2), sa.not_(_r.ha))
            .order_by(_b.router_id)
        )
        with self._db.read() as connection:
            lost = connection.execute(statement).all()
        moved = [r for r, agent_id in lost if self._quietly(r, leave={agent_id}, fill=True)]
        if len(moved) < len(lost):
            LOG.warning("%d routers stay on dead L3 agents: no other can take them", len(lost) - len(moved))
        return moved

    def release(self, agent_id: str) -> int:
        """Take everything from an agent that is about to be deleted."""
        with self._db.read() as connection:
            routers = list(connection.execute(sa.select(_b.router_id).where(_b.agent_id == agent_id)).scalars())
        moved = 0
        for router_id in routers:
            moved += self._quietly(router_id, leave={agent_id}, fill=True) or self._quietly(router_id, leave={agent_id})
        return moved

    # --- by the operator ------------------------------------------------------------------------------------------

    def add(self, agent_id: str, router_id: str) -> None:
        with self._db.read() as connection:
            agents = {agent.candidate.id: agent for agent in self.read_candidates(connection)}
            known = connection.execute(sa.select(_a.id).where(_a.id == agent_id)).first() is not None
            router = router_view.load(connection, router_id)
            serving = read_agents(connection, router_id)
        if not known:
            raise errors.AgentNotFound(id=agent_id)
        agent = agents.get(agent_id)
        if agent is not None and agent.mode in (DVR, DVR_NO_EXTERNAL):
            raise errors.DVRL3CannotAssignToDvrAgent()
        if agent is not None and agent.mode == LEGACY and router["distributed"]:
            raise errors.RouterL3AgentMismatch(router_id=router_id, agent_id=agent_id)
        if agent is None or not agent.candidate.admin_state_up or not fits(agent, router):
            raise errors.InvalidL3Agent(id=agent_id)
        if any(other.agent_id == agent_id for other in serving):
            return
        if serving and not router["ha"]:
            raise errors.RouterHostedByL3Agent(router_id=router_id, agent_id=serving[0].agent_id)
        self.settle(router_id, join=[agent])

    def remove(self, agent_id: str, router_id: str) -> None:
        with self._db.read() as connection:
            found = connection.execute(sa.select(_a.configurations).where(_a.id == agent_id)).first()
            serving = read_agents(connection, router_id)
        if found is None:
            raise errors.AgentNotFound(id=agent_id)
        if msgspec.json.decode(found.configurations).get(words.AGENT_MODE) in (DVR, DVR_NO_EXTERNAL):
            raise errors.DVRL3CannotRemoveFromDvrAgent()
        if not any(agent.agent_id == agent_id for agent in serving):
            raise errors.RouterNotHostedByL3Agent(router_id=router_id, agent_id=agent_id)
        self.settle(router_id, leave={agent_id})

    # --- HA -------------------------------------------------------------------------------------------------------

    def set_ha_states(self, host: str, states: dict[str, str]) -> int:
        """What a host's agent says of its routers, by their ids: the ports of one that is now active follow.

        The last to say that it is active has the router: the one before may be lost, and will not say anything.
        """
        agent = sa.select(_a.id).where(_a.agent_type == words.L3, _a.host == host).scalar_subquery()

        def attempt() -> list[str]:
            changed = []
            with self._db.transaction() as tx:
                for router_id, state in sorted(states.items()):
                    done = tx.execute(
                        sa.update(t.router_l3_agents)
                        .where(
                            _b.router_id == router_id,
                            _b.agent_id == agent,
                            sa.or_(_b.ha_state.is_(None), _b.ha_state != state),
                        )
                        .values(ha_state=state)
                    )
                    if done.rowcount:
                        changed.append(router_id)
                        if state == ACTIVE:
                            others = sa.and_(_b.router_id == router_id, _b.agent_id != agent, _b.ha_state == ACTIVE)
                            tx.execute(sa.update(t.router_l3_agents).where(others).values(ha_state=STANDBY))
                        revision = tx.execute(sa.select(_r.revision_number).where(_r.id == router_id)).scalar_one()
                        tx.record("router", router_id, revision)  # its hosts hear who has it
            return changed

        changed = self._db.retrying(attempt)
        for router_id, state in sorted(states.items()):
            if state == ACTIVE:  # said again, as after a lost answer, it costs a look
                self._quietly(router_id)
        return len(changed)

    def routers_on(self, connection: Connection, agent_id: str) -> list[str]:
        statement = sa.select(_b.router_id).where(_b.agent_id == agent_id).order_by(_b.router_id)
        return list(connection.execute(statement).scalars())


def joining(router_id: str, agents: Sequence[L3Agent]) -> Part:
    """What writes that these agents have the router."""
    rows = [{"router_id": router_id, "agent_id": agent.candidate.id} for agent in agents]
    insert: Callable[[Transaction], None] = lambda tx: tx.insert(t.router_l3_agents, rows)  # noqa: E731
    return Part(first=(insert,)) if rows else NOTHING


def _serving(agent: L3Agent) -> Serving:
    return Serving(agent.candidate.id, agent.host)


__all__ = ["L3Scheduler", "Placed", "Settings"]
