"""The interface between the agent and its roles."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from neutrino.feed.state import State, StateChange
from neutrino.model.agents import PROBLEMS, AgentState

MAX_PROBLEMS = 10  # a report is bounded


class RoleFeed(Protocol):
    """The feed client as roles use it: the desired state, and reports to the server."""

    state: State

    @property
    def is_synced(self) -> bool: ...

    @property
    def position(self) -> int: ...

    def port_up(self, port_id: str, revision: int) -> None: ...

    def port_down(self, port_id: str, reason: str = "") -> None: ...

    def port_ready(self, port_id: str, revision: int) -> None: ...

    def status(self, kind: str, key: str, status: str) -> None: ...

    def error(self, kind: str, key: str, text: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class Drift:
    """What a role would change, for `--dry-run` and `verify`."""

    role: str
    plan: str = ""  # a line for each change
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)  # object → why it cannot be reconciled


class Role(Protocol):
    """One of l2, dhcp, l3, metadata. All methods but `run` and `find` return at once."""

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

    async def settle(self) -> None:
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


def described(agent: AgentState, values: Mapping[str, object], problems: Mapping[str, str]) -> AgentState:
    """The agent with its current values and problems in `configurations`, as it is reported."""
    listed = {PROBLEMS: dict(sorted(problems.items())[:MAX_PROBLEMS])}
    return dataclasses.replace(agent, configurations={**agent.configurations, **values, **listed})


class ObjectStatus(NamedTuple):
    """The status of an object of the API on this host, as reported to the server."""

    kind: str
    id: str
    status: str
    revision: int = 0  # of the object: a status is reported again for a newer one


@dataclasses.dataclass
class StatusReports:
    """Statuses of the objects that extensions apply with a router, or with all ports: each is reported once."""

    feed: RoleFeed
    _reported: dict[str, frozenset[ObjectStatus]] = dataclasses.field(default_factory=dict)

    def applied(self, key: str, statuses: frozenset[ObjectStatus]) -> None:
        """`key` names what was applied; `statuses` are all that are in force with it."""
        for each in sorted(statuses - self._reported.get(key, frozenset())):
            self.feed.status(each.kind, each.id, each.status)
        self._reported[key] = statuses

    def failed(self, key: str, statuses: frozenset[ObjectStatus]) -> None:
        """Those that are in force already are left: what failed may be another part of it."""
        for each in sorted(statuses - self._reported.get(key, frozenset())):
            self.feed.status(each.kind, each.id, "ERROR")

    def forget(self, key: str) -> None:
        self._reported.pop(key, None)
