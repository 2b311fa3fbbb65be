"""The contract of the reconciler's steps, and the state of one reconciliation that they share."""

import dataclasses
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.desired import Desired, HostState
from neutrino.agent.l2.plan import Rendered, Renderer
from neutrino.dataplane.ovsdb.api import Snapshot


@dataclasses.dataclass
class Round:
    """One reconciliation, or one look at what it would change."""

    host_state: HostState
    complete: bool
    snapshot: Snapshot
    renderer: Renderer
    changed: int = 0
    faults: dict[str, str] = dataclasses.field(default_factory=dict)
    refused: bool = False
    _desired: Desired | None = None
    _rendered: Rendered | None = None

    @property
    def is_resolved(self) -> bool:
        return self._desired is not None

    @property
    def desired(self) -> Desired:
        assert self._desired is not None, "it is resolved before the steps that use it"
        return self._desired

    @desired.setter
    def desired(self, value: Desired) -> None:
        self._desired, self._rendered = value, None

    @property
    def rendered(self) -> Rendered:
        """The rendering of what is desired when it is first used."""
        if self._rendered is None:
            self._rendered = self.renderer.render(self.desired)
        return self._rendered


class Plan(Protocol):
    def text(self) -> str: ...


P = TypeVar("P", bound=Plan)


@dataclasses.dataclass(frozen=True)
class Step(Generic[P]):
    """`plan` compares desired and actual state, and changes nothing; `apply` carries the plan out."""

    plan: Callable[[Round], P]
    apply: Callable[[Round, P], None]


@dataclasses.dataclass(frozen=True)
class Later:
    """A plan that is made only if it is shown."""

    make: Callable[[], Plan] = ConfigurationPlan

    def text(self) -> str:
        return self.make().text()
