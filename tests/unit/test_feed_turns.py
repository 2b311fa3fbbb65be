"""Turns of hosts for their first snapshot, and other work that waits while many hosts wait for theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from neutrino.server.feed.connections.turns import Turns


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


async def started(turns: Turns, count: int) -> list[asyncio.Task[None]]:
    """So many hosts that have their turn, or wait for it."""
    last = asyncio.Event()

    async def take(number: int) -> None:
        if number == count:
            last.set()  # the others have begun before it, and it goes on until it has to wait
        await turns.take()

    tasks = [asyncio.create_task(take(number)) for number in range(1, count + 1)]
    await last.wait()
    return tasks


async def is_calm(turns: Turns) -> bool:
    try:
        async with asyncio.timeout(0):  # time for what does not wait
            return await turns.calm(seconds=3600)
    except TimeoutError:
        return False


def test_so_many_at_the_same_time() -> None:
    async def test() -> None:
        turns = Turns(2)
        first, second, third = await started(turns, 3)
        assert (first.done(), second.done(), third.done()) == (True, True, False)
        turns.end()
        await third

    run(test())


def test_other_work_waits_while_many_hosts_wait_and_not_for_a_few() -> None:
    async def test() -> None:
        turns = Turns(2)
        tasks = await started(turns, 4)  # two of which wait
        assert await is_calm(turns)
        tasks += await started(turns, 1)
        assert not await is_calm(turns)
        turns.end()
        await tasks[2]
        assert await is_calm(turns)

    run(test())


def test_other_work_waits_for_a_bounded_time() -> None:
    async def test() -> None:
        turns = Turns(1)
        await started(turns, 3)
        assert not await turns.calm(seconds=0.01)
        assert not await is_calm(turns)

    run(test())


def test_a_host_that_disconnects_while_it_waits_is_not_counted() -> None:
    async def test() -> None:
        turns = Turns(1)
        _, *waiting = await started(turns, 4)
        assert not await is_calm(turns)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert await is_calm(turns)
        turns.end()
        await turns.take()

    run(test())
