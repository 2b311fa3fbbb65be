"""Metrics of the agent: what the feed client and the roles have now, read when Prometheus asks."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.feed.client import FeedClient
from neutrino.metrics import catalog
from neutrino.metrics.instruments import Instrument, Labels, Values

LOG = logging.getLogger(__name__)
SECONDS: Final = 1.0
Measure = tuple[Instrument, Labels, float]


class Measured(Protocol):
    """A role."""

    def measures(self) -> Iterable[Measure]: ...


def watch(client: FeedClient, roles: Sequence[Measured]) -> None:
    catalog.FEED_CONNECTED.watch(lambda: float(client.connected))
    catalog.FEED_SYNCED.watch(lambda: float(client.is_synced))
    catalog.FEED_POSITION.watch(lambda: float(client.position))
    catalog.UNACKNOWLEDGED.watch(lambda: float(client.unacknowledged))
    catalog.OBJECTS.watch(lambda: {(kind,): len(objects) for kind, objects in client.state.objects.items()})
    snapshot = Snapshot(roles)
    for one in (
        *(
            catalog.APPLIED_POSITION,
            catalog.QUEUE,
            catalog.PROBLEMS,
            catalog.DATAPLANE_UP,
            catalog.WIRED_PORTS,
            catalog.LINK_UP,
        ),
        *(catalog.FLOWS, catalog.DAEMONS, catalog.HA_ROUTERS, catalog.DHCP_REQUESTS, catalog.METADATA_REQUESTS),
        *(catalog.PORT_BYTES, catalog.PORT_PACKETS, catalog.PORT_DROPS),
        *(catalog.TUNNEL_BYTES, catalog.TUNNEL_PACKETS, catalog.TUNNEL_DROPS),
        *(catalog.COMPARED_AT, catalog.COMPARED_PACKETS, catalog.COMPARED_DIFFERENCES, catalog.COMPARED_CHANGES),
    ):
        one.watch(partial(snapshot.of, one))


class Snapshot:
    """The values of all roles, read once for all metrics of a scrape: some ask another process."""

    def __init__(self, roles: Sequence[Measured], seconds: float = SECONDS) -> None:
        self._roles, self._seconds = roles, seconds
        self._at = float("-inf")
        self._values: dict[Instrument, dict[Labels, float]] = {}
        self._lock = threading.Lock()

    def of(self, one: Instrument) -> Values:
        with self._lock:
            now = time.monotonic()
            if now - self._at > self._seconds:
                self._values = self._read()
                self._at = now
            return self._values.get(one, {})

    def _read(self) -> dict[Instrument, dict[Labels, float]]:
        found: dict[Instrument, dict[Labels, float]] = {}
        for role in self._roles:
            try:
                for instrument, labels, value in role.measures():
                    values = found.setdefault(instrument, {})
                    values[labels] = values.get(labels, 0.0) + value
            except Exception as error:  # of one role, as of a switch that does not answer: the others are read
                LOG.warning("metrics of a role cannot be read: %s", error)
        return found


def of_loop(role: str, queue: int, problems: int, position: int | None = None) -> Iterator[Measure]:
    """What every role has."""
    yield catalog.QUEUE, (role,), queue
    yield catalog.PROBLEMS, (role,), problems
    if position is not None:
        yield catalog.APPLIED_POSITION, (role,), position


def of_daemons(supervisor: Supervisor) -> Iterator[Measure]:
    for program, number in supervisor.running_programs().items():
        yield catalog.DAEMONS, (program,), number
