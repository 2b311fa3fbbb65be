"""A thread of each worker that closes the connections of slow clients."""

import logging
import threading
import time
from typing import Final

from neutrino.cli.slow_clients import rules, sockets
from neutrino.cli.slow_clients.front import CONNECTIONS, InProgress
from neutrino.cli.slow_clients.rules import Limits, Track

LOG = logging.getLogger(__name__)
INTERVAL: Final = 1.0  # seconds


class Watch:
    """`port`: of the API."""

    def __init__(self, port: int, limits: Limits, in_progress: InProgress, stop: threading.Event) -> None:
        self._port, self._limits, self._in_progress, self._stop = port, limits, in_progress, stop
        self._tracks: dict[int, Track] = {}
        self._closed: set[int] = set()  # cookies

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="slow clients").start()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                self.check(time.monotonic())
            except Exception:  # without this thread slow clients could fill the worker, and no log would say so
                LOG.exception("the connections of clients could not be checked")

    def check(self, now: float) -> None:
        found = sockets.samples(self._port)
        samples = list(found.values())
        tracks = {each.cookie: rules.follow(self._tracks.get(each.cookie), each, now) for each in samples}
        self._tracks = tracks
        progress = InProgress(self._in_progress.bodies.copy(), self._in_progress.handled.copy())
        slow: set[int] = set()
        if self._limits.seconds:
            slow = {
                each.cookie
                for each in samples
                if rules.too_slow(tracks[each.cookie], each, self._limits, progress, now)
            }
            slow |= rules.holding_threads(tracks, samples, self._limits, progress, now)
        idle = rules.surplus(tracks, samples, CONNECTIONS, progress, now)
        for descriptor, sample in found.items():
            if sample.cookie in slow or sample.cookie in idle:
                at_once = sample.cookie in self._closed or tracks[sample.cookie].sending is not None
                sockets.close(descriptor, sample.cookie, at_once=at_once)
        self._closed = slow | idle
        if slow:
            addresses = sorted({each.address for each in samples if each.cookie in slow})
            LOG.warning("closed %s connections of clients that were too slow: %s", len(slow), ", ".join(addresses[:10]))
        if idle:
            LOG.warning("closed %s connections that were idle or slow, as there were %s", len(idle), len(samples))
