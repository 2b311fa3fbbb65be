"""The order in which hosts are converted: network nodes first, an HA router's standby hosts before its active one. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

ACTIVE: Final = "active"
_SHOWN: Final = 3


@dataclass(frozen=True)
class HaRouter:
    id: str
    states: Mapping[str, str]  # host → active or standby, as it was last reported


@dataclass(frozen=True)
class Layout:
    """What decides the order."""

    network_nodes: frozenset[str] = frozenset()  # with routers or DHCP servers
    routers: Sequence[HaRouter] = ()

    def peers(self, hosts: Collection[str]) -> set[str]:
        """Other hosts of their HA routers."""
        return {
            peer for router in self.routers if not router.states.keys().isdisjoint(hosts) for peer in router.states
        } - {*hosts}


@dataclass(frozen=True)
class Batch:
    hosts: Sequence[str]
    warnings: Sequence[str] = field(default=())


def next_batch(waiting: Collection[str], layout: Layout, most: int) -> Batch:
    """The hosts that are converted together next. No two of them have the same HA router."""
    nodes = [host for host in waiting if host in layout.network_nodes]
    if not nodes:
        return Batch(sorted(waiting)[:most])
    before = {host: _before(host, {*waiting}, layout.routers) for host in nodes}
    active = {host: sum(router.states.get(host) == ACTIVE for router in layout.routers) for host in nodes}
    ordered = sorted(nodes, key=lambda host: (len(before[host]), active[host], host))
    free = [host for host in ordered if not before[host]]
    if not free:  # each is active for a router whose standby host is active for another one
        first = ordered[0]
        others = ", ".join(sorted(before[first])[:_SHOWN])
        text = f"{first} is active for routers that are standby on {others}, and the other way round: it is first"
        return Batch([first], [text])
    chosen: list[str] = []
    for host in free:
        if len(chosen) < most and host not in layout.peers(chosen):
            chosen.append(host)
    return Batch(chosen)


def one_by_one(hosts: Collection[str], layout: Layout) -> Iterator[str]:
    """All of them, each a batch of its own."""
    waiting = {*hosts}
    while waiting:
        (host,) = next_batch(waiting, layout, 1).hosts
        yield host
        waiting.remove(host)


def _before(host: str, waiting: Collection[str], routers: Sequence[HaRouter]) -> set[str]:
    """The hosts that are to be converted before this one."""
    return {
        standby for router in routers if router.states.get(host) == ACTIVE for standby in _standby(router, waiting)
    } - {host}


def _standby(router: HaRouter, waiting: Collection[str]) -> Iterator[str]:
    return (host for host, state in router.states.items() if state != ACTIVE and host in waiting)
