"""What the server's database holds about the service at one moment: input of findings and of the status document. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from neutrino.diagnosis.problems import Finding
from neutrino.model.agents import DATAPLANE
from neutrino.model.objects import Object

NAMED: Final = 10  # objects of one kind that are listed by name; beyond that the number has to do
UNBOUND: Final = "unbound"
BINDING_FAILED: Final = "binding_failed"
API_PROCESS: Final = "api"
FEED_PROCESS: Final = "feed"
SILENT_AFTER: Final = (
    45.0  # seconds in which a process has not written its row: it hangs, or was killed with its machine
)
RECONNECT_SECONDS: Final = 20.0  # after the start of a feed process, in which its hosts connect: agents wait up to 15 s
# In `details` of feed processes: hosts that are connected, hosts that have logged in lately with the time, hosts that were
# refused with time, address and reason, and the last login under a name that no host has.
HOSTS: Final = "hosts"
LOGINS: Final = "logins"
REFUSED: Final = "refused_hosts"
UNKNOWN_LOGIN: Final = "unknown_login"
DRIVERS_NOT_READY: Final = "drivers_not_ready"  # in `details` of all processes: mechanism drivers, each with the reason
MACHINE: Final = "machine"  # in `details` of all processes: where their pids mean something
WRONG_CREDENTIAL: Final = "wrong credential"
CONNECTED, LATE, DEAD = "connected", "late", "dead"  # states of a host's connection


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of a SQLite database."""

    path: str
    free: int  # bytes that this process may write
    read_only: bool


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The row of an API worker or of a feed process."""

    id: str
    host: str
    kind: str
    pid: int
    release: str
    started_at: str
    seen_at: str
    details: Object
    ended: bool = False  # it was killed, on the machine that looks


@dataclass(frozen=True, slots=True)
class AgentRow:
    """The last report of an agent."""

    id: str
    agent_type: str
    host: str
    availability_zone: str
    admin_state_up: bool
    started_at: str
    heartbeat_timestamp: str
    configurations: Object

    def dataplane(self) -> tuple[bool | None, str]:
        """Return whether the dataplane is up, and the reason if not; None: the agent reports none."""
        state = self.configurations.get(DATAPLANE)
        if not isinstance(state, str):
            return None, ""
        return (True, "") if state == "up" else (False, state.removeprefix("down").lstrip(": "))


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An API object with a problem."""

    id: str
    name: str
    host: str = ""
    active_instances: int = 0  # of an HA router


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsWithProblems:
    """API objects with a problem, at most `Facts.most` of each kind."""

    ports_with_failed_binding: Sequence[NamedObject] = ()
    ports_not_wired: Sequence[NamedObject] = ()
    ports_in_error: Sequence[NamedObject] = ()
    networks_without_dhcp: Sequence[NamedObject] = ()
    networks_of_disabled_agents: Sequence[NamedObject] = ()
    routers_not_scheduled: Sequence[NamedObject] = ()
    routers_of_disabled_agents: Sequence[NamedObject] = ()
    ha_routers: Sequence[NamedObject] = ()
    routers_in_error: Sequence[NamedObject] = ()
    floatingips_in_error: Sequence[NamedObject] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The state of the service."""

    now: float  # of this server's clock
    down_time: float  # seconds without a report after which an agent is dead
    most: int = NAMED  # objects of one problem that are listed
    dialect: str
    server_version: str
    round_trip: float  # seconds
    schema: str | None
    schema_needed: str  # by this release
    position: int
    removed: int
    pending: int
    processes: Sequence[ProcessRow]
    agents: Sequence[AgentRow]  # in the database's collation of hosts
    ports: Sequence[tuple[str, str, int]]  # status, vif_type, number
    networks: Mapping[str, int]  # number by status
    subnets: int
    routers: Sequence[tuple[str, bool, bool, int]] = ()  # status, ha, distributed, number
    ha_routers: Mapping[int, int] = field(default_factory=dict)  # number of active instances → number of HA routers
    floatingips: Mapping[str, int] = field(default_factory=dict)  # number by status
    named: ObjectsWithProblems
    disk: Disk | None = None  # of SQLite
    found: Sequence[Finding] = ()  # by features, on their objects

    def seconds_since(self, timestamp: str) -> float:
        """Return the age of a timestamp of the database; 0 if it is none."""
        try:
            return max(0.0, self.now - datetime.fromisoformat(timestamp).timestamp())
        except ValueError:
            return 0.0

    def report_age(self, agent: AgentRow) -> float:
        return self.seconds_since(agent.heartbeat_timestamp)

    def is_alive(self, agent: AgentRow) -> bool:
        return self.report_age(agent) <= self.down_time

    def is_running(self, process: ProcessRow) -> bool:
        return not process.ended and self.seconds_since(process.seen_at) <= SILENT_AFTER

    def is_replaced(self, process: ProcessRow) -> bool:
        """Whether its machine has started anew since, and runs another one. What loses power cannot delete its row."""
        return any(
            (other.host, other.kind) == (process.host, process.kind)
            and other.details.get(MACHINE) != process.details.get(MACHINE)
            and other.started_at >= process.seen_at
            for other in self.processes
            if self.is_running(other)
        )

    @cached_property
    def feeds(self) -> Sequence[ProcessRow]:
        """The feed processes that run."""
        return [process for process in self.processes if process.kind == FEED_PROCESS and self.is_running(process)]

    @cached_property
    def connected(self) -> frozenset[str] | None:
        """The hosts that have a connection to any feed process; None: a process does not say, as of an older release.

        Where no feed process runs, as after it was killed, no host has one.
        """
        lists = [process.details.get(HOSTS) for process in self.feeds]
        if not lists:
            return frozenset() if self.processes else None
        if not all(isinstance(each, list) for each in lists):
            return None
        return frozenset(host for each in lists if isinstance(each, list) for host in each if isinstance(host, str))

    @cached_property
    def reconnecting(self) -> bool:
        """Whether a feed process has just started: hosts of the one before are on their way to it."""
        return any(self.seconds_since(process.started_at) <= RECONNECT_SECONDS for process in self.feeds)

    def connection(self, agents: Sequence[AgentRow]) -> str | None:
        """Return the state of a host's connection, by its agents: dead if none of them reports; None if it is unknown."""
        if not any(self.is_alive(agent) for agent in agents):
            return DEAD
        if self.connected is None:
            return None
        return CONNECTED if any(agent.host in self.connected for agent in agents) else LATE
