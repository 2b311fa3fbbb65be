"""DHCP scheduler: which DHCP agents serve which networks.

A placement row and the DHCP port of the agent's host are written in one transaction (`dhcp/ports.py`), those of a new
network in that of its first subnet with DHCP. What was read before is checked again by the statement that writes: a
network gets an agent only while it has too few. On SQLite that is exact; on the other databases two servers that place one
network at the same time may give it one agent more than configured, which the next sweep removes.

A subnet may change while its network is being placed, and neither transaction sees the other. Therefore both look once
more after their commit, and the later one sees everything: if agents and subnets are those that it has decided for,
nothing is left to do; else it places the network and reconciles its ports (`reconcile_ports`) again.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode, exists
from neutrino.server.db.reads import Lookup, Read
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.dhcp.ports import DhcpPorts, NetworkAfter
from neutrino.server.dhcp.segments import (
    NOT_ROUTED,
    SegmentHosts,
    agents_wanted,
    has_dhcp_segments,
    read_segment_hosts,
)
from neutrino.server.hosts.registry import AgentReport, Registry, check_agent
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.operations import NO_EVENT, PendingWrite
from neutrino.server.ml2.subnets import NO_DHCP_CHANGE, DhcpChange
from neutrino.server.scheduling.loads import Loads
from neutrino.server.scheduling.placements import NETWORKS, Agents, PlacementTable, kept_of_surplus, lacking
from neutrino.server.scheduling.scheduler import AgentScheduler, Move, PlacementChange, SchedulingOptions

LOG = logging.getLogger(__name__)
BATCH = 50  # networks placed in one transaction, each with its port
LOADS: Final = {"networks": None, "subnets": t.subnets, "ports": t.ports}  # dhcp_load_type: the parts that are counted
CHANCE, WEIGHT = "ChanceScheduler", ("WeightScheduler", "AZAwareWeightScheduler")  # network_scheduler_driver
RECONCILE_ROUNDS = 5  # of `reconcile_ports`: a network that keeps changing is reconciled by the requests that change it
_SUBNETS = Lookup(
    sa.select(t.subnets.c.id, t.subnets.c.revision_number).where(t.subnets.c.network_id == sa.bindparam("network")),
    lambda rows: frozenset((row[0], row[1]) for row in rows),
)
_HAS_DHCP = sa.exists().where(t.subnets.c.network_id == t.networks.c.id, t.subnets.c.enable_dhcp)


@dataclass(eq=False)
class DhcpScheduler(AgentScheduler):
    placements: PlacementTable = field(default=NETWORKS, kw_only=True)
    ports: DhcpPorts
    # Called with a cutoff: removes the DHCP block of ports whose lease providers are all dead since then.
    release_ports: Callable[[str], Collection[str]]

    # --- observer of subnets and ports ----------------------------------------------------------------------------

    def reading_agents(self, network_id: str) -> Read[Agents]:
        """The agents that may serve the network if one of its subnets gets DHCP."""
        return self.placements.reading_candidates(self.registry.cutoff(), self.loads, network_id)

    def prepare(
        self, connection: Connection, network: Object, subnets: Sequence[Object], agents: Agents | None
    ) -> DhcpChange:
        """What changes along with a network's subnets: its DHCP ports and, if one gets DHCP, the agents that it lacks.

        Those of a routed network depend on rows of its subnets, so they are chosen after the commit.
        """
        network_id, after = network["id"], NetworkAfter(network, subnets)
        is_routed = any(s["enable_dhcp"] and s["segment_id"] is not None for s in subnets)
        if agents is None or is_routed or not self.options.automatic:
            return DhcpChange(self.ports.steps(connection, network_id, after=after))
        if not agents.candidates:
            return NO_DHCP_CHANGE
        hints = network["availability_zone_hints"]
        joining, steps = self._choose(connection, network_id, agents, hints, after=after)

        def join(tx: Transaction) -> None:
            self._join(tx, network_id, joining, if_lacking=True)
            tx.after_commit(_log_agents, network_id, joining)

        versions = frozenset((s["id"], s["revision_number"]) for s in subnets)
        return DhcpChange([*steps, PendingWrite(NO_EVENT, join)], agents.hosted.union(joining), versions)

    def follow(
        self, tx: Transaction, network_id: str, before: Object | None, after: Object | None, change: DhcpChange
    ) -> None:
        """A subnet is created, updated or deleted, and its network's DHCP ports with it: look again after the commit."""
        had = before is not None and before["enable_dhcp"]
        has = after is not None and after["enable_dhcp"]
        if has and not had:
            subnets = tx.read_with_commit(_SUBNETS(network=network_id))
            agents = self.placements.reading_agents(self.registry.cutoff(), network_id)
            tx.read_after_commit(agents, lambda found: self._complete(network_id, found, subnets(), change))
        elif had and not has and after is not None:
            # The network may have been placed while the subnet changed, with a port for the subnet as it was.
            tx.after_commit(self.reconcile_ports, network_id)

    def _complete(
        self, network_id: str, agents: Agents, subnets: frozenset[tuple[str, int]], change: DhcpChange
    ) -> None:
        """Give the network the agents and ports that it lacks: none if the change was decided for what is there now."""
        if not agents.candidates:
            return
        is_decided = (agents.hosted, subnets) == (change.agents, change.subnets)
        if not is_decided or lacking(agents.candidates, self.options.agents_per_object, agents.hosted):
            self.schedule(network_id)

    def port_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is None and before["device_owner"] == DHCP_OWNER:
            # A client deleted the port that an agent serves from: create it again.
            self.reconcile_ports(before["network_id"])

    @retried
    def reconcile_ports(self, network_id: str) -> None:
        """Reconcile a network's DHCP ports with its agents and subnets."""
        for _ in range(RECONCILE_ROUNDS):
            with self.db.read() as connection:
                steps = self.ports.steps(connection, network_id)
            if not steps:
                return
            with self.ports.operations.write([], steps):
                pass  # only the ports change

    # --- one network ----------------------------------------------------------------------------------------------

    def schedule(self, network_id: str) -> list[str]:
        """Give a network with a DHCP subnet the agents that it lacks; gives the ids of the agents added."""
        if not self.options.automatic:
            self.reconcile_ports(network_id)  # agents that an operator has placed it on need its ports too
            return []
        try:
            move = self.place(network_id, PlacementChange(fill=True))
        except errors.NetworkNotFound:  # deleted meanwhile
            return []
        added = list(move.to_agents) if move is not None else []
        _log_agents(network_id, added)
        return added

    @retried
    def place(self, object_id: str, change: PlacementChange) -> Move | None:
        fill = change.fill and self.options.automatic
        with self.db.read() as connection:
            agents = self.agents(connection, object_id)
            if not agents.candidates:  # none has ever reported
                return None
            if agents.hosted.intersection(change.join):
                raise errors.NetworkHostedByDHCPAgent(network_id=object_id, agent_id=change.join[0])
            joining, leaving = list(change.join), sorted(agents.hosted.intersection(change.leave))
            if joining:
                self._read_hints(connection, object_id)  # the network has to exist
            if change.trim:
                leaving = self._surplus(connection, object_id, agents)
            if fill:
                joining, leaving, steps = self._fill(connection, object_id, agents, leaving, force=change.force)
            else:
                steps = self.ports.steps(connection, object_id, joining, leaving)
        if not (joining or leaving or steps):
            return None
        with self.ports.operations.write([], steps) as tx:
            if change.trim:
                _require_agents(tx, object_id, agents.hosted)
            gone = sa.delete(t.network_dhcp_agents).where(
                t.network_dhcp_agents.c.network_id == object_id, t.network_dhcp_agents.c.agent_id.in_(leaving)
            )
            if leaving and not tx.execute(gone).rowcount:  # another server moved it: look again
                raise Stale
            self._join(tx, object_id, joining, if_lacking=fill)
            if leaving:
                tx.record("network", object_id)
        if steps and fill:  # a subnet may have changed meanwhile
            self.reconcile_ports(object_id)
        return Move(object_id, tuple(leaving), tuple(joining))

    def _fill(
        self, connection: Connection, network_id: str, agents: Agents, leaving: list[str], *, force: bool
    ) -> tuple[list[str], list[str], list[PendingWrite]]:
        """The agents that join, those of `leaving` that can leave, and the changes of the network's ports."""
        segments = read_segment_hosts(connection, network_id, [c.host for c in agents.candidates])
        wanted, hints = self.options.agents_per_object, list[str]()
        staying = [c for c in agents.candidates if c.id not in leaving]
        has_free = any(c.serves and c.id not in agents.hosted for c in staying)
        if has_free and segments.lacking(staying, wanted, agents.hosted):  # seldom: what the choice needs is read now
            hints = self._read_hints(connection, network_id)
            agents = self.candidates(connection, network_id)
        joining, steps = self._choose(connection, network_id, agents, hints, leaving, segments)
        staying = [c for c in agents.candidates if c.id not in leaving]
        lacking = segments.lacking(staying, wanted, agents.hosted)
        if lacking > len(joining) and not force and len(leaving) > len(joining):
            leaving = leaving[: len(joining)]  # the others keep it: there is no replacement for them
            steps = self.ports.steps(connection, network_id, joining, leaving)
        return joining, leaving, steps

    @staticmethod
    def _read_hints(connection: Connection, network_id: str) -> list[str]:
        """The availability zones that a network shall be served in."""
        hints = connection.execute(
            sa.select(t.networks.c.availability_zone_hints).where(t.networks.c.id == network_id)
        ).scalar()
        if hints is None:
            raise errors.NetworkNotFound(id=network_id)
        return msgspec.json.decode(hints, type=list[str])

    def _choose(
        self,
        connection: Connection,
        network_id: str,
        agents: Agents,
        hints: Sequence[str],
        leaving: Collection[str] = (),
        segments: SegmentHosts = NOT_ROUTED,
        after: NetworkAfter | None = None,
    ) -> tuple[list[str], list[PendingWrite]]:
        """Choose agents whose hosts can bind the DHCP port; gives them and the changes of the network's ports.

        An agent whose host cannot bind it would serve no port, so others are preferred. If the host's switch has not
        reported yet this is unknown: such an agent is taken when there is no other, and its port bound after the report.
        """
        wanted, hints = self.options.agents_per_object, hints or self.options.default_zones
        candidates = [c for c in agents.candidates if c.id not in leaving]
        unable: set[str] = set()
        unknown = segments.unknown(candidates)
        while True:  # ends: each round excludes at least one more agent
            able = [c for c in candidates if c.id not in unable | unknown]
            joining = segments.choose(able, wanted, hints, agents.hosted)
            steps = self.ports.steps(connection, network_id, joining, leaving, after)
            failed = self._hosts_failed(connection, steps)
            refused = {c.id: failed[c.host] for c in able if c.id in joining and c.host in failed}
            if not refused:
                break
            unable |= {agent_id for agent_id, has_switch in refused.items() if has_switch}
            unknown |= {agent_id for agent_id, has_switch in refused.items() if not has_switch}
        if not joining and unknown:
            joining = segments.choose([c for c in candidates if c.id not in unable], wanted, hints, agents.hosted)
            steps = self.ports.steps(connection, network_id, joining, leaving, after)
        return joining, steps

    def _hosts_failed(self, connection: Connection, steps: Sequence[PendingWrite]) -> dict[str, bool]:
        """Hosts to which a DHCP port could not be bound, each with whether its Open vSwitch agent is alive."""
        return {host: self.registry.has_live(connection, host, words.OVS) for host in self.ports.unbound(steps)}

    @property
    def _wanted(self) -> sa.ColumnElement[int]:
        """How many agents a network should have, as a part of statements on networks."""
        return agents_wanted(t.networks.c.id, self.options.agents_per_object)

    def _lacks_agent_on(self, connection: Connection, network_id: str, agent_id: str) -> bool:
        """Whether the agent can serve a segment of a routed network that has too few agents; True if it is not routed."""
        if not has_dhcp_segments(connection, network_id):
            return True
        agents = self.agents(connection, network_id)
        candidates, hosted = agents.candidates, agents.hosted
        segments = read_segment_hosts(connection, network_id, [c.host for c in candidates])
        wanted = self.options.agents_per_object
        return any(
            # Not while its host's segment is unknown: it would keep agents of other hosts away.
            lacking(group, wanted, hosted) > 0 and any(c.id == agent_id and c.host in segments.of_host for c in group)
            for group in segments.groups(candidates)
        )

    def _join(self, tx: Transaction, network_id: str, agent_ids: Sequence[str], *, if_lacking: bool) -> None:
        """Place a network on agents: by request, or with `if_lacking` on the condition that it has still too few."""
        rows = [{"network_id": network_id, "agent_id": agent_id} for agent_id in agent_ids]
        if not if_lacking:
            tx.insert(t.network_dhcp_agents, [{**row, "requested": True} for row in rows])
        for row in rows if if_lacking else ():
            tx.change(self._insert_if_lacking, row)
        if rows:
            tx.record("network", network_id)
            self.loads.placed(agent_ids)

    @cached_property
    def _insert_if_lacking(self) -> sa.Insert:
        row = sa.select(t.networks.c.id, sa.bindparam("agent_id", type_=sa.String), sa.false()).where(
            t.networks.c.id == sa.bindparam("network_id"), self.placements.placed < self._wanted
        )
        insert = sa.insert(t.network_dhcp_agents).from_select(["network_id", "agent_id", "requested"], row)
        return insert.execution_options(preserve_rowcount=True)  # PostgreSQL's driver drops the row count otherwise

    # --- surplus --------------------------------------------------------------------------------------------------

    def with_surplus(self, connection: Connection) -> Sequence[str]:
        automatic = self.placements.serving_if(sa.not_(t.network_dhcp_agents.c.requested))
        statement = sa.select(t.networks.c.id).where(automatic > self._wanted).order_by(t.networks.c.id)
        return connection.execute(statement, {"cutoff": self.registry.cutoff()}).scalars().all()

    def _surplus(self, connection: Connection, network_id: str, agents: Agents) -> list[str]:
        """The live agents that a network has beyond those wanted, for each segment, besides those by request."""
        by_server = sa.select(t.network_dhcp_agents.c.agent_id).where(
            t.network_dhcp_agents.c.network_id == network_id, sa.not_(t.network_dhcp_agents.c.requested)
        )
        automatic = set(connection.execute(by_server).scalars())
        placed = [c for c in agents.candidates if c.id in automatic]
        segments = read_segment_hosts(connection, network_id, [c.host for c in placed])
        surplus: set[str] = set()
        for group in segments.groups([c for c in placed if c.id not in segments.unknown(placed)]):
            kept = kept_of_surplus(group, self.options.agents_per_object, network_id)
            surplus |= {c.id for c in group if c.serves and kept is not None and c.id not in kept}
        return sorted(surplus)

    # --- by the operator ------------------------------------------------------------------------------------------

    def add(self, agent_id: str, object_id: str) -> None:
        """However many other agents have the network."""
        with self.db.read() as connection:
            agent = connection.execute(
                sa.select(t.agents.c.agent_type, t.agents.c.admin_state_up).where(t.agents.c.id == agent_id)
            ).first()
        if agent is None:
            raise errors.AgentNotFound(id=agent_id)
        if agent.agent_type != words.DHCP or not agent.admin_state_up:
            raise errors.InvalidDHCPAgent(id=agent_id)
        if self.place(object_id, PlacementChange(join=[agent_id])) is None:
            raise errors.AgentNotFound(id=agent_id)  # deleted meanwhile

    def remove(self, agent_id: str, object_id: str) -> None:
        with self.db.read() as connection:
            check_agent(connection, agent_id)
        move = self.place(object_id, PlacementChange(leave=[agent_id]))
        if move is None or not move.from_agents:
            raise errors.NetworkNotHostedByDhcpAgent(network_id=object_id, agent_id=agent_id)

    # --- the life of agents ---------------------------------------------------------------------------------------

    def reported(self, report: AgentReport) -> int:
        """After a report of an agent that is new, back or restarted: it gets the networks that lack an agent.

        Also after that of a host's Open vSwitch agent: the host may now be able to bind ports that it could not before.
        """
        if report.agent_type not in (words.DHCP, words.OVS) or not report.needs_everything:
            return 0
        taken = self.auto_schedule(report.host)
        with self.db.read() as connection:
            incomplete = self.ports.networks_incomplete_on(connection, report.host)
        for network_id in incomplete:
            self.reconcile_ports(network_id)
            self._leave_if_elsewhere(network_id, report.host)
        return taken

    def _leave_if_elsewhere(self, network_id: str, host: str) -> None:
        """Give a routed network to others if its agent on the host turns out to be on none of its segments."""
        with self.db.read() as connection:
            segments = read_segment_hosts(connection, network_id, [host])
            of_host = sa.select(t.agents.c.id).where(t.agents.c.agent_type == words.DHCP, t.agents.c.host == host)
            agent_id = connection.execute(of_host).scalar()
        if segments.is_routed and segments.of_host.get(host, "") is None and agent_id is not None:
            self.try_place(network_id, PlacementChange(leave=[agent_id], fill=True))

    def reschedule_dead(self) -> list[Move]:
        """Also release ports that wait for a lease which no live agent can give."""
        moves = super().reschedule_dead()
        released = self.release_ports(self.registry.cutoff())
        if released:
            LOG.warning("%d ports became ACTIVE without DHCP: no live DHCP agent serves their network", len(released))
        return moves

    def auto_schedule(self, host: str) -> int:
        if not self.options.automatic:
            return 0
        with self.db.read() as connection:
            found = connection.execute(
                sa.select(t.agents).where(t.agents.c.agent_type == words.DHCP, t.agents.c.host == host)
            ).first()
        if found is None or not found.admin_state_up or not self.registry.alive(found._asdict()):
            return 0
        # In batches: a cloud whose only DHCP agent was lost has thousands of networks to place.
        taken = 0
        last: str | None = ""
        while last is not None:
            count, last = self._take_batch(found.id, host, found.availability_zone, last)
            taken += count
        if taken:
            LOG.info("The DHCP agent on %s takes %d networks that lacked one", host, taken)
        return taken

    @retried
    def _take_batch(self, agent_id: str, host: str, zone: str | None, after: str) -> tuple[int, str | None]:
        """Place the next networks that lack an agent and fit the agent's zone; how many, and the id to continue after."""
        for_zone = t.networks.c.availability_zone_hints.contains(encode(zone), autoescape=True) if zone else sa.false()
        if not self.options.default_zones or zone in self.options.default_zones:
            for_zone = sa.or_(for_zone, t.networks.c.availability_zone_hints == "[]")
        has = sa.exists().where(
            t.network_dhcp_agents.c.network_id == t.networks.c.id, t.network_dhcp_agents.c.agent_id == agent_id
        )
        statement = (
            sa.select(t.networks.c.id, t.networks.c.revision_number, t.networks.c.availability_zone_hints)
            .where(t.networks.c.id > after, _HAS_DHCP, for_zone, ~has, self.placements.placed < self._wanted)
            .order_by(t.networks.c.id)
            .limit(BATCH)
        )
        with self.db.read() as connection:
            if not exists(connection, t.agents.c.id == agent_id):
                return 0, None  # deleted meanwhile
            rows = connection.execute(statement).all()
            # LIKE ignores case on some databases; zones are case-sensitive.
            fitting = [row for row in rows if zone in (msgspec.json.decode(row.availability_zone_hints) or [zone])]
            fitting = [row for row in fitting if self._lacks_agent_on(connection, row.id, agent_id)]
            planned = [(row, self.ports.steps(connection, row.id, [agent_id])) for row in fitting]
            # A network whose port this host cannot bind is left to other agents.
            taken = [(row, steps) for row, steps in planned if not self._hosts_failed(connection, steps).get(host)]

        if taken:
            with self.ports.operations.write([], [step for _, steps in taken for step in steps]) as tx:
                for row, _ in taken:
                    self._join(tx, row.id, [agent_id], if_lacking=True)
            for row, steps in taken:
                if steps:
                    self.reconcile_ports(row.id)
        return len(taken), rows[-1].id if len(rows) == BATCH else None


def _require_agents(tx: Transaction, network_id: str, expected: Collection[str]) -> None:
    """Check that the network is on these agents alone, until the commit.

    Two servers that each take it from another agent would leave it without any.
    """
    found = tx.execute(
        sa.select(t.network_dhcp_agents.c.agent_id)
        .where(t.network_dhcp_agents.c.network_id == network_id)
        .with_for_update()
    ).scalars()
    if set(found) != set(expected):
        raise Stale
    tx.exclude_other_nodes(t.networks.c.name, [network_id])


def _log_agents(network_id: str, agent_ids: Sequence[str]) -> None:
    if agent_ids:
        LOG.info("Network %s is served by DHCP agents %s", network_id, ", ".join(agent_ids))


def _is_by_chance(option: str) -> bool:
    """Whether `network_scheduler_driver`, a class name or Neutron's full path, chooses at random."""
    name = option.replace(":", ".").rpartition(".")[2]
    if name not in (CHANCE, *WEIGHT):
        raise ValueError(f"network_scheduler_driver: {option!r} is none of {', '.join((CHANCE, *WEIGHT))}")
    return name == CHANCE


def build_dhcp(conf: cfg.ConfigOpts, db: Database, registry: Registry, core: Any) -> DhcpScheduler:
    """The scheduler, registered with the core plugin: DHCP ports follow subnets and are replaced if they are deleted."""
    options = SchedulingOptions(
        conf.dhcp_agents_per_network,
        conf.default_availability_zones,
        automatic=conf.network_auto_schedule,
        failover=conf.allow_automatic_dhcp_failover,
    )
    ports = DhcpPorts(core.networks, core.ports, core.operations, conf.base_mac)
    placements = replace(NETWORKS, leaves_disabled=not conf.enable_services_on_agents_with_admin_state_down)
    loads = Loads(parts=LOADS[conf.dhcp_load_type], by_chance=_is_by_chance(conf.network_scheduler_driver))
    scheduler = DhcpScheduler(
        db, registry, options, ports, core.provisioning.release_unserved, placements=placements, loads=loads
    )
    core.subnets.dhcp = scheduler
    core.ports.commit_hooks.append(scheduler.port_changed)
    return scheduler
