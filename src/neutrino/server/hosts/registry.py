"""The agents that there are: written by their reports, read by all who place something on a host.

An agent is known by its type and host; however many reports of it come in at once, it has one row. It is alive while
its last report is no older than `down_time`. A report that says nothing new writes the time and no more: only news goes
into the change log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.agents import AgentState, AgentStatus, checked
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode, new_id
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.tunnel_addresses import refusal, without_taken

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
Row = Object | sa.RowMapping
_c = t.agents.c
_decode = msgspec.json.decode
_KNOWN = sa.select(t.agents).where(_c.host.in_(sa.bindparam("hosts", expanding=True)))
_ON_HOST = sa.select(t.agents).where(_c.host == sa.bindparam("on_host"))
MOST_LOAD = 2**31 - 1


def stamp(at: float) -> str:
    """A time as the database has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def alive(row: Row, now: float, down_time: float) -> bool:
    """Whether an agent's last report is recent enough. Stamps of one form compare as texts do."""
    return bool(row["heartbeat_timestamp"] >= stamp(now - down_time))


@dataclass(frozen=True, slots=True)
class Report:
    """What a report meant: the agent's id, its standing before, and whether it has just started."""

    agent_id: str
    agent_type: str
    host: str
    status: AgentStatus
    started: bool
    refusal: str = ""  # why it is not kept as it came

    @property
    def needs_everything(self) -> bool:
        """Whether the agent may have missed changes."""
        return self.started or self.status is not AgentStatus.ALIVE


class Registry:
    def __init__(
        self,
        db: Database,
        down_time: float = 75,
        clock: Callable[[], float] = time.time,
        *,
        enable_new_agents: bool = True,
    ) -> None:
        self._db = db
        self.down_time = down_time
        self.clock = clock
        self._enable_new_agents = enable_new_agents

    # --- reports --------------------------------------------------------------------------------------------------

    def report(self, state: AgentState) -> Report:
        return self.report_all([state])[0]

    def report_all(self, states: Sequence[AgentState]) -> list[Report]:
        """Take the reports of several agents, as of one host's roles, in one transaction."""
        news = {(s.agent_type, s.host): checked(s) for s in states}
        return self._db.retrying(lambda: self._write(news.values()))

    def _write(self, states: Collection[AgentState]) -> list[Report]:
        now = self.clock()
        with self._db.read() as connection:
            rows = connection.execute(_KNOWN, {"hosts": sorted({s.host for s in states})}).mappings().all()
            states = without_taken(connection, states, rows, self.cutoff())
        known = {(row["agent_type"], row["host"]): row for row in rows}
        with self._db.transaction() as tx:
            beats = [row["id"] for s in states if (row := known.get(_who(s))) and self._is_heartbeat(s, row, now)]
            if beats:
                statement = sa.update(t.agents).where(_c.id.in_(beats)).values(heartbeat_timestamp=stamp(now))
                if tx.execute(statement).rowcount != len(beats):
                    raise Stale
            return [replace(self._write_one(tx, s, known.get(_who(s)), now), refusal=refusal(s)) for s in states]

    def _is_heartbeat(self, state: AgentState, before: Row, now: float) -> bool:
        """Whether a report says nothing but that the agent is there: many of these are one statement."""
        return not state.start_flag and not _news(state, before) and self.alive(before, now)

    def _write_one(self, tx: Transaction, state: AgentState, before: Row | None, now: float) -> Report:
        if before is None:
            return self._insert(tx, state, now)
        if state.configurations.get(words.LOG_AGENT_HEARTBEATS):
            LOG.info("%s on %s reported; before that at %s", *_who(state), before["heartbeat_timestamp"])
        if self._is_heartbeat(state, before, now):
            return Report(before["id"], *_who(state), AgentStatus.ALIVE, started=False)
        news = _news(state, before)
        revived = not self.alive(before, now)
        values: Object = {**news, "heartbeat_timestamp": stamp(now)}
        if state.start_flag:
            values["started_at"] = stamp(now)
        statement = sa.update(t.agents).where(_c.id == before["id"]).values(values)
        if revived:  # of several reports at once, one revives the agent
            statement = statement.where(_c.heartbeat_timestamp == before["heartbeat_timestamp"])
        if tx.execute(statement).rowcount != 1:
            raise Stale
        if news or revived or state.start_flag:
            tx.record("agent", before["id"], 0)
        if revived:
            LOG.info("%s on %s is back; its last report was at %s", *_who(state), before["heartbeat_timestamp"])
        status = AgentStatus.REVIVED if revived else AgentStatus.ALIVE
        return Report(before["id"], *_who(state), status, state.start_flag)

    def _insert(self, tx: Transaction, state: AgentState, now: float) -> Report:
        row: Object = {
            "id": new_id(),
            "agent_type": state.agent_type,
            "host": state.host,
            "binary": state.binary,
            "topic": state.topic,
            "availability_zone": state.availability_zone,
            "admin_state_up": self._enable_new_agents,
            "created_at": stamp(now),
            "started_at": stamp(now),
            "heartbeat_timestamp": stamp(now),
            "load": _load(state),
            "configurations": encode(state.configurations),
            "resource_versions": encode(state.resource_versions),
        }
        tx.execute(sa.insert(t.agents).values(row))
        tx.record("agent", row["id"], 0)
        LOG.info("%s on %s is new", *_who(state))
        return Report(row["id"], *_who(state), AgentStatus.NEW, state.start_flag)

    # --- questions ------------------------------------------------------------------------------------------------

    def alive(self, row: Row, now: float | None = None) -> bool:
        return alive(row, self.clock() if now is None else now, self.down_time)

    def cutoff(self, times: int = 1) -> str:
        """The time before which a last report makes an agent dead; with `times`, dead for so much longer."""
        return stamp(self.clock() - times * self.down_time)

    def agents_on(self, connection: Connection, host: str) -> list[Object]:
        """Every agent of a host, dead ones too, each with `alive` and its configurations as values."""
        now = self.clock()
        return [self._decoded(row, now) for row in connection.execute(_ON_HOST, {"on_host": host}).mappings()]

    def has_live(self, connection: Connection, host: str, agent_type: str) -> bool:
        """Whether the host has an agent of the type that is alive."""
        alive = sa.select(_c.id).where(
            _c.host == host, _c.agent_type == agent_type, _c.heartbeat_timestamp >= self.cutoff()
        )
        return connection.execute(alive).first() is not None

    def _decoded(self, row: Row, now: float) -> Object:
        return {
            **row,
            "alive": self.alive(row, now),
            "configurations": _decode(row["configurations"]),
            "resource_versions": _decode(row["resource_versions"]),
        }


def _who(state: AgentState) -> tuple[str, str]:
    return state.agent_type, state.host


def _news(state: AgentState, before: Row) -> Object:
    """What a report says otherwise than the row has it, the time aside."""
    said: Object = {
        "binary": state.binary,
        "topic": state.topic,
        "load": _load(state),
        "configurations": encode(state.configurations),
    }
    if state.availability_zone is not None:
        said["availability_zone"] = state.availability_zone
    if state.resource_versions:
        said["resource_versions"] = encode(state.resource_versions)
    return {name: value for name, value in said.items() if value != before[name]}


def _load(state: AgentState) -> int:
    """How many networks a DHCP agent says it serves."""
    networks = state.configurations.get(words.NETWORKS) if state.agent_type == words.DHCP else None
    return min(max(networks, 0), MOST_LOAD) if isinstance(networks, int) else 0


def check_agent(connection: Connection, key: str) -> None:
    if connection.execute(sa.select(_c.id).where(_c.id == key)).first() is None:
        raise errors.AgentNotFound(id=key)
