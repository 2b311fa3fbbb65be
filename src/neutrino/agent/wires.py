"""Which ports are wired on this host: the L2 role says so, and who must not speak into the void waits for it.

A port that the server has deleted is unwired at once. Who has a last word to say on one holds it, and it stays until it is
let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable


class Wires:
    """Of one event loop."""

    def __init__(self) -> None:
        self._ports: frozenset[str] = frozenset()
        self._news = asyncio.Event()
        self._holders: dict[str, str] = {}  # the port of each
        self.holders_changed: Callable[[], None] = lambda: None

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._holders.values())

    def hold(self, who: str, port_id: str) -> None:
        """One port each: it lets go of another that it held."""
        if self._holders.get(who) != port_id:
            self._holders[who] = port_id
            self.holders_changed()

    def free(self, who: str) -> None:
        if self._holders.pop(who, None) is not None:
            self.holders_changed()

    def set(self, ports: Iterable[str]) -> None:
        self._ports = frozenset(ports)
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, port_id: str, seconds: float) -> bool:
        """Until the port is wired, or so long; whether it is."""
        try:
            async with asyncio.timeout(seconds):
                while port_id not in self._ports:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
