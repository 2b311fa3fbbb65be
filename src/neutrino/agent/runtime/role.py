"""The interface between the agent and its roles."""

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from neutrino.agent.runtime.measures import Measure
from neutrino.feed.state import State, StateChange
from neutrino.model.agents import DATAPLANE, HELD, PROBLEMS, TAKEOVER, AgentState, shortened
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic
from neutrino.model.takeover import Compared

MAX_PROBLEMS = 10  # a report is bounded
START = "start"  # in place of a role in `Drift`: what keeps the agent from its work


class RoleFeed(Protocol):
    """The feed client as roles use it: the desired state, and reports to the server."""

    state: State

    @property
    def is_synced(self) -> bool: ...

    @property
    def position(self) -> int: ...

    def port_up(self, port_id: str, revision: int, *, inactive: bool = False) -> None: ...

    def port_down(self, port_id: str, reason: str = "") -> None: ...

    def port_ready(self, port_id: str, revision: int) -> None: ...

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None: ...

    def traffic(self, counters: Sequence[MeteredTraffic], *, granular: bool) -> None: ...

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None: ...

    @property
    def is_traffic_acknowledged(self) -> bool: ...

    def error(self, kind: str, key: str, text: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class Drift:
    """What a role would change, for `--dry-run` and `verify`."""

    role: str
    plan: str = ""  # a line for each change
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)  # object → why it cannot be reconciled


class Role(Protocol):
    """One of l2, dhcp, l3, metadata, bgp, sriov. All methods but `run` and `find` return at once."""

    name: str

    def changed(self, change: StateChange) -> None:
        """An object was created, updated or deleted; the feed's state has it already."""
        ...

    def synced(self) -> None:
        """The state is complete up to the feed's position: what it lacks was deleted."""
        ...

    async def run(self) -> None:
        """Reconcile until cancelled. The dataplane is left as it is."""
        ...

    async def finish(self) -> None:
        """Complete what is being applied, before the agent exits."""
        ...

    async def find(self) -> Drift:
        """Compare desired and actual state, changing nothing."""
        ...

    def applied(self) -> int | None:
        """The position up to which everything is applied; None: the role does not track it."""
        ...

    def describe(self) -> Iterable[AgentState]:
        """The role's agents as the API shows them."""
        ...

    def measures(self) -> Iterable[Measure]:
        """Current values of metrics. Called in another thread than the role's: it reads only, and may wait."""
        ...


def described(agent: AgentState, values: Mapping[str, object], problems: Mapping[str, str]) -> AgentState:
    """The agent with its current values and problems in `configurations`, as it is reported."""
    listed = {shortened(key): shortened(text) for key, text in sorted(problems.items())[:MAX_PROBLEMS]}
    bounded = {key: shortened(value) if isinstance(value, str) else value for key, value in values.items()}
    return dataclasses.replace(agent, configurations={**agent.configurations, **bounded, PROBLEMS: listed})


def repaired(what: Mapping[str, object]) -> dict[str, object]:
    """A repair of drift as it is reported, with the present time."""
    return {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **what}


def held(agent: AgentState, causes: Mapping[str, str], compared: Compared | None = None) -> AgentState:
    """The agent while it changes nothing on its host: the causes are its problems, and no port is to be bound there.

    `compared`: with Neutron's flows meanwhile, for a conversion.
    """
    before = agent.configurations
    dataplane: dict[str, object] = {DATAPLANE: f"down: {HELD}"} if DATAPLANE in before else {}
    if dataplane and compared is not None:
        dataplane[TAKEOVER] = msgspec.to_builtins(compared)
    problems = {f"{HELD}, {cause}": shortened(text) for cause, text in causes.items()}
    return dataclasses.replace(agent, configurations={**before, **dataplane, PROBLEMS: problems})


class ObjectStatus(NamedTuple):
    """The status of an object of the API on this host, as reported to the server."""

    kind: str
    id: str
    status: str
    revision: int = 0  # of the object
    reason: str = ""  # of an error


@dataclasses.dataclass
class StatusReports:
    """Statuses of objects that are applied with others, as a firewall group with each router that has it.

    An object is in ERROR while it is with any of these: the role has one status of it. Each is reported once, and that the
    role has the object no more.
    """

    feed: RoleFeed
    role: str
    _held: dict[str, frozenset[ObjectStatus]] = dataclasses.field(default_factory=dict)  # by what was applied
    _reported: dict[tuple[str, str], ObjectStatus] = dataclasses.field(default_factory=dict)  # by kind and id

    def applied(self, key: str, statuses: frozenset[ObjectStatus]) -> None:
        """`key` names what was applied; `statuses` are all that hold with it."""
        before = self._held.pop(key, frozenset())
        if statuses:
            self._held[key] = statuses
        for subject in sorted({(each.kind, each.id) for each in statuses ^ before}):
            self._report(subject)

    def failed(self, key: str, statuses: frozenset[ObjectStatus], reason: str) -> None:
        """Those that are in force already are left: what failed may be another part of it."""
        held = self._held.get(key, frozenset())
        self.applied(
            key,
            frozenset(each if each in held else each._replace(status="ERROR", reason=reason) for each in statuses),
        )

    def forget(self, key: str) -> None:
        self.applied(key, frozenset())

    def _report(self, subject: tuple[str, str]) -> None:
        found = [each for several in self._held.values() for each in several if (each.kind, each.id) == subject]
        if not found:
            if self._reported.pop(subject, None) is not None:
                self.feed.status(*subject, "INACTIVE", role=self.role)
            return
        newest = max(each.revision for each in found)
        current = sorted(each for each in found if each.revision == newest)
        worst = next((each for each in current if each.status == "ERROR"), current[0])
        if self._reported.get(subject) != worst:
            self._reported[subject] = worst
            self.feed.status(worst.kind, worst.id, worst.status, worst.revision, worst.reason, self.role)
