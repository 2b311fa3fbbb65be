"""The interface between the agent and its roles."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol

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

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "") -> None: ...

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
