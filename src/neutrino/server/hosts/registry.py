"""Agent registry: the agents that have reported, written by their reports and read by everything that uses hosts.

An agent is identified by its type and host, and has one row however many of its reports arrive at once. It is alive while
its last report is not older than `down_time`. A heartbeat, a report without changes, writes the time only. A report is in
the change log if it changes what the feed reads of the agent (`FEED_KEYS`).
"""

import calendar
import ipaddress
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.agents import AgentState, AgentStatus
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode, exists, new_id
from neutrino.server.db.reads import Lookup, read
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction

LOG = logging.getLogger(__name__)
Row = Object | sa.RowMapping
MAX_LOAD = 2**31 - 1  # of the database's integers
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_decode = msgspec.json.decode
_KNOWN = sa.select(t.agents).where(t.agents.c.host.in_(sa.bindparam("hosts", expanding=True)))
_LIVE = sa.select(t.agents.c.host, t.agents.c.configurations).where(
    t.agents.c.agent_type == words.OVS, t.agents.c.heartbeat_timestamp >= sa.bindparam("cutoff")
)
_HEARTBEATS = sa.select(t.agents.c.heartbeat_timestamp).where(t.agents.c.agent_type == sa.bindparam("type"))
_ON_HOST = Lookup(
    sa.select(t.agents).where(t.agents.c.host == sa.bindparam("on_host")),
    lambda rows: [dict(zip(t.agents.c.keys(), row, strict=True)) for row in rows],
)


def timestamp(at: float) -> str:
    """A time as the database stores it. Timestamps compare like their texts."""
    return time.strftime(_FORMAT, time.gmtime(at))


def seconds(text: str) -> float:
    """The reverse of `timestamp`."""
    return calendar.timegm(time.strptime(text, _FORMAT))


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The effect of a report: the agent, its status before, and whether it has started since."""

    agent_id: str
    agent_type: str
    host: str
    status: AgentStatus
    started: bool = False
    is_heartbeat: bool = False  # it changes nothing but the time
    refusal: str = ""  # why it is not stored as it was sent

    @property
    def needs_everything(self) -> bool:
        """Whether the agent may have missed changes: it is new, was dead, or has restarted."""
        return self.started or self.status is not AgentStatus.ALIVE


@dataclass(eq=False)
class Registry:
    db: Database
    down_time: float = 75
    clock: Callable[[], float] = time.time
    enable_new: bool = True  # whether agents that report for the first time get networks and routers
    shown_load: str = words.NETWORKS  # the entry of a DHCP agent's report that the API shows as its load

    # --- reports --------------------------------------------------------------------------------------------------

    def report(self, state: AgentState) -> AgentReport:
        return self.report_all([state])[0]

    def report_all(self, states: Sequence[AgentState]) -> list[AgentReport]:
        """Store the reports of several agents, as of one host's roles, in one transaction."""
        return self._write({_key(s): s for s in states}.values())  # one per agent, the last: its row is written once

    @retried
    def _write(self, states: Collection[AgentState]) -> list[AgentReport]:
        now = self.clock()
        with self.db.read() as connection:
            rows = connection.execute(_KNOWN, {"hosts": sorted({s.host for s in states})}).mappings().all()
            states = _resolve_conflicts(connection, states, rows, self.cutoff())
        known = {(row["agent_type"], row["host"]): row for row in rows}
        with self.db.transaction() as tx:
            reports = [replace(self._write_one(tx, s, known.get(_key(s)), now), refusal=_refusal(s)) for s in states]
            # All heartbeats in one statement: they are nearly all reports of a large cloud.
            beats = [report.agent_id for report in reports if report.is_heartbeat]
            statement = sa.update(t.agents).where(t.agents.c.id.in_(beats)).values(heartbeat_timestamp=timestamp(now))
            if beats:  # Stale if an agent was deleted meanwhile: its report creates it again
                tx.change(statement, rows=len(beats))
        return reports

    def _write_one(self, tx: Transaction, state: AgentState, before: Row | None, now: float) -> AgentReport:
        """Insert or update an agent; nothing for a heartbeat."""
        if before is None:
            return self._insert(tx, state, now)
        if state.configurations.get(words.LOG_AGENT_HEARTBEATS):
            LOG.info("%s on %s reported; before that at %s", *_key(state), before["heartbeat_timestamp"])
        values = self._changes(state, before)
        revived = not self.alive(before, now)
        if not (values or revived or state.start_flag):
            return AgentReport(before["id"], *_key(state), AgentStatus.ALIVE, is_heartbeat=True)
        values["heartbeat_timestamp"] = timestamp(now)
        if state.start_flag:
            values["started_at"] = timestamp(now)
        statement = sa.update(t.agents).where(t.agents.c.id == before["id"]).values(values)
        if revived:
            # Exactly one of concurrent reports revives the agent: that one schedules networks and routers to it.
            statement = statement.where(t.agents.c.heartbeat_timestamp == before["heartbeat_timestamp"])
        tx.change(statement)
        if _is_read_by_feed(state, before):
            tx.record("agent", before["id"])
        if revived:
            LOG.info("%s on %s is back; its last report was at %s", *_key(state), before["heartbeat_timestamp"])
        status = AgentStatus.REVIVED if revived else AgentStatus.ALIVE
        return AgentReport(before["id"], *_key(state), status, state.start_flag)

    def _insert(self, tx: Transaction, state: AgentState, now: float) -> AgentReport:
        at = timestamp(now)
        row: Object = {
            "id": new_id(),
            "agent_type": state.agent_type,
            "host": state.host,
            "availability_zone": state.availability_zone,
            "admin_state_up": self.enable_new,
            "created_at": at,
            "started_at": at,
            "heartbeat_timestamp": at,
            "resource_versions": encode(state.resource_versions),
            **self._columns(state),
        }
        tx.write(sa.insert(t.agents).values(row))
        tx.record("agent", row["id"], created=True)
        waits = "" if self.enable_new else "; it is disabled until an operator enables it (enable_new_agents)"
        LOG.info("%s on %s is new%s", *_key(state), waits)
        return AgentReport(row["id"], *_key(state), AgentStatus.NEW, state.start_flag)

    def _columns(self, state: AgentState) -> Object:
        """The columns that every report has."""
        # Of the load only DHCP agents report a number, which nothing but the API reads: schedulers count in the database.
        load = state.configurations.get(self.shown_load) if state.agent_type == words.DHCP else None
        return {
            "binary": state.binary,
            "topic": state.topic,
            "load": min(max(load, 0), MAX_LOAD) if isinstance(load, int) else 0,
            "configurations": encode(state.configurations),
        }

    def _changes(self, state: AgentState, before: Row) -> Object:
        """The columns that a report changes, without the time."""
        columns = self._columns(state)
        if state.availability_zone is not None:
            columns["availability_zone"] = state.availability_zone
        if state.resource_versions:
            columns["resource_versions"] = encode(state.resource_versions)
        return {name: value for name, value in columns.items() if value != before[name]}

    # --- reads ----------------------------------------------------------------------------------------------------

    def alive(self, row: Row, now: float | None = None) -> bool:
        at = self.clock() if now is None else now
        return bool(row["heartbeat_timestamp"] >= timestamp(at - self.down_time))

    def cutoff(self, times: int = 1) -> str:
        """An agent whose last report is older is dead; with `times`, dead for that many down times."""
        return timestamp(self.clock() - times * self.down_time)

    def agents_on(self, connection: Connection, host: str) -> list[Object]:
        """All agents of a host, also dead ones, with `alive` and their configurations decoded."""
        now = self.clock()
        return [
            {
                **row,
                "alive": self.alive(row, now),
                "configurations": _decode(row["configurations"]),
                "resource_versions": _decode(row["resource_versions"]),
            }
            for row in read(connection, _ON_HOST(on_host=host))
        ]

    def heartbeats(self, agent_type: str) -> list[str]:
        """The time of the last report of each agent of the type."""
        with self.db.read() as connection:
            return list(connection.execute(_HEARTBEATS, {"type": agent_type}).scalars())

    def live_hosts(self, agent_type: str) -> list[str]:
        """The hosts with an agent of the type that is alive."""
        recent = t.agents.c.heartbeat_timestamp >= self.cutoff()
        with self.db.read() as connection:
            hosts = sa.select(t.agents.c.host).where(t.agents.c.agent_type == agent_type, recent)
            return list(connection.execute(hosts.order_by(t.agents.c.host)).scalars())

    def has_live(self, connection: Connection, host: str, agent_type: str) -> bool:
        """Whether the host has an agent of the type that is alive."""
        recent = t.agents.c.heartbeat_timestamp >= self.cutoff()
        return exists(connection, t.agents.c.host == host, t.agents.c.agent_type == agent_type, recent)


def check_agent(connection: Connection, key: str) -> None:
    if not exists(connection, t.agents.c.id == key):
        raise errors.AgentNotFound(id=key)


def _key(state: AgentState) -> tuple[str, str]:
    return state.agent_type, state.host


def _is_read_by_feed(state: AgentState, before: Row) -> bool:
    """Whether a report changes what the feed reads of an agent.

    Other changes are not recorded: reading what depends on an L3 agent is reading all distributed routers, and reports
    change often, if only in how far the host is behind.
    """
    known = _decode(before["configurations"])
    return any(known.get(key) != state.configurations.get(key) for key in words.FEED_KEYS.get(state.agent_type, ()))


# --- tunnel addresses -------------------------------------------------------------------------------------------------

# They are unique: packets for two hosts with the same address would reach either of them. The host that has an address
# keeps it while its agent is alive. The report of another host that claims it is stored without the address and without
# tunnel types: no tunnel leads to that host, no tunnelled network is bound there, and its agent shows the problem until
# one of the two hosts changes its address.


def _resolve_conflicts(
    connection: Connection, states: Collection[AgentState], known: Iterable[Row], cutoff: str
) -> list[AgentState]:
    """The reports as they are stored. `known`: rows of their hosts; agents are dead before the cutoff."""
    claims = {s.host: address for s in states if s.agent_type == words.OVS and (address := _address(s.configurations))}
    own = _owned(row for row in known if row["agent_type"] == words.OVS and row["heartbeat_timestamp"] >= cutoff)
    if all(own.get(host) == address for host, address in claims.items()):
        return list(states)  # nearly always: no other agents need to be read
    owned = _owned(connection.execute(_LIVE, {"cutoff": cutoff}).mappings())
    # An owner keeps its address unless it now claims another one; of several new claims the first one wins.
    owner_of = {address: host for host, address in owned.items() if claims.get(host, address) == address}
    resolved = []
    for state in states:
        address = claims.get(state.host, "") if state.agent_type == words.OVS else ""
        owner = owner_of.setdefault(address, state.host) if address else state.host
        # Two first reports in concurrent transactions may both be stored. Then both hosts keep the address: taking it from
        # the one that reports next would make the two lose it in turn.
        kept = owner == state.host or owned.get(state.host) == address
        resolved.append(state if kept else _refused(state, owner))
    return resolved


def _owned(rows: Iterable[Row]) -> dict[str, str]:
    """The addresses of hosts."""
    decoded = ((row["host"], _address(_decode(row["configurations"]))) for row in rows)
    return {host: address for host, address in decoded if address}


def _refused(state: AgentState, owner: str) -> AgentState:
    problems = state.configurations.get(words.PROBLEMS)
    reason = f"{state.configurations[words.TUNNELING_IP]} is the address for tunnels of host {owner} already"
    changed = {
        words.TUNNELING_IP: "",
        words.TUNNEL_TYPES: [],
        words.PROBLEMS: {**(problems if isinstance(problems, dict) else {}), words.LOCAL_IP: reason},
    }
    return replace(state, configurations={**state.configurations, **changed})


def _refusal(state: AgentState) -> str:
    """Why a report is not stored as it was sent; empty if it is."""
    problems = state.configurations.get(words.PROBLEMS)
    reason = problems.get(words.LOCAL_IP, "") if isinstance(problems, dict) else ""
    return f"{words.LOCAL_IP}: {reason}" if reason else ""


def _address(configurations: Mapping[str, object]) -> str:
    text = configurations.get(words.TUNNELING_IP)
    try:
        return str(ipaddress.ip_address(text)) if isinstance(text, str) and text else ""
    except ValueError:
        return ""
