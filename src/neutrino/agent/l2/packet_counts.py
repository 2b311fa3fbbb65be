"""Counts packets by flows that come and go: a sum over the flows of the moment would fall when a port is deleted."""

import time
from collections.abc import Callable, Mapping

from neutrino.dataplane.openflow.api import PacketCount


class PacketCounts:
    """The packets of several flows since the agent's start.

    Packets of a flow after its last reading and before its deletion are not counted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
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
