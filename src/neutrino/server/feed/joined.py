"""Which networks routers join, followed by the routers' ports. Pure."""

from __future__ import annotations

from collections import defaultdict

from neutrino.model.dhcp import ROUTERS, DhcpPort


class Joined:
    def __init__(self) -> None:
        self._ports: dict[str, DhcpPort] = {}  # of routers
        self._of_router: defaultdict[str, set[str]] = defaultdict(set)
        self._on_network: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, key: str, port: DhcpPort | None) -> frozenset[str]:
        """The networks that may be joined with others than before."""
        after = port if port is not None and port.device_owner in ROUTERS else None
        before = self._ports.get(key)
        concerned: set[str] = set()
        if before is not None:
            concerned |= self._joined_by(before.device_id)
            del self._ports[key]
            _discard(self._of_router, before.device_id, key)
            _discard(self._on_network, before.network_id, key)
        if after is not None:
            self._ports[key] = after
            self._of_router[after.device_id].add(key)
            self._on_network[after.network_id].add(key)
            concerned |= self._joined_by(after.device_id)
        return frozenset(concerned)

    def to(self, network_id: str) -> frozenset[str]:
        """The networks that a router joins to this one."""
        routers = {self._ports[key].device_id for key in self._on_network.get(network_id, ())}
        return frozenset(each for router in routers for each in self._joined_by(router)) - {network_id}

    def _joined_by(self, router_id: str) -> set[str]:
        return {self._ports[key].network_id for key in self._of_router.get(router_id, ())}


def _discard(index: defaultdict[str, set[str]], where: str, key: str) -> None:
    index[where].discard(key)
    if not index[where]:
        del index[where]
