"""A lock for work in threads that outlives the caller: a cancelled caller leaves, its thread runs on and keeps the lock."""

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ThreadLock:
    """`async with lock:` and inside it `await lock.run(function, …)`, one function at a time.

    With asyncio.Lock and asyncio.to_thread the next holder of the lock would run beside the thread of one that timed out.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._running: asyncio.Future[Any] | None = None

    async def __aenter__(self) -> Self:
        await self._lock.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        running, self._running = self._running, None
        if running is None or running.done():
            self._lock.release()
        else:
            running.add_done_callback(lambda _: self._lock.release())

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a function that runs in a thread. The caller has to hold the lock."""
        call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
        running: asyncio.Future[R] = asyncio.get_running_loop().run_in_executor(None, call)
        # A cancelled caller does not retrieve the exception, and asyncio would log it as never retrieved.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._running = running
        return await asyncio.shield(running)
