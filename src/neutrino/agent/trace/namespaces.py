"""A packet in a network namespace."""

import dataclasses

from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import AtDevice, Place, Trail


@dataclasses.dataclass(frozen=True)
class NamespaceWalk:
    def run(self, at: AtDevice, state: SwitchState, trail: Trail) -> list[Place]:
        trail.consume(at.packet, f"received by {at.device} in {at.namespace}")
        return []
