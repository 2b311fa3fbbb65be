"""What meters are told to measure, and what they have measured: values that are JSON between the processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

INTERVAL = 0.02  # seconds between pings of a path, and between messages of a stream
SHORTEST_STALL = 0.05  # a shorter gap between messages of a stream is not recorded


class PingPath(msgspec.Struct, frozen=True):
    name: str
    network: str  # file of the network namespace of the sender
    target: str


class StreamPath(msgspec.Struct, frozen=True):
    name: str
    network: str  # of the sender
    target: str
    port: int  # that the sender connects to
    receiver: str  # network namespace of the receiver
    listens_on: int


class RequestPath(msgspec.Struct, frozen=True):
    """Requests once a second: of metadata, or renewals of a DHCP lease."""

    name: str
    kind: str  # "metadata" or "dhcp"
    network: str
    target: str  # the server's address
    source: str  # the client's address
    mac: str


class HaRouter(msgspec.Struct, frozen=True):
    """A network namespace of an HA router on one host."""

    router: str
    host: str
    network: str
    is_active: bool


class Plan(msgspec.Struct, frozen=True):
    pings: Sequence[PingPath] = ()
    streams: Sequence[StreamPath] = ()
    requests: Sequence[RequestPath] = ()
    ha_routers: Sequence[HaRouter] = ()


class Pings(msgspec.Struct, frozen=True):
    sent: int
    lost: Sequence[float]  # when each was sent, in seconds of the monotonic clock
    duplicates: int
    slowest: float  # seconds


class Stream(msgspec.Struct, frozen=True):
    messages: int
    stalls: Sequence[tuple[float, float]]  # since when, and how long
    errors: Sequence[tuple[float, str]]


class Requests(msgspec.Struct, frozen=True):
    answers: Sequence[tuple[float, float]]  # when asked, and after how many seconds answered
    unanswered: Sequence[tuple[float, str]]


class Transition(msgspec.Struct, frozen=True):
    at: float
    router: str
    host: str
    becomes_active: bool


class Measurements(msgspec.Struct, frozen=True):
    """All that was measured between start and end, by the names of the paths."""

    start: float
    end: float
    pings: Mapping[str, Pings]
    streams: Mapping[str, Stream]
    requests: Mapping[str, Requests]
    transitions: Sequence[Transition]
    active: Sequence[tuple[str, str]]  # router and host at the start
