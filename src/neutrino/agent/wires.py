"""Which ports are wired on this host: the L2 role says so, and who must not speak into the void waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Wires:
    """Of one event loop."""

    def __init__(self) -> None:
        self._ports: frozenset[str] = frozenset()
        self._news = asyncio.Event()

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
