"""The work queue: deduplication, priorities, back-off, one worker per key."""

from __future__ import annotations

import asyncio

import pytest

from neutrino.agent.runtime.queue import WorkQueue


def run(coroutine: object) -> object:
    return asyncio.run(coroutine)  # type: ignore[arg-type]


def test_a_key_put_twice_is_taken_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.put("a")
        queue.put("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(scenario())


def test_lower_priority_numbers_first_and_equals_in_their_order() -> None:
    async def scenario() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for key, priority in (("late", 10), ("later", 10), ("urgent", 1), ("later", 5)):
            queue.put(key, priority)
        return [await queue.get() for _ in range(3)]

    assert run(scenario()) == ["urgent", "later", "late"]


def test_a_key_put_while_a_worker_has_it_is_taken_once_more() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.put("a")
        assert await queue.get() == "a"
        for _ in range(1000):
            queue.put("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.02)  # a key has one worker at a time
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(scenario())


def test_back_off_doubles_up_to_a_bound_and_is_reset_by_success() -> None:
    async def scenario() -> list[float]:
        queue: WorkQueue[str] = WorkQueue(first_delay=0.001, longest_delay=0.004)
        delays = []
        queue.put("a")
        for _ in range(4):
            delays.append(queue.failed(await queue.get()))
        queue.done(await queue.get())
        queue.put("a")
        delays.append(queue.failed(await queue.get()))
        return delays

    assert run(scenario()) == [0.001, 0.002, 0.004, 0.004, 0.001]


def test_a_failed_key_that_is_put_again_is_tried_at_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(first_delay=1000, longest_delay=1000)
        queue.put("a")
        queue.failed(await queue.get())
        queue.put("a")
        assert await asyncio.wait_for(queue.get(), 30) == "a"

    run(scenario())


def test_waiters_are_woken_when_their_condition_holds() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(first_delay=3600)
        await asyncio.gather(queue.idle(), queue.tried(), queue.empty())  # the queue is empty
        for key in ("a", "b"):
            queue.put(key)
        first, second = await queue.get(), await queue.get()
        queue.put("c")
        idle, tried, empty = (asyncio.create_task(wait) for wait in (queue.idle(), queue.tried(), queue.empty()))

        async def woken() -> list[bool]:
            await asyncio.sleep(0)
            return [task.done() for task in (idle, tried, empty)]

        queue.done(first)
        assert await woken() == [False, False, False]
        queue.failed(second)
        assert await woken() == [True, False, False]
        queue.done(await queue.get())
        assert await woken() == [True, True, False]
        queue.put(second)
        queue.done(await queue.get())
        assert await woken() == [True, True, True]

    run(scenario())


def test_a_cancelled_waiter_is_forgotten() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.put("a")
        await queue.get()
        gone = asyncio.create_task(queue.idle())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        queue.done("a")
        await queue.idle()

    run(scenario())
