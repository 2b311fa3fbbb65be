"""The sweep that takes networks, and routers, from dead agents: one loop in one thread of the server's main process.

A dead agent is one that did not report, and nobody can report to a server that is not there. So after its start, and
after its machine's clock made a leap (a suspended machine, a corrected clock), the sweeper first gives every agent the
time to report, and judges then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling.failover import Move

LOG = logging.getLogger(__name__)


class Scheduler(Protocol):
    def reschedule_dead(self) -> Sequence[Any]: ...


def describe(move: Move) -> str:
    others = ", ".join(move.to_agents) or "those that it also has"
    return (
        f"Network {move.network_id} left DHCP agents {', '.join(move.from_agents)}, which serve no more, for {others}"
    )


class Sweeper:
    def __init__(
        self,
        scheduler: Scheduler,
        registry: Registry,
        interval: float,
        stop: threading.Event,
        describe: Callable[[Any], str] = describe,
    ) -> None:
        """`describe` says in words what was moved."""
        self._describe = describe
        self._scheduler = scheduler
        self._registry = registry
        self._interval = interval
        self._stop = stop
        self._last = registry.clock()
        self._judges_from = self._last + registry.down_time

    def run(self) -> None:
        """Sweep until the event is set."""
        while not self._stop.wait(self._interval):
            self.sweep()

    def sweep(self) -> None:
        try:
            if self._may_judge():
                for move in self._scheduler.reschedule_dead():
                    LOG.warning("%s", self._describe(move))
        except Exception:  # whatever it was, the next sweep may do better
            LOG.exception("Dead agents could not be relieved; this is tried again in %s s", self._interval)

    def _may_judge(self) -> bool:
        now, last = self._registry.clock(), self._last
        self._last = now
        if not last <= now <= last + self._interval + self._registry.down_time:
            LOG.warning(
                "The clock went from %.0f to %.0f: agents get time to report before any is held dead", last, now
            )
            self._judges_from = now + self._registry.down_time
        return now >= self._judges_from
