"""The part of the world that hosts with distributed routing follow: the MACs by which all of them send. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from neutrino.model.state import DvrMac
from neutrino.server.feed.encoding import Item
from neutrino.server.feed.pending import Key

MAC = "dvr_mac"
Touch = Callable[[Collection[str], str, str], None]  # hosts, kind, id


class DvrWorld:
    """Every host that has such a MAC hears of those of all others, and of its own."""

    def __init__(self, touch: Touch) -> None:
        self._touch = touch
        self._agents: dict[str, DvrMac] = {}
        self._items: dict[str, Item] = {}  # by host

    def lookup(self, host: str, key: str) -> Item | None:
        return self._items.get(key) if host in self._items else None

    def keys(self, host: str) -> Iterator[Key]:
        for name in self._items if host in self._items else ():
            yield MAC, name

    def put_mac(self, agent_id: str, mac: DvrMac | None) -> None:
        """By the agent's id."""
        before = self._agents.get(agent_id)
        if before == mac:
            return
        if before is not None:
            del self._agents[agent_id]
            self._set(before.id, None)
        if mac is not None:
            self._agents[agent_id] = mac
            self._set(mac.id, mac)

    def _set(self, host: str, mac: DvrMac | None) -> None:
        concerned = {*self._items, host}
        if mac is None:
            self._items.pop(host, None)
        else:
            self._items[host] = Item(MAC, mac)
        self._touch(concerned, MAC, host)
        for other in self._items.keys() - {host}:
            self._touch([host], MAC, other)
