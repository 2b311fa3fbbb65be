"""Placements: the rows that record which agents serve which networks or routers, and the choice of these agents.

A `PlacementTable` declares one kind of placement: networks on DHCP agents, routers on L3 agents. Everything else about
scheduling and failover is shared.

The choice is pure. Agents that are alive, enabled and do not serve the object yet are candidates; with availability zone
hints only those of the hinted zones. Zones with the fewest agents of the object come first, then the least loaded agent,
then the smallest id: so the agents of one object are spread over zones, and the same input always gives the same choice.

An object counts as placed on a dead agent until the sweep moves it. Otherwise the first agents that are back after an
outage of the server would get all objects, in addition to the agents that come back later.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Read, RowsLookup, read
from neutrino.server.db.sql import Condition, NamedRow, Selection
from neutrino.server.scheduling.loads import Loads

BATCH = 500  # ids in one statement
CUTOFF = sa.bindparam("cutoff", type_=sa.String)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent as the schedulers see it."""

    id: str
    zone: str | None = None
    load: int = 0  # objects placed on it
    alive: bool = True
    admin_state_up: bool = True
    host: str = ""
    configurations: Values = field(default_factory=dict)  # of its last report
    left_if_disabled: bool = True  # whether its objects leave it when the operator disables it

    @property
    def serves(self) -> bool:
        return self.alive and self.admin_state_up

    @property
    def counts(self) -> bool:
        """Whether objects on it count as placed."""
        return self.admin_state_up or not self.left_if_disabled


@dataclass(frozen=True, slots=True)
class Agents:
    """All agents of a type, as read for one object."""

    candidates: list[Candidate]
    hosted: frozenset[str] = frozenset()  # ids of those that serve the object


def lacking(candidates: Iterable[Candidate], wanted: int, hosted: Collection[str]) -> int:
    """How many agents an object lacks. Dead agents count as agents that it has, until it is moved."""
    return max(wanted - sum(c.counts and c.id in hosted for c in candidates), 0)


def choose(candidates: Sequence[Candidate], wanted: int, hints: Sequence[str], hosted: Collection[str]) -> list[str]:
    """The agents to add to those that have the object (`hosted`) so that `wanted` serve it, or as many as possible."""
    free = [c for c in candidates if c.serves and c.id not in hosted and (not hints or c.zone in hints)]
    in_zone = Counter(c.zone for c in candidates if c.counts and c.id in hosted)
    chosen: list[str] = []
    for _ in range(min(lacking(candidates, wanted, hosted), len(free))):
        best = min(free, key=lambda c: (in_zone[c.zone], c.load, c.id))
        free.remove(best)
        in_zone[best.zone] += 1
        chosen.append(best.id)
    return chosen


def kept_of_surplus(placed: Iterable[Candidate], wanted: int, object_id: str) -> set[str] | None:
    """The agents that keep an object which was placed on more than wanted; None without surplus.

    Dead ones are no surplus: the sweep moves objects away from them. In an order that is another one for each object, so
    that the same agents are not left with all of them, and the same for all servers.
    """
    serving = [c for c in placed if c.serves]
    if len(serving) <= wanted:
        return None
    ranks = {c.id: sha256(f"{object_id} {c.id}".encode()).digest() for c in serving}
    return set(choose([replace(c, load=int.from_bytes(ranks[c.id])) for c in serving], wanted, (), ()))


# --- the rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlacementTable:
    """Declaration of one kind of placement."""

    kind: str  # of the placed objects, as in the change log
    agent_type: str
    service: str  # in the API's paths and policy rules: "dhcp", "l3"
    table: sa.Table  # one row for each object and agent
    objects: sa.Table
    not_found: Callable[..., Exception]  # called with the id
    leaves_disabled: bool = False  # whether objects leave agents that the operator disables
    movable: Condition | None = None  # objects that the server moves; others fail over by themselves
    reads_configurations: bool = False  # whether the choice depends on what agents reported

    @property
    def object_id(self) -> sa.ColumnElement[str]:
        return self.table.c[f"{self.kind}_id"]

    @property
    def agent_id(self) -> sa.ColumnElement[str]:
        return self.table.c.agent_id

    @cached_property
    def _statement(self) -> Selection:
        # A join, which MariaDB executes faster than EXISTS.
        placed = t.agents.outerjoin(
            self.table, sa.and_(self.agent_id == t.agents.c.id, self.object_id == sa.bindparam("object"))
        )
        columns = [
            t.agents.c.id,
            t.agents.c.host,
            t.agents.c.availability_zone,
            t.agents.c.admin_state_up,
            t.agents.c.heartbeat_timestamp,
        ]
        if self.reads_configurations:
            columns.append(t.agents.c.configurations)
        statement = sa.select(*columns, self.agent_id.label("hosted")).select_from(placed)
        return statement.where(t.agents.c.agent_type == self.agent_type).order_by(t.agents.c.id)

    @cached_property
    def _agents(self) -> RowsLookup:
        return RowsLookup(self._statement)

    @cached_property
    def _agents_counted(self) -> RowsLookup:
        return self._counting(None)

    @cached_property
    def _agents_counted_by_parts(self) -> dict[sa.Table, RowsLookup]:
        return {}

    def _agents_with_loads(self, parts: sa.Table | None) -> RowsLookup:
        """The agents with their loads, as a statement that is compiled once."""
        if parts is None:
            return self._agents_counted
        known = self._agents_counted_by_parts
        return known.get(parts) or known.setdefault(parts, self._counting(parts))

    def _counting(self, parts: sa.Table | None) -> RowsLookup:
        rows = self.table.alias()
        placed = sa.select(sa.func.count()).where(rows.c.agent_id == t.agents.c.id)
        if parts is not None:
            counted = parts.alias()
            of_object = counted.c[f"{self.kind}_id"] == rows.c[f"{self.kind}_id"]
            placed = placed.select_from(rows.join(counted, of_object))
        return RowsLookup(self._statement.add_columns(placed.scalar_subquery().label("load")))

    def agents(self, connection: Connection, cutoff: str, object_id: str) -> Agents:
        """All agents of the type, and which of them serve the object. Agents are dead before the cutoff."""
        return read(connection, self.reading_agents(cutoff, object_id))

    def reading_agents(self, cutoff: str, object_id: str) -> Read[Agents]:
        """The same, to be read together with other things."""
        return self._agents(object=object_id).then(lambda rows: self._found(rows, cutoff, {}))

    def candidates(self, connection: Connection, cutoff: str, loads: Loads, object_id: str = "") -> Agents:
        """All agents of the type, as `agents`, with the number of objects of each one."""
        return read(connection, self.reading_candidates(cutoff, loads, object_id))

    def reading_candidates(self, cutoff: str, loads: Loads, object_id: str = "") -> Read[Agents]:
        """The same, to be read together with other things."""
        counts = loads.kept()
        reading = (self._agents_with_loads(loads.parts) if counts is None else self._agents)(object=object_id)

        def agents(rows: Sequence[NamedRow]) -> Agents:
            known = loads.drawn(row.id for row in rows) if loads.by_chance else counts
            if known is None:
                known = {row.id: row.load for row in rows}
                loads.read(known)
            return self._found(rows, cutoff, known)

        return reading.then(agents)

    def _found(self, rows: Sequence[NamedRow], cutoff: str, counts: Mapping[str, int]) -> Agents:
        found = [
            Candidate(
                row.id,
                row.availability_zone,
                counts.get(row.id, 0),
                row.heartbeat_timestamp >= cutoff,
                bool(row.admin_state_up),
                row.host,
                msgspec.json.decode(row.configurations) if self.reads_configurations else {},
                self.leaves_disabled,
            )
            for row in rows
        ]
        return Agents(found, frozenset(row.id for row in rows if row.hosted is not None))

    @cached_property
    def placed(self) -> sa.ScalarSelect[int]:
        """On how many agents an object counts as placed (`Candidate.counts`), for statements on the objects' table."""
        return self._counted(t.agents.c.admin_state_up if self.leaves_disabled else sa.true())

    @cached_property
    def serving(self) -> sa.ScalarSelect[int]:
        """On how many live and enabled agents an object is placed, for statements with a `cutoff`."""
        return self.serving_if(sa.true())

    def serving_if(self, condition: Condition) -> sa.ScalarSelect[int]:
        """The same, of the placements with a condition."""
        return self._counted(t.agents.c.admin_state_up, t.agents.c.heartbeat_timestamp >= CUTOFF, condition)

    def _counted(self, *conditions: Condition) -> sa.ScalarSelect[int]:
        placed = sa.select(sa.func.count()).select_from(self.table.join(t.agents))
        return placed.where(self.object_id == self.objects.c.id, *conditions).correlate(self.objects).scalar_subquery()

    @cached_property
    def _lost(self) -> sa.Select[str, str, bool]:
        dead = t.agents.c.heartbeat_timestamp < CUTOFF
        lost = sa.or_(dead, sa.not_(t.agents.c.admin_state_up)) if self.leaves_disabled else dead
        return (
            sa.select(self.object_id.label("object_id"), self.agent_id.label("agent_id"), dead.label("dead"))
            .select_from(self.table.join(t.agents).join(self.objects))
            .where(lost, *([] if self.movable is None else [self.movable]))
            .order_by(self.object_id, self.agent_id)
        )

    def on_lost_agents(self, connection: Connection, dead_before: str) -> Sequence[NamedRow]:
        """Placements to move away: rows with object_id, agent_id, and whether the agent is dead (else disabled)."""
        return connection.execute(self._lost, {"cutoff": dead_before}).all()

    def objects_on(self, connection: Connection, agent_id: str) -> list[str]:
        statement = sa.select(self.object_id).where(self.agent_id == agent_id).order_by(self.object_id)
        return list(connection.execute(statement).scalars())

    @cached_property
    def _zones(self) -> Selection:
        zones = sa.select(self.object_id, t.agents.c.availability_zone).select_from(self.table.join(t.agents))
        return zones.where(t.agents.c.availability_zone != "").distinct()

    @cached_property
    def _zones_of(self) -> Selection:
        return self._zones.where(self.object_id.in_(sa.bindparam("objects", expanding=True)))

    @cached_property
    def _zones_of_one(self) -> RowsLookup:
        return RowsLookup(self._zones.where(self.object_id == sa.bindparam("object")))

    def zones_of(self, connection: Connection, object_ids: Sequence[str]) -> dict[str, list[str]]:
        """The availability zones of the agents that serve these objects; objects without agents are left out."""
        if len(object_ids) > BATCH:  # reading the whole table is cheaper than a statement with that many ids
            rows: Sequence[NamedRow] = connection.execute(self._zones).all()
        elif len(object_ids) == 1:
            rows = read(connection, self._zones_of_one(object=object_ids[0]))
        else:
            rows = connection.execute(self._zones_of, {"objects": list(object_ids)}).all() if object_ids else ()
        asked = set(object_ids)
        zones: defaultdict[str, list[str]] = defaultdict(list)
        for object_id, zone in sorted(tuple(row) for row in rows if row[0] in asked):
            zones[object_id].append(zone)
        return dict(zones)

    def reading_zones(self, object_id: str) -> Read[list[str]]:
        """The zones of one object, to be read together with other things."""
        return self._zones_of_one(object=object_id).then(lambda rows: sorted(zone for _, zone in rows))

    def zones(self, connection: Connection, objects: Sequence[Values]) -> list[list[str]]:
        """The zones of each of these objects, in their order."""
        found = self.zones_of(connection, [one["id"] for one in objects])
        return [found.get(one["id"], []) for one in objects]


NETWORKS = PlacementTable(
    "network",
    words.DHCP,
    "dhcp",
    t.network_dhcp_agents,
    t.networks,
    errors.NetworkNotFound,
    leaves_disabled=True,
)
