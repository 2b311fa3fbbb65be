"""What the schedulers of networks (DHCP) and of routers (L3) share: reactions to the life of agents, and failover.

    an agent is new, back or enabled       it gets the objects that lack one (`auto_schedule`)
    an agent has been dead for a while     its objects move to others (`reschedule_dead`, by the sweep)
    an agent is disabled or deleted        its objects move to others at once (`agent_disabled`, `release`)

An object leaves its agent only when another one takes it, in the same transaction. Without another agent it stays, and
the agent finds it when it is back; only an agent that is being deleted loses its objects in any case. Until it is moved, an
object counts as placed on its agent, also while that is dead.

A subclass implements the move of one object (`place`) and the choice of objects for a new agent (`auto_schedule`).
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import AgentReport, Registry
from neutrino.server.scheduling.loads import Loads
from neutrino.server.scheduling.placements import Agents, PlacementTable
from neutrino.server.scheduling.report_gaps import ReportGap

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SchedulingOptions:
    agents_per_object: int = 1  # dhcp_agents_per_network, max_l3_agents_per_router
    default_zones: Sequence[str] = ()
    automatic: bool = True  # network_auto_schedule, router_auto_schedule
    failover: bool = True  # allow_automatic_dhcp_failover, allow_automatic_l3agent_failover


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """A change of an object's agents, by id, as requested."""

    leave: Collection[str] = ()
    join: Sequence[str] = ()
    fill: bool = False  # also add the agents that it lacks; then it leaves only as many as are replaced
    force: bool = False  # with `fill`: it leaves the agents also without replacement
    rebind: bool = False  # retry ports whose binding has failed
    trim: bool = False  # leave the agents that it has beyond those it should have


@dataclass(frozen=True, slots=True)
class Move:
    """A change of an object's agents that was made."""

    object_id: str
    from_agents: tuple[str, ...] = ()
    to_agents: tuple[str, ...] = ()


@dataclass(eq=False)
class AgentScheduler(ABC):
    placements: PlacementTable = field(kw_only=True)
    db: Database
    registry: Registry
    options: SchedulingOptions
    loads: Loads = field(default_factory=Loads, kw_only=True)

    def agents(self, connection: Connection, object_id: str) -> Agents:
        """All agents that objects can be placed on, and which of them serve this one; their loads are not read."""
        return self.placements.agents(connection, self.registry.cutoff(), object_id)

    def candidates(self, connection: Connection, object_id: str = "") -> Agents:
        """All agents that objects can be placed on, with their loads, and which of them serve this one."""
        return self.placements.candidates(connection, self.registry.cutoff(), self.loads, object_id)

    @abstractmethod
    def place(self, object_id: str, change: PlacementChange) -> Move | None:
        """Change the agents of an object, and its ports with them, in one transaction; None if nothing changed."""

    @abstractmethod
    def reported(self, report: AgentReport) -> int:
        """Give an agent that is new, back, restarted or enabled what it lacks; how many objects these were.

        Also after that of a host's Open vSwitch agent: the host may now be able to bind ports that it could not before.
        """

    @abstractmethod
    def auto_schedule(self, host: str) -> int:
        """Give the agent of a host the objects that lack one; how many these were."""

    @abstractmethod
    def add(self, agent_id: str, object_id: str) -> None:
        """Place an object on an agent by the operator's request."""

    @abstractmethod
    def remove(self, agent_id: str, object_id: str) -> None:
        """Take an object from an agent by the operator's request; it gets no other agent in its place."""

    def unhosted(self) -> dict[str, str]:
        """Objects that no agent can serve, with the reason; networks without an agent are a finding of the status."""
        return {}

    # --- the life of agents ---------------------------------------------------------------------------------------

    def agent_disabled(self, agent_id: str) -> list[Move]:
        """The operator disabled an agent: others take its objects at once."""
        if not self._moves_automatically or not self.placements.leaves_disabled:
            return []
        return self._leave(agent_id, force=False)

    def release(self, agent_id: str) -> list[Move]:
        """Move everything away from an agent that is about to be deleted."""
        return self._leave(agent_id, force=True)

    def _leave(self, agent_id: str, *, force: bool) -> list[Move]:
        with self.db.read() as connection:
            objects = self.placements.objects_on(connection, agent_id)
        return self._moved({key: {agent_id} for key in objects}, force=force)

    def reschedule_dead(self) -> list[Move]:
        """Move objects away from agents that have been dead for twice the down time; networks also from disabled ones.

        Twice: an agent that restarts or loses its connection for a moment keeps its objects.
        """
        if not self._moves_automatically:
            return []
        with self.db.read() as connection:
            rows = self.placements.on_lost_agents(connection, self.registry.cutoff(times=2))
        lost: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            lost[row.object_id].add(row.agent_id)
        moves = self._moved(lost)
        stuck = {row.object_id for row in rows if row.dead} - {move.object_id for move in moves}
        if stuck:
            LOG.warning(
                "%d %ss stay on dead %ss: no other agent can take them. Start one that is enabled and in a zone of "
                "their hints.",
                *(len(stuck), self.placements.kind, self.placements.agent_type),
            )
        return moves

    def remove_surplus(self) -> list[Move]:
        """Take objects from agents that they have beyond those they should have, as after a race of two servers."""
        if not self.options.automatic:
            return []
        with self.db.read() as connection:
            found = self.with_surplus(connection)
        moves = [self.try_place(key, PlacementChange(trim=True)) for key in found]
        return [move for move in moves if move is not None and move.from_agents]

    def with_surplus(self, connection: Connection) -> Sequence[str]:
        """The objects that have more live agents than they should have."""
        return ()

    @property
    def _moves_automatically(self) -> bool:
        return self.options.failover and self.options.automatic

    def _moved(self, leaving: dict[str, set[str]], *, force: bool = False) -> list[Move]:
        changes = {key: PlacementChange(leave=agents, fill=True, force=force) for key, agents in leaving.items()}
        moves = [self.try_place(key, change) for key, change in changes.items()]
        return [move for move in moves if move is not None and move.from_agents]

    def try_place(self, object_id: str, change: PlacementChange) -> Move | None:
        """`place` one object of many: one that cannot move must not keep the others from moving."""
        try:
            return self.place(object_id, change)
        except errors.NotFound:  # deleted meanwhile
            return None
        except errors.ApiError as error:
            LOG.warning("%s %s keeps its agents: %s", self.placements.kind, object_id, error.message)
            return None


# --- the sweep --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Sweeper:
    """A thread of the server that periodically moves objects away from dead agents.

    No agent can report to a server that is down. So after its start, after its clock has jumped (a suspended machine, a
    corrected clock), and after no agent of a type was alive, the sweeper gives the agents time to report (`ReportGap`).
    """

    schedulers: Sequence[AgentScheduler]
    registry: Registry
    interval: float  # at most half of the down time: see `report_gaps`
    stop: threading.Event
    tasks: Mapping[str, Callable[[], object]] = field(
        default_factory=dict
    )  # what else is removed when it is old, by name
    when_opened: Callable[[], None] | None = None  # what a server that starts while frozen does when that has ended

    def __post_init__(self) -> None:
        self._last = self.registry.clock()
        types = {scheduler.placements.agent_type for scheduler in self.schedulers}
        self._gaps = {agent_type: ReportGap(self.registry.down_time, self._last) for agent_type in types}
        self._was_frozen = self.when_opened is not None

    def run(self) -> None:
        """Sweep until the event is set."""
        while not self.stop.wait(self.interval):
            self.sweep()
            for name, task in () if self._was_frozen else self.tasks.items():
                try:
                    task()
                except Exception:
                    LOG.exception("%s could not be removed; next try in %s s", name, self.interval)

    def _is_frozen(self) -> bool:
        """Whether nothing may be moved; if that has ended, agents get what they have not got meanwhile."""
        try:
            is_frozen = self.registry.db.is_frozen()
            if self._was_frozen and not is_frozen:
                LOG.info("The takeover is completed: agents get the networks and routers that lack one")
                if self.when_opened is not None:
                    self.when_opened()
                    self.when_opened = None
                for scheduler in self.schedulers:
                    for host in self.registry.live_hosts(scheduler.placements.agent_type):
                        scheduler.auto_schedule(host)
        except Exception:  # the database does not answer: the next round asks again
            LOG.exception("it is not known whether objects may be moved; next try in %s s", self.interval)
            return True
        self._was_frozen = is_frozen
        return is_frozen

    def sweep(self) -> None:
        self._check_clock()
        if self._is_frozen():
            return
        for scheduler in self.schedulers:
            placements = scheduler.placements
            try:
                if self._may_judge(placements.agent_type):
                    self._sweep(scheduler)
            except Exception:  # a sweep that fails, as without a database, must not end the thread
                LOG.exception(
                    "%ss could not be moved away from dead agents; next try in %s s", placements.kind, self.interval
                )

    def _sweep(self, scheduler: AgentScheduler) -> None:
        kind, agent_type = scheduler.placements.kind, scheduler.placements.agent_type
        for move in scheduler.reschedule_dead():
            LOG.warning(
                "%s %s moved from %ss %s, which are dead or disabled, to %s",
                *(kind, move.object_id, agent_type, ", ".join(move.from_agents)),
                ", ".join(move.to_agents) or "the agents that it also has",
            )
        for move in scheduler.remove_surplus():
            LOG.warning(
                "%s %s was on more %ss than configured: removed from %s",
                *(kind, move.object_id, agent_type, ", ".join(move.from_agents)),
            )

    def _may_judge(self, agent_type: str) -> bool:
        return self._gaps[agent_type].is_over(self.registry.clock(), self.registry.heartbeats(agent_type))

    def _check_clock(self) -> None:
        now, last = self.registry.clock(), self._last
        self._last = now
        if not last <= now <= last + self.interval + self.registry.down_time:
            LOG.warning(
                "The clock jumped from %.0f to %.0f: agents get time to report before any counts as dead", last, now
            )
            for gap in self._gaps.values():
                gap.end = now
