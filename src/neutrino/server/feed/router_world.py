"""The part of the world that hosts with L3 agents follow: the routers that they serve, each as that host gets it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from neutrino.server.feed.dhcp_world import DhcpWorld
from neutrino.server.feed.encoding import Item
from neutrino.server.feed.pending import Key
from neutrino.server.feed.records import RouterRecord

ROUTER = "router"
Touch = Callable[[Collection[str], str, str], None]  # hosts, kind, id


class RouterWorld:
    """`ports` is told of whose networks' ports a host has to hear."""

    def __init__(self, touch: Touch, ports: DhcpWorld) -> None:
        self._touch = touch
        self._ports = ports
        self._networks: dict[tuple[str, str], frozenset[str]] = {}  # behind a router, by router and host
        self._items: dict[str, dict[str, Item]] = {}  # by router and host
        self._served: defaultdict[str, set[str]] = defaultdict(set)  # routers, by host

    def lookup(self, host: str, key: str) -> Item | None:
        return self._items.get(key, {}).get(host)

    def keys(self, host: str) -> Iterator[Key]:
        for router_id in self._served.get(host, ()):
            yield ROUTER, router_id

    def put_router(self, key: str, record: RouterRecord | None) -> None:
        before = self._items.get(key, {})
        after = {
            host: before[host] if host in before and before[host].object == router else Item(ROUTER, router)
            for host, router in (record.by_host if record is not None else {}).items()
        }
        if after:
            self._items[key] = after
        else:
            self._items.pop(key, None)
        for host in before.keys() - after.keys():
            self._served[host].discard(key)
        for host in after.keys() - before.keys():
            self._served[host].add(key)
        self._touch([host for host in {*before, *after} if before.get(host) is not after.get(host)], ROUTER, key)
        for host in {*before, *after}:
            self._follow(key, host, record.networks(host) if record is not None else frozenset())

    def _follow(self, key: str, host: str, networks: frozenset[str]) -> None:
        """First what is new, then what is not: so nothing goes that comes again."""
        before = self._networks.pop((key, host), frozenset[str]())
        if networks:
            self._networks[key, host] = networks
        for network_id in networks - before:
            self._ports.follow_ports(host, network_id)
        for network_id in before - networks:
            self._ports.unfollow_ports(host, network_id)
