"""Caches that the agent empties: a result is computed again afterwards, and the agent's own loop does it."""

import asyncio
import functools
import gc
import importlib
import inspect
import pkgutil

import pytest

import neutrino.agent
import neutrino.dataplane
from neutrino import caches
from neutrino.agent.runtime import loop
from neutrino.caches import cached


def test_a_cleared_cache_computes_again() -> None:
    asked: list[int] = []

    @cached(maxsize=10)
    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    assert [double(1), double(1)] == [2, 2]
    assert asked == [1]
    caches.clear()
    assert double(1) == 2
    assert asked == [1, 1]


def test_the_agent_clears_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        cleared = asyncio.Event()
        monkeypatch.setattr(loop, "CACHE_SECONDS", 0.0)
        monkeypatch.setattr(caches, "clear", cleared.set)
        task = asyncio.create_task(loop._clear_caches())
        await asyncio.wait_for(cleared.wait(), 30)
        task.cancel()

    asyncio.run(test())


def test_large_caches_of_the_agent_are_cleared() -> None:
    """One of `lru_cache` alone would keep thousands of results of deleted objects."""
    for package in (neutrino.agent, neutrino.dataplane):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    kept = {id(each.__self__) for each in caches._CLEAR}
    gc.unfreeze()  # what tests/conftest.py hides from the collector, and so from get_objects
    assert kept & {id(each) for each in gc.get_objects()}
    alone = [
        f"{each.__module__}.{each.__qualname__}"
        for each in gc.get_objects()
        if type(each) is functools._lru_cache_wrapper  # isinstance would ask what a weak proxy stands for
        and (each.__module__ or "").startswith(("neutrino.agent", "neutrino.dataplane"))
        and inspect.signature(each.__wrapped__).parameters  # else it keeps one result
        and id(each) not in kept
    ]
    assert alone == []
