"""The process of the meters: `python -m qa.takeover.lab.meters`, a plan on standard input, measurements on standard output.

The first line of the input is the plan; each further line asks for the measurements so far; the end of the input ends the
process. It runs before others on a busy machine: a meter that waits for a processor would measure itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from neutrino.lab.hosts.namespaces import in_network
from qa.takeover.lab.meters import icmp, streams, vrrp
from qa.takeover.lab.meters.measurements import INTERVAL, Measurements, PingPath, Plan, StreamPath
from qa.takeover.lab.meters.requests import Requester

PATIENCE = 1.0  # seconds until an echo request is lost
_FIRST_IDENTIFIER = 0x4E00  # of echo requests, one for each path


class Meter(Protocol):
    def register(self, selector: selectors.BaseSelector) -> None: ...


class Sender(Protocol):
    def send(self) -> None: ...


class Meters:
    def __init__(self, plan: Plan) -> None:
        self.start = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.pingers = [_pinger(path, number) for number, path in enumerate(plan.pings, _FIRST_IDENTIFIER)]
        self.streamers = [_streamer(path) for path in plan.streams]
        self.watches = [
            vrrp.Watch(router, in_network(Path(router.network), vrrp.open_socket)) for router in plan.ha_routers
        ]
        meters: Sequence[Meter] = (*self.pingers, *self.streamers, *self.watches)
        for meter in meters:
            meter.register(self.selector)
        self.requesters = [Requester(path) for path in plan.requests]
        for requester in self.requesters:
            network = Path(requester.path.network)
            threading.Thread(target=in_network, args=(network, requester.run), daemon=True).start()
        self.active = [(router.router, router.host) for router in plan.ha_routers if router.is_active]

    def run(self) -> None:
        """Send on all paths, spread over the interval, until the end of the input."""
        sending: Sequence[Sender] = [*self.pingers, *self.streamers]
        step = INTERVAL / len(sending)
        due, turn = time.monotonic(), 0
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            for key, _ in self.selector.select(max(0.0, due - time.monotonic())):
                if key.data is not None:
                    with contextlib.suppress(BlockingIOError):
                        key.data()
                elif not sys.stdin.readline():
                    return
                else:
                    sys.stdout.write(msgspec.json.encode(self.measurements()).decode() + "\n")
                    sys.stdout.flush()
            now = time.monotonic()
            while due <= now:
                sending[turn].send()
                turn = (turn + 1) % len(sending)
                due += step
            if now - due > 1:
                due = now  # paused for long: no burst

    def measurements(self) -> Measurements:
        transitions = sorted((t for watch in self.watches for t in watch.transitions), key=lambda t: t.at)
        return Measurements(
            self.start,
            time.monotonic(),
            {pinger.path.name: pinger.result(PATIENCE) for pinger in self.pingers},
            {streamer.path.name: streamer.result() for streamer in self.streamers},
            {requester.path.name: requester.result() for requester in self.requesters},
            transitions,
            self.active,
        )


def _pinger(path: PingPath, identifier: int) -> icmp.Pinger:
    return icmp.Pinger(path, identifier, in_network(Path(path.network), lambda: icmp.open_socket(path.target)))


def _streamer(path: StreamPath) -> streams.Streamer:
    listener = in_network(Path(path.receiver), lambda: streams.open_listener(path.target, path.listens_on))
    sender = in_network(Path(path.network), lambda: streams.open_sender(path.target))
    return streams.Streamer(path, sender, listener)


def main() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    Meters(msgspec.json.decode(sys.stdin.readline(), type=Plan)).run()


if __name__ == "__main__":
    main()
