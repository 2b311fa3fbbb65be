"""Networks to DHCP agents: given when a network needs them, taken over when an agent appears, moved when one is lost.

What is read before is asked again by the statement that writes: a network gets an agent only while it has too few. On
SQLite that is exact. On the others two servers that place one network in the same instant may give it an agent more
than wanted, which serves like the rest and does no harm.

An agent whose admin state is down keeps its networks, for it is down for the operator's reasons and comes back with
them; it does not count, so that its networks can be given to others, and it is given no new ones. A lost agent's
network leaves it only when another takes it: with nobody to take over, the agent finds its work when it comes back.

The ports that agents serve from are written in the same transactions (`dhcp_ports.py`). A subnet may change while a
network is being placed, each without seeing the other; therefore both look once more after their commit (`settle`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.placement import Candidate, choose, lacking
from neutrino.server.hosts.registry import Registry, Report

__all__ = ["Candidate", "DhcpScheduler", "Move", "choose", "zones_of"]

LOG = logging.getLogger(__name__)
BATCH = 500
PORTS_BATCH = 50  # networks placed in one transaction where each of them gets a port
SETTLES = 5
_a, _b, _n, _s = t.agents.c, t.network_dhcp_agents.c, t.networks.c, t.subnets.c
_CUTOFF = sa.bindparam("cutoff", type_=sa.String)
_AGENTS = (
    sa.select(
        _a.id,
        _a.availability_zone,
        _a.admin_state_up,
        _a.heartbeat_timestamp,
        sa.select(sa.func.count()).where(_b.agent_id == _a.id).scalar_subquery().label("networks"),
        sa.exists().where(_b.agent_id == _a.id, _b.network_id == sa.bindparam("network")).label("hosted"),
    )
    .where(_a.agent_type == words.DHCP)
    .order_by(_a.id)
)
_serving = (
    sa.select(sa.func.count())
    .select_from(t.network_dhcp_agents.join(t.agents))
    .where(_b.network_id == _n.id, _a.admin_state_up, _a.heartbeat_timestamp >= _CUTOFF)
    .correlate(t.networks)
    .scalar_subquery()
)
_HAS_DHCP = sa.exists().where(_s.network_id == _n.id, _s.enable_dhcp)
_ON_LOST_AGENTS = (
    sa.select(_n.id, _n.revision_number, _n.availability_zone_hints, _b.agent_id)
    .select_from(t.network_dhcp_agents.join(t.networks))
    .where(
        _n.id.in_(
            sa.select(_b.network_id)
            .select_from(t.network_dhcp_agents.join(t.agents))
            .where(_a.heartbeat_timestamp < _CUTOFF)
            .correlate(None)
        )
    )
    .order_by(_n.id, _b.agent_id)
)
_ZONES = (
    sa.select(_b.network_id, _a.availability_zone)
    .select_from(t.network_dhcp_agents.join(t.agents))
    .where(_a.availability_zone != "")
    .distinct()
)
_ZONES_OF = _ZONES.where(_b.network_id.in_(sa.bindparam("networks", expanding=True)))


@dataclass(frozen=True, slots=True)
class Move:
    network_id: str
    from_agents: tuple[str, ...]
    to_agents: tuple[str, ...]


@dataclass(slots=True)
class _Placed:
    """A network and the agents that have it."""

    revision: int
    hints: list[str]
    hosted: set[str]


class Ports(Protocol):
    """The ports that agents serve from: what has to be done to them, and a transaction that does it with the rest."""

    def steps(
        self, connection: Connection, network_id: str, coming: Collection[str] = (), going: Collection[str] = ()
    ) -> list[Any]: ...

    def commit(self, steps: Sequence[Any], write: Callable[[Transaction], None]) -> None: ...

    def in_need(self, connection: Connection, host: str) -> list[str]: ...


class DhcpScheduler:
    def __init__(
        self,
        db: Database,
        registry: Registry,
        agents_per_network: int = 1,
        *,
        default_zones: Sequence[str] = (),
        automatic: bool = True,  # network_auto_schedule
        failover: bool = True,  # allow_automatic_dhcp_failover
    ) -> None:
        self._db = db
        self._registry = registry
        self._wanted = agents_per_network
        self._default_zones = list(default_zones)
        self._automatic = automatic
        self._failover = failover and automatic
        self._release: Callable[[str], Collection[str]] | None = None
        self._ports: Ports | None = None  # until a core plugin is there that can make them

    # --- the ports that agents serve from ---------------------------------------------------------------------------

    def make_ports_with(self, ports: Ports) -> None:
        self._ports = ports

    def release_with(self, release: Callable[[str], Collection[str]]) -> None:
        """`release(cutoff)` lets go of ports that wait for agents which have not reported since."""
        self._release = release

    def steps(
        self, connection: Connection, network_id: str, coming: Collection[str] = (), going: Collection[str] = ()
    ) -> list[Any]:
        return [] if self._ports is None else self._ports.steps(connection, network_id, coming, going)

    def commit(self, steps: Sequence[Any], write: Callable[[Transaction], None]) -> None:
        """Write, and do to the ports what has to be done, in one transaction."""
        if self._ports is not None and steps:
            self._ports.commit(steps, write)
            return
        with self._db.transaction() as tx:
            write(tx)

    def settle(self, network_id: str) -> None:
        """Bring a network's DHCP ports to what its agents and subnets ask for, if they are not there."""
        if self._ports is not None:
            self._db.retrying(lambda: self._settle(network_id))

    def _settle(self, network_id: str) -> None:
        for _ in range(SETTLES):  # what changes all the time is left to those who change it
            with self._db.read() as connection:
                steps = self.steps(connection, network_id)
            if not steps:
                return
            self.commit(steps, lambda tx: None)

    def refresh(self, host: str) -> int:
        """A host's agents are new or back: make the DHCP ports that it lacks, bind those that could not be bound."""
        if self._ports is None:
            return 0
        with self._db.read() as connection:
            networks = self._ports.in_need(connection, host)
        for network_id in networks:
            self.settle(network_id)
        return len(networks)

    # --- a network needs agents -----------------------------------------------------------------------------------

    def schedule(self, network_id: str, hints: Sequence[str] = ()) -> list[str]:
        """Give a network the agents that it lacks. For networks with a DHCP subnet; the ids of the agents added."""
        if not self._automatic:
            self.settle(network_id)
            return []
        return self._db.retrying(lambda: self._schedule(network_id, list(hints) or self._default_zones))

    def _schedule(self, network_id: str, hints: Sequence[str]) -> list[str]:
        with self._db.read() as connection:
            rows = connection.execute(_AGENTS, {"network": network_id}).all()
            chosen = choose(self._candidates(rows), self._wanted, hints, {row.id for row in rows if row.hosted})
            steps = self.steps(connection, network_id, coming=chosen) if rows else []
            if not chosen and not steps:
                return []
            revision = connection.execute(sa.select(_n.revision_number).where(_n.id == network_id)).scalar()
        if revision is None:  # deleted meanwhile
            return []

        def write(tx: Transaction) -> None:
            for agent_id in chosen:
                self._give(tx, [network_id], agent_id)
            if chosen:
                tx.record("network", network_id, revision)

        self.commit(steps, write)
        if chosen:
            LOG.info("Network %s is served by DHCP agents %s", network_id, ", ".join(chosen))
        if steps:
            self._settle(network_id)
        return chosen

    def schedule_all(self, network_ids: Sequence[str]) -> None:
        """The same for many networks; those without a DHCP subnet are passed over."""
        for batch in _batches(network_ids):
            statement = sa.select(_n.id, _n.availability_zone_hints).where(_n.id.in_(batch), _HAS_DHCP)
            with self._db.read() as connection:
                rows = connection.execute(statement).all()
            for network_id, hints in rows:
                self.schedule(network_id, msgspec.json.decode(hints))

    def _candidates(self, rows: Iterable[sa.Row[Any]]) -> list[Candidate]:
        cutoff = self._registry.cutoff()
        return [
            Candidate(r.id, r.availability_zone, r.networks, r.heartbeat_timestamp >= cutoff, bool(r.admin_state_up))
            for r in rows
        ]

    def _give(self, tx: Transaction, network_ids: Sequence[str], agent_id: str) -> None:
        """Write that an agent has these networks, if each of them still has too few."""
        source = sa.select(_n.id, sa.literal(agent_id, sa.String)).where(
            _n.id.in_(list(network_ids)), _serving < self._wanted
        )
        insert = sa.insert(t.network_dhcp_agents).from_select(["network_id", "agent_id"], source)
        counted = insert.execution_options(preserve_rowcount=True)  # without it, PostgreSQL's driver does not tell
        if tx.execute(counted, {"cutoff": self._registry.cutoff()}).rowcount != len(network_ids):
            raise Stale

    # --- an agent appears -----------------------------------------------------------------------------------------

    def reported(self, report: Report) -> int:
        """After a report: an agent that is new, back or restarted takes the networks that lack one."""
        if report.agent_type not in (words.DHCP, words.OVS) or not report.needs_everything:
            return 0
        taken = self.auto_schedule(report.host) if report.agent_type == words.DHCP else 0
        self.refresh(report.host)
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
            count, last = self._db.retrying(partial(self._take, found.id, found.availability_zone, last))
            taken += count
        if taken:
            LOG.info("The DHCP agent on %s takes %d networks that lacked one", host, taken)
        return taken

    def _take(self, agent_id: str, zone: str | None, after: str) -> tuple[int, str | None]:
        """Give an agent the next networks that lack one and are for its zone; how many, and where to go on."""
        for_zone = _n.availability_zone_hints.contains(encode(zone), autoescape=True) if zone else sa.false()
        if not self._default_zones or zone in self._default_zones:
            for_zone = sa.or_(for_zone, _n.availability_zone_hints == "[]")
        has = sa.exists().where(_b.network_id == _n.id, _b.agent_id == agent_id)
        most = BATCH if self._ports is None else PORTS_BATCH
        statement = (
            sa.select(_n.id, _n.revision_number, _n.availability_zone_hints)
            .where(_n.id > after, _HAS_DHCP, for_zone, ~has, _serving < self._wanted)
            .order_by(_n.id)
            .limit(most)
        )
        with self._db.read() as connection:
            if connection.execute(sa.select(_a.id).where(_a.id == agent_id)).first() is None:
                return 0, None  # deleted meanwhile
            rows = connection.execute(statement, {"cutoff": self._registry.cutoff()}).all()
            # The databases do not agree on whether LIKE tells "A" from "a"; zones do.
            networks = {r.id: r.revision_number for r in rows if zone in (msgspec.json.decode(r[2]) or [zone])}
            steps = {key: self.steps(connection, key, coming=[agent_id]) for key in networks}

        def write(tx: Transaction) -> None:
            self._give(tx, list(networks), agent_id)
            for network_id, revision in networks.items():
                tx.record("network", network_id, revision)

        if networks:
            self.commit([step for some in steps.values() for step in some], write)
            for network_id, some in steps.items():
                if some:
                    self._settle(network_id)
        return len(networks), rows[-1].id if len(rows) == most else None

    # --- an agent is lost -----------------------------------------------------------------------------------------

    def reschedule_dead(self) -> list[Move]:
        """Move networks from agents that have been dead for a while to others, where there are others.

        Ports that nobody is left to serve are not held back for that.
        """
        moves = self._move_from_dead() if self._failover else []
        if self._release is not None and (released := self._release(self._registry.cutoff())):
            LOG.warning("%d ports are ACTIVE though no DHCP agent that lives serves their network", len(released))
        return moves

    def _move_from_dead(self) -> list[Move]:
        lost_before = self._registry.cutoff(times=2)
        with self._db.read() as connection:
            bindings = connection.execute(_ON_LOST_AGENTS, {"cutoff": lost_before}).all()
            if not bindings:
                return []
            agents = connection.execute(_AGENTS, {"network": ""}).all()
        lost = {row.id for row in agents if row.heartbeat_timestamp < lost_before}
        candidates = {c.id: c for c in self._candidates(agents)}
        placed: dict[str, _Placed] = {}
        for network_id, revision, hints, agent_id in bindings:
            placed.setdefault(network_id, _Placed(revision, msgspec.json.decode(hints), set())).hosted.add(agent_id)
        moves: list[Move] = []
        for network_id, network in placed.items():
            move = self._plan(network_id, network, list(candidates.values()), lost)
            carry_out = partial(self._carry_out, move, network.revision)
            if not move.from_agents or not self._db.retrying(carry_out):
                continue
            moves.append(move)
            for agent_id in move.to_agents:  # the next network finds it busier
                candidates[agent_id] = replace(candidates[agent_id], load=candidates[agent_id].load + 1)
        if len(moves) < len(placed):
            LOG.warning("%d networks stay on dead DHCP agents: no other can take them", len(placed) - len(moves))
        return moves

    def _plan(self, network_id: str, network: _Placed, candidates: Sequence[Candidate], lost: set[str]) -> Move:
        hints = network.hints or self._default_zones
        chosen = choose(candidates, self._wanted, hints, network.hosted)
        leaving = sorted(network.hosted & lost)
        if lacking(candidates, self._wanted, network.hosted) > len(chosen):  # from the others nobody takes over
            leaving = leaving[: len(chosen)]
        return Move(network_id, tuple(leaving), tuple(chosen))

    def _carry_out(self, move: Move, revision: int) -> bool:
        """Whether the move was made; not if another server was faster, which then has seen to it."""
        leave = sa.delete(t.network_dhcp_agents).where(
            _b.network_id == move.network_id, _b.agent_id.in_(list(move.from_agents))
        )
        with self._db.read() as connection:
            steps = self.steps(connection, move.network_id, coming=move.to_agents, going=move.from_agents)

        def write(tx: Transaction) -> None:
            if not tx.execute(leave).rowcount:
                raise Stale
            for agent_id in move.to_agents:
                self._give(tx, [move.network_id], agent_id)
            tx.record("network", move.network_id, revision)

        try:
            self.commit(steps, write)
        except (Stale, sa.exc.IntegrityError):
            return False  # what it was planned on has changed: the next sweep plans anew
        self._settle(move.network_id)
        return True

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
            steps = self.steps(connection, network_id, coming=[agent_id])
        if revision is None:
            raise errors.NetworkNotFound(id=network_id)
        if agent is None:
            raise errors.AgentNotFound(id=agent_id)
        if agent.agent_type != words.DHCP or not agent.admin_state_up:
            raise errors.InvalidDHCPAgent(id=agent_id)
        if has:
            raise errors.NetworkHostedByDHCPAgent(network_id=network_id, agent_id=agent_id)

        def write(tx: Transaction) -> None:
            tx.execute(sa.insert(t.network_dhcp_agents).values(network_id=network_id, agent_id=agent_id))
            tx.record("network", network_id, revision)

        self.commit(steps, write)

    def remove(self, agent_id: str, network_id: str) -> None:
        """Take a network from an agent; no other gets it for that."""
        self._db.retrying(lambda: self._remove(agent_id, network_id))

    def _remove(self, agent_id: str, network_id: str) -> None:
        with self._db.read() as connection:
            revision = connection.execute(sa.select(_n.revision_number).where(_n.id == network_id)).scalar()
            if connection.execute(sa.select(_a.id).where(_a.id == agent_id)).first() is None:
                raise errors.AgentNotFound(id=agent_id)
            steps = self.steps(connection, network_id, going=[agent_id])
        leave = sa.delete(t.network_dhcp_agents).where(_b.network_id == network_id, _b.agent_id == agent_id)

        def write(tx: Transaction) -> None:
            if revision is None or not tx.execute(leave).rowcount:
                raise errors.NetworkNotHostedByDhcpAgent(network_id=network_id, agent_id=agent_id)
            tx.record("network", network_id, revision)

        self.commit(steps, write)

    # --- questions ------------------------------------------------------------------------------------------------

    def networks_on(self, connection: Connection, agent_id: str) -> list[str]:
        statement = sa.select(_b.network_id).where(_b.agent_id == agent_id).order_by(_b.network_id)
        return list(connection.execute(statement).scalars())

    def zones_of(self, connection: Connection, network_ids: Sequence[str]) -> dict[str, list[str]]:
        return zones_of(connection, network_ids)


def zones_of(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[str]]:
    """The zones in which networks have agents; a network without agents is left out."""
    if len(network_ids) > BATCH:  # the whole table is less work than naming so many
        rows = connection.execute(_ZONES).all()
    else:
        rows = connection.execute(_ZONES_OF, {"networks": list(network_ids)}).all() if network_ids else []
    if not rows:
        return {}
    asked = set(network_ids)
    out: dict[str, list[str]] = defaultdict(list)
    for network_id, zone in sorted(tuple(row) for row in rows):
        if network_id in asked:
            out[network_id].append(zone)
    return dict(out)


def _batches(items: Sequence[str]) -> Iterable[list[str]]:
    return (list(items[i : i + BATCH]) for i in range(0, len(items), BATCH))
