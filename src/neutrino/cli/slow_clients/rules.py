"""Which connections are too slow; pure.

A connection is receiving while data has arrived since the server sent something: a request is incomplete, or it is handled.
It is sending while data of an answer is not acknowledged. The kernel does not know requests, so `InProgress` does:
the connection of a request that is handled is left alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from neutrino.cli.slow_clients.front import InProgress, Started
from neutrino.cli.slow_clients.sockets import Sample

TOLERANCE: Final = 5.0  # seconds between the last byte of a request and its start in a thread, on a busy machine
FULL: Final = 0.75  # share of connections above which some are closed
PATIENCE: Final = 2.0  # seconds that a request may take to arrive then


@dataclass(frozen=True)
class Limits:
    seconds: float  # in which a request must have arrived
    rate: float  # bytes per second, after the grace period; 0: any

    @property
    def grace(self) -> float:
        return self.seconds / 3

    def allowed(self, count: int) -> float:
        """Seconds that the transfer of so many bytes may have taken."""
        return self.grace + count / self.rate if self.rate else float("inf")


@dataclass(frozen=True)
class Phase:
    since: float
    first: int  # the counter of bytes at that time
    until: int = 0  # of a sending connection: what was queued then


@dataclass(frozen=True)
class Track:
    """What is known of a connection from earlier samples."""

    opened: float
    sent: int
    received: int
    receiving: Phase | None = None
    sending: Phase | None = None


def follow(track: Track | None, sample: Sample, now: float) -> Track:
    """The connection's track with another sample."""
    opened = now if track is None else track.opened
    return Track(opened, sample.sent, sample.received, _receiving(track, sample, now), _sending(track, sample, now))


def _receiving(track: Track | None, sample: Sample, now: float) -> Phase | None:
    before = track or Track(now, 0, 0)
    if sample.sent != before.sent:  # answered since the last sample
        return Phase(now, sample.received) if sample.received_ago < sample.sent_ago else None
    if before.receiving is None and sample.received > before.received:
        return Phase(now, before.received)
    return before.receiving


def _sending(track: Track | None, sample: Sample, now: float) -> Phase | None:
    phase = track.sending if track is not None else None
    if phase is not None and sample.acknowledged < phase.until:
        return phase
    # What was queued at the last sample has been read since.
    return Phase(now, sample.acknowledged, sample.queued) if sample.acknowledged < sample.queued else None


def too_slow(track: Track, sample: Sample, limits: Limits, progress: InProgress, now: float) -> bool:
    sending, receiving = track.sending, track.receiving
    if sending is not None and now - sending.since > limits.allowed(sample.acknowledged - sending.first):
        return True
    if receiving is None:
        return False
    age = now - receiving.since
    if age > min(limits.seconds, limits.allowed(sample.received - receiving.first)) and not _is_handled(
        sample, progress.handled.values(), now
    ):
        return True
    # A client that keeps sending beside other requests from its address: one that is handled was complete in time.
    ages = [now - each.since for each in progress.handled.values() if each.address == sample.address]
    return age > 2 * limits.seconds and not any(age - other < limits.seconds + TOLERANCE for other in ages)


def _is_handled(sample: Sample, handled: Iterable[Started], now: float) -> bool:
    """Whether the request on this connection may be one that is handled: that one began when its last byte arrived."""
    last = now - sample.received_ago
    return any(each.address == sample.address and abs(each.since - last) < TOLERANCE for each in handled)


def holding_threads(
    tracks: Mapping[int, Track], samples: Iterable[Sample], limits: Limits, progress: InProgress, now: float
) -> set[int]:
    """Cookies of connections that may be those of bodies that do not end, for which no connection was too slow.

    A client can make its connection look idle: with an unfinished request sent together with the one before it, or with TLS
    messages that have to be answered. Its address is known, and which of its connections were open when the request began.
    """
    overdue: dict[str, float] = {}
    for body in progress.bodies.values():
        if now - body.since > 2 * limits.seconds:
            overdue[body.address] = max(body.since, overdue.get(body.address, 0))
    return {
        sample.cookie
        for sample in samples
        if sample.address in overdue
        and tracks[sample.cookie].opened <= overdue[sample.address] + TOLERANCE
        and not _is_handled(sample, progress.handled.values(), now)
    }


def surplus(
    tracks: Mapping[int, Track], samples: Collection[Sample], most: int, progress: InProgress, now: float
) -> set[int]:
    """Cookies of connections to close if there is little room: the longest idle ones, then those of unfinished requests."""
    number = max(0, len(samples) - int(most * FULL))
    if not number:
        return set()
    idle: list[tuple[float, int]] = []
    unfinished: list[tuple[float, int]] = []
    for sample in samples:
        track = tracks[sample.cookie]
        if track.sending is None and track.receiving is None:
            idle.append((-min(sample.sent_ago, sample.received_ago), sample.cookie))
            continue
        since = track.receiving.since if track.receiving is not None else now
        if now - since > PATIENCE and not _is_handled(sample, progress.handled.values(), now):
            unfinished.append((since, sample.cookie))
    return {cookie for _, cookie in [*sorted(idle), *sorted(unfinished)][:number]}
