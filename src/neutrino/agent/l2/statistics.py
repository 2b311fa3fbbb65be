"""Counts ports of one reconciliation, and packets by flows that come and go.

Ports on ancillary bridges, which others wire and this agent only reports, are counted separately.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping

from neutrino.dataplane.openflow.api import PacketCount


@dataclasses.dataclass(frozen=True)
class PortStatistics:
    wired: int = 0
    added: int = 0
    updated: int = 0  # wired with another revision
    removed: int = 0

    @property
    def is_changed(self) -> bool:
        return bool(self.added or self.updated or self.removed)

    def __str__(self) -> str:
        return f"{self.wired} ports wired ({self.added} added, {self.updated} updated, {self.removed} removed)"


def statistics(before: Mapping[str, int], after: Mapping[str, int], ports: Collection[str]) -> PortStatistics:
    """Return the statistics of these ports alone; `before` and `after` have the revisions of all wired ports."""
    old, new = before.keys() & ports, after.keys() & ports
    updated = sum(before[key] != after[key] for key in old & new)
    return PortStatistics(len(new), len(new - old), updated, len(old - new))


class PacketCounts:
    """The packets of several flows since the agent's start: a sum over those of the moment would fall with a deleted port.

    Packets of a flow after its last reading and before its deletion are not counted.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began = clock, clock()
        self._last: dict[str, int] = {}
        self.total = 0

    def read(self, flows: Mapping[str, PacketCount]) -> None:
        """Add what the flows have counted since they were read last."""
        age = self._clock() - self._began
        for key, (packets, seconds) in flows.items():
            # Of a flow from before the agent's start, only what follows: its packets are counted once, not at each start.
            last = self._last.get(key, packets if seconds > age else 0)
            self.total += packets - last if packets >= last else packets  # fewer: it was deleted and added again
        self._last = {key: packets for key, (packets, _) in flows.items()}
