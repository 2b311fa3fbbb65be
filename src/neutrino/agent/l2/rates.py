"""What the ports and tunnels of this host count: reported sparsely for rates, and as metrics.

One reading takes one request to each of two bridges. Every interval it has what ports and tunnels have counted since the
last one; those that counted nothing are left out, and without any nothing is sent.
"""

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from operator import add, sub
from typing import Final

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.runtime.measures import Measure
from neutrino.agent.runtime.role import RoleFeed
from neutrino.dataplane.openflow.api import OpenFlow, OpenFlowError
from neutrino.dataplane.ovsdb.api import Interface, Ovsdb, OvsdbError, Snapshot
from neutrino.metrics import catalog
from neutrino.model.rates import MAX_PORTS, MAX_SECONDS, MAX_TUNNELS, Counted

LOG = logging.getLogger(__name__)
Counters = Mapping[str, Counted]
NOTHING: Final = Counted()
_DIRECTIONS: Final = ("in", "out")


class TrafficCounts:
    """Differences of counters since they were last taken, and their sums since the agent's start. Pure."""

    def __init__(self) -> None:
        self._last: Counters | None = None
        self.totals: Counters = {}

    def take(self, now: Counters) -> dict[str, Counted]:
        """What was counted since the last time; nothing the first time, when it is not known since when it was."""
        before = self._last if self._last is not None else now
        found = {key: difference(before.get(key, NOTHING), counted) for key, counted in now.items()}
        self.totals = {key: Counted(*map(add, self.totals.get(key, NOTHING), found[key])) for key in now}
        self._last = dict(now)
        return {key: counted for key, counted in found.items() if any(counted)}


def difference(before: Counted, after: Counted) -> Counted:
    """Counters start again from zero with the switch, or when a device is plugged again: then all of it is new."""
    started_again = any(new < old for old, new in zip(before, after, strict=True))
    return after if started_again else Counted(*map(sub, after, before))


def busiest(counted: Counters, most: int) -> dict[str, Counted]:
    if len(counted) <= most:
        return dict(counted)
    chosen = sorted(counted, key=lambda key: -(counted[key].bytes_in + counted[key].bytes_out))[:most]
    return {key: counted[key] for key in chosen}


def port_numbers(snapshot: Snapshot, bridge: str) -> dict[int, str]:
    """The ports of the bridge that are ports of the API, by their numbers there."""
    return {
        number: interface.external_ids["iface-id"]
        for number, interface in _interfaces(snapshot, bridge)
        if "iface-id" in interface.external_ids
    }


def tunnel_numbers(snapshot: Snapshot, bridge: str) -> dict[int, str]:
    """The tunnels of the bridge, each with the other host's address."""
    return {
        number: interface.options["remote_ip"]
        for number, interface in _interfaces(snapshot, bridge)
        if interface.options.get("remote_ip", "flow") != "flow"
    }


def _interfaces(snapshot: Snapshot, bridge: str) -> Iterator[tuple[int, Interface]]:
    ports = snapshot.bridges[bridge].ports.values() if bridge in snapshot.bridges else ()
    for port in ports:
        for interface in port.interfaces:
            if interface.ofport is not None and interface.ofport > 0:
                yield interface.ofport, interface


def named(numbers: Mapping[int, str], counters: Mapping[int, Counted]) -> dict[str, Counted]:
    """The sums by name: a host may have tunnels of two types to another one."""
    found: dict[str, Counted] = {}
    for number, name in numbers.items():
        if number in counters:
            found[name] = Counted(*map(add, found.get(name, NOTHING), counters[number]))
    return found


@dataclasses.dataclass(eq=False)
class RateReporter:
    """Reads and reports counters every `interval` seconds; 0: never."""

    feed: RoleFeed
    options: L2Options
    ovsdb: Callable[[], Ovsdb]
    openflow: OpenFlow
    interval: float
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._ports, self._tunnels = TrafficCounts(), TrafficCounts()
        self._taken_at: float | None = None

    async def run(self) -> None:
        if not self.interval:
            return
        await asyncio.sleep(self.interval * random.random())  # hosts that start together report one by one
        while True:
            await self.report()
            await asyncio.sleep(self.interval)

    async def report(self) -> None:
        try:
            ports, tunnels = await asyncio.to_thread(self._read)
        except (OpenFlowError, OvsdbError) as error:
            LOG.debug("the counters cannot be read: %s", error)
            return
        now, since = self.clock(), self._taken_at
        self._taken_at = now
        of_ports, of_tunnels = self._ports.take(ports), self._tunnels.take(tunnels)
        if since is not None and (of_ports or of_tunnels):
            seconds = min(max(1, round(now - since)), MAX_SECONDS)
            self.feed.rates(seconds, busiest(of_ports, MAX_PORTS), busiest(of_tunnels, MAX_TUNNELS))

    def _read(self) -> tuple[dict[str, Counted], dict[str, Counted]]:
        snapshot, (integration, tunnel) = (
            self.ovsdb().read(),
            (self.options.integration_bridge, self.options.tunnel_bridge),
        )
        ports, tunnels = port_numbers(snapshot, integration), tunnel_numbers(snapshot, tunnel)
        read = self.openflow.read_port_counters
        return (
            named(ports, read(integration)) if ports else {},
            {name: _from_outside(each) for name, each in named(tunnels, read(tunnel)).items()} if tunnels else {},
        )

    def measures(self) -> Iterator[Measure]:
        """Without zeros: most ports are idle, and nearly none drops packets."""
        for totals, metrics in ((self._ports.totals, _PORT), (self._tunnels.totals, _TUNNEL)):
            for name, counted in totals.items():
                for place, value in enumerate(counted):
                    if value:
                        yield metrics[place // 2], (name, _DIRECTIONS[place % 2]), value


def _from_outside(counted: Counted) -> Counted:
    """Of a tunnel, `in` is what arrives from the other host; of a port, what leaves the switch through it."""
    return Counted(*(counted[place ^ 1] for place in range(len(counted))))


_PORT: Final = (catalog.PORT_BYTES, catalog.PORT_PACKETS, catalog.PORT_DROPS)
_TUNNEL: Final = (catalog.TUNNEL_BYTES, catalog.TUNNEL_PACKETS, catalog.TUNNEL_DROPS)
