"""Differences from the desired state, of the objects that a packet passed."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from neutrino.agent.trace.owners import parse_owner
from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import MAX_DRIFT, Trail
from neutrino.dataplane.openflow.api import COOKIE_MASK, Flow
from neutrino.model.trace import Cause

# Words of planned changes in a namespace that explain a drop there.
_EXPLAINS: Final = {
    Cause.NO_ROUTE: ("route", "address", "rule", "sysctl", "device"),
    Cause.NO_DEVICE: ("device", "veth", "port"),
    Cause.NO_SUCH_ADDRESS: ("neighbour",),
    Cause.OTHER: ("sysctl", "route", "table"),
}
_NAMESPACES: Final = ("qrouter-", "snat-", "fip-")
_WHOLE = COOKIE_MASK | 0xFFFFFFFF
ReadFlows = Callable[[str, int, int], frozenset[Flow]]


@dataclasses.dataclass(frozen=True)
class ObjectDrift:
    """Compares the flows of ports and networks, and the namespaces of routers. Blocking."""

    read_flows: ReadFlows
    find_router: Callable[[str], Sequence[str]] = lambda router_id: ()  # planned changes of a router that is here

    def __call__(self, trail: Trail, state: SwitchState) -> list[str]:
        lines: list[str] = []
        for each in (*self._flows(trail, state), *self._routers(trail)):
            lines += each
            if len(lines) >= MAX_DRIFT:
                break
        return lines

    @staticmethod
    def explain(trail: Trail) -> None:
        """Drops in a router's namespace that a planned change of the router explains have drift as their cause."""
        changes = [line.split(": ", 1)[1].split() for line in trail.drift if line.startswith("router ")]
        words = {word for change in changes for word in change[:3]}
        for place, last in enumerate(trail.exits):
            if (
                last.point is None
                and words.intersection(_EXPLAINS.get(last.cause, ()))
                and any(namespace in last.note for namespace in _NAMESPACES)
            ):
                note = f"{last.note}; the router differs from the desired state"
                trail.exits[place] = msgspec.structs.replace(last, cause=Cause.DRIFT, note=note)

    def _flows(self, trail: Trail, state: SwitchState) -> Iterator[list[str]]:
        bridges = {observation.where for observation in trail.observations if observation.source == "openflow"}
        for cookie, owner in state.view.owners.items():
            kind, object_id = parse_owner(owner)
            if kind in ("port", "network") and object_id in trail.objects:
                for bridge in sorted(bridges & state.view.flows.keys()):
                    yield state.flows.owner_differences(bridge, cookie, self.read_flows(bridge, cookie, _WHOLE))

    def _routers(self, trail: Trail) -> Iterator[list[str]]:
        for router_id in sorted(
            {observation.owner_id for observation in trail.observations if observation.owner_kind == "router"}
        ):
            yield [f"router {router_id}: {line}" for line in self.find_router(router_id)]
