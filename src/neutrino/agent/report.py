"""The agent's word to the server: that it lives, and how its roles are."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from neutrino.agent.role import Role
from neutrino.model.agents import AgentState


class Reports(Protocol):
    def report(self, states: Sequence[AgentState], applied: int | None = None) -> None: ...


class Reporter:
    """Reports at the start, every `interval` seconds (0: never again), and when something important has changed."""

    def __init__(self, feed: Reports, interval: Callable[[], float]) -> None:
        self._feed = feed
        self.roles: Sequence[Role] = ()  # each of which may ask for a report, so they come later
        self._interval = interval
        self._now = asyncio.Event()
        self._started = False

    def soon(self) -> None:
        self._now.set()

    async def run(self) -> None:
        while True:
            self.report()
            self._now.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval() or None):
                    await self._now.wait()

    def report(self) -> None:
        states = [state for role in self.roles for state in role.describe()]
        positions = [position for role in self.roles if (position := role.applied()) is not None]
        if not self._started:
            states = [dataclasses.replace(state, start_flag=True) for state in states]
            self._started = True
        self._feed.report(states, min(positions, default=0))
