"""An agent that has not synced deletes nothing: what all roles' tests of that share."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neutrino.agent.runtime.queue import WorkQueue


def files_below(directory: Path) -> dict[Path, str]:
    """The contents of all files. A role may remove files and directories meanwhile: os.walk passes over a removed one."""
    found: dict[Path, str] = {}
    for parent, _, names in os.walk(directory):
        for path in (Path(parent, name) for name in names):
            if path.is_file():  # not the named pipes of daemons
                with contextlib.suppress(FileNotFoundError):
                    found[path] = path.read_text()
    return found


class Taken(list[Any]):
    """The keys that a role has taken from its queue, in order; `settled` when it has worked on all of them."""

    def __init__(self, queue: WorkQueue[Any]) -> None:
        super().__init__()
        self._queue, self._get = queue, queue.get
        queue.get = self._record  # type: ignore[method-assign]

    async def _record(self) -> Any:
        key = await self._get()
        self.append(key)
        return key

    async def settled(self, *keys: object) -> None:
        """Until these were taken and nothing is left to do: a role that requeues itself for ever never is."""
        await eventually(lambda: set(keys) <= set(self), f"{keys} were not all worked on, only {self}")
        async with asyncio.timeout(30):
            await self._queue.empty()


async def eventually(condition: Callable[[], object], what: str | Callable[[], str], seconds: float = 30.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(what() if callable(what) else what) from None
