"""Which agent has which network: the rows that say so, and the ports that go with them in the same transaction.

What is read before is asked again by the statement that writes: a network gets an agent only while it has too few. On
SQLite that is exact. On the others two servers that place one network in the same instant may give it an agent more
than wanted, which serves like the rest and does no harm.

A subnet may change while a network is being placed, each without seeing the other; therefore both look once more after
their commit (`settle`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.placement import Candidate, choose
from neutrino.server.hosts.registry import Registry

BATCH = 500
SETTLES = 5
_a, _b, _n, _s = t.agents.c, t.network_dhcp_agents.c, t.networks.c, t.subnets.c
CUTOFF = sa.bindparam("cutoff", type_=sa.String)
AGENTS = (
    sa.select(
        _a.id,
        _a.host,
        _a.availability_zone,
        _a.admin_state_up,
        _a.heartbeat_timestamp,
        sa.select(sa.func.count()).where(_b.agent_id == _a.id).scalar_subquery().label("networks"),
        sa.exists().where(_b.agent_id == _a.id, _b.network_id == sa.bindparam("network")).label("hosted"),
    )
    .where(_a.agent_type == words.DHCP)
    .order_by(_a.id)
)
serving_agents = (  # how many agents a network has that live and are up
    sa.select(sa.func.count())
    .select_from(t.network_dhcp_agents.join(t.agents))
    .where(_b.network_id == _n.id, _a.admin_state_up, _a.heartbeat_timestamp >= CUTOFF)
    .correlate(t.networks)
    .scalar_subquery()
)
HAS_DHCP = sa.exists().where(_s.network_id == _n.id, _s.enable_dhcp)
_ZONES = (
    sa.select(_b.network_id, _a.availability_zone)
    .select_from(t.network_dhcp_agents.join(t.agents))
    .where(_a.availability_zone != "")
    .distinct()
)
_ZONES_OF = _ZONES.where(_b.network_id.in_(sa.bindparam("networks", expanding=True)))


class Ports(Protocol):
    """The ports that agents serve from: what has to be done to them, and a transaction that does it with the rest."""

    def steps(
        self, connection: Connection, network_id: str, coming: Collection[str] = (), going: Collection[str] = ()
    ) -> list[Any]: ...

    def write(self, steps: Sequence[Any]) -> AbstractContextManager[Transaction]: ...

    def in_need(self, connection: Connection, host: str) -> list[str]: ...

    def unbound(self, steps: Sequence[Any]) -> frozenset[str]: ...


class Placements:
    def __init__(self, db: Database, registry: Registry, wanted: int, ports: Ports | None = None) -> None:
        """`wanted`: how many agents a network should have."""
        self.wanted = wanted
        self.ports = ports
        self._db = db
        self._registry = registry

    # --- the ports that agents serve from ---------------------------------------------------------------------------

    def steps(
        self, connection: Connection, network_id: str, coming: Collection[str] = (), going: Collection[str] = ()
    ) -> list[Any]:
        return [] if self.ports is None else self.ports.steps(connection, network_id, coming, going)

    def write(self, steps: Sequence[Any]) -> AbstractContextManager[Transaction]:
        """A transaction that also makes these changes of the network's DHCP ports."""
        return self.ports.write(steps) if self.ports is not None and steps else self._db.transaction()

    def settle(self, network_id: str) -> None:
        """Bring a network's DHCP ports to what its agents and subnets ask for, if they are not there."""
        if self.ports is not None:
            self._db.retrying(lambda: self._settle(network_id))

    def _settle(self, network_id: str) -> None:
        for _ in range(SETTLES):  # what changes all the time is left to those who change it
            with self._db.read() as connection:
                steps = self.steps(connection, network_id)
            if not steps:
                return
            with self.write(steps):
                pass  # only the ports change

    def refresh(self, host: str) -> int:
        """A host's agents are new or back: make the DHCP ports that it lacks, bind those that could not be bound."""
        if self.ports is None:
            return 0
        with self._db.read() as connection:
            networks = self.ports.in_need(connection, host)
        for network_id in networks:
            self.settle(network_id)
        return len(networks)

    # --- the rows ---------------------------------------------------------------------------------------------------

    def candidates(self, rows: Iterable[sa.Row[Any]]) -> list[Candidate]:
        cutoff = self._registry.cutoff()
        return [
            Candidate(
                *(r.id, r.availability_zone, r.networks),
                *(r.heartbeat_timestamp >= cutoff, bool(r.admin_state_up), r.host),
            )
            for r in rows
        ]

    def choose(
        self,
        connection: Connection,
        network_id: str,
        candidates: Sequence[Candidate],
        hints: Sequence[str],
        hosted: Collection[str],
        going: Collection[str] = (),
    ) -> tuple[list[str], list[Any]]:
        """The agents that take a network, and what has to be done to its ports; `going` leave it.

        An agent whose host cannot bind its port would serve nobody: others come before it. It is chosen all the same if
        its host's switch has not reported: then nobody knows, and the port is bound when it has.
        """
        unable: set[str] = set()
        unknown: set[str] = set()
        while True:
            able = [c for c in candidates if c.id not in unable | unknown]
            chosen = choose(able, self.wanted, hints, hosted)
            steps = self.steps(connection, network_id, chosen, going)
            failed = self.unbound(connection, steps)
            refused = {c.id: failed[c.host] for c in able if c.id in chosen and c.host in failed}
            if not refused:
                break
            unable |= {agent_id for agent_id, has_switch in refused.items() if has_switch}
            unknown |= {agent_id for agent_id, has_switch in refused.items() if not has_switch}
        if not chosen and unknown:
            chosen = choose([c for c in candidates if c.id not in unable], self.wanted, hints, hosted)
            steps = self.steps(connection, network_id, chosen, going)
        return chosen, steps

    def unbound(self, connection: Connection, steps: Sequence[Any]) -> dict[str, bool]:
        """The hosts to which ports could not be bound, each with whether it has a switch that lives."""
        failed = self.ports.unbound(steps) if self.ports is not None else frozenset[str]()
        return {host: self._has_switch(connection, host) for host in failed}

    def _has_switch(self, connection: Connection, host: str) -> bool:
        return any(a["alive"] and a["agent_type"] == words.OVS for a in self._registry.agents_on(connection, host))

    def give(self, tx: Transaction, network_ids: Sequence[str], agent_id: str) -> None:
        """Write that an agent has these networks, if each of them still has too few."""
        source = sa.select(_n.id, sa.literal(agent_id, sa.String)).where(
            _n.id.in_(list(network_ids)), serving_agents < self.wanted
        )
        insert = sa.insert(t.network_dhcp_agents).from_select(["network_id", "agent_id"], source)
        counted = insert.execution_options(preserve_rowcount=True)  # without it, PostgreSQL's driver does not tell
        if tx.execute(counted, {"cutoff": self._registry.cutoff()}).rowcount != len(network_ids):
            raise Stale


def networks_on(connection: Connection, agent_id: str) -> list[str]:
    statement = sa.select(_b.network_id).where(_b.agent_id == agent_id).order_by(_b.network_id)
    return list(connection.execute(statement).scalars())


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
