"""What a role of the agent is to the agent: something that hears of changes, works, and says how it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol

from neutrino.feed.state import State, StateChange
from neutrino.model.agents import AgentState


class RoleFeed(Protocol):
    """What roles use of the feed: what the server told, and what they tell it."""

    state: State

    @property
    def is_synced(self) -> bool: ...

    @property
    def position(self) -> int: ...

    def port_up(self, port_id: str, revision: int) -> None: ...

    def port_down(self, port_id: str, reason: str = "") -> None: ...

    def port_ready(self, port_id: str, revision: int, component: str = "DHCP") -> None: ...

    def error(self, kind: str, key: str, text: str) -> None: ...


@dataclasses.dataclass(frozen=True)
class Drift:
    """What a role would change, for `--dry-run`, and for `verify`, to which anything at all is drift."""

    role: str
    plan: str = ""  # a line for each change
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)  # the thing, to why it cannot be done


class Role(Protocol):
    """One of l2, dhcp, l3, metadata. All but `run` and `find` are quick and never block."""

    name: str

    def changed(self, change: StateChange) -> None:
        """An object is another than before. The state itself is the feed's."""
        ...

    def synced(self) -> None:
        """Everything up to the feed's position is known now: what is not there is not wanted."""
        ...

    async def run(self) -> None:
        """Work until cancelled. What is done is left as it is: nothing is taken down at the end."""
        ...

    async def settle(self) -> None:
        """Finish what is being applied; called before the end."""
        ...

    async def find(self) -> Drift:
        """What is not as it should be, changing nothing."""
        ...

    def applied(self) -> int | None:
        """The position up to which everything is carried out; None: the role does not count them."""
        ...

    def describe(self) -> Iterable[AgentState]:
        """The agents of the API that this role is."""
        ...
