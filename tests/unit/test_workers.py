"""The supervisor of API workers: which ends of workers count as deaths, and what runs when they are replaced."""

from __future__ import annotations

import os
import time
from typing import Any

from neutrino.cli.workers import MAX_DEATHS, Respawns, Successors, Supervisor


def respawn(record: Respawns, worker: int, *, died: bool) -> bool:
    """Do what granian does; tells whether it would stop at a further death of the worker."""
    if died:
        record.get(worker, 0)
    record.clear()
    record[worker] = time.monotonic()
    is_loop = record.get(worker, 0) > 0
    record.clear()
    return is_loop


def test_many_deaths_are_a_crash_loop() -> None:
    record = Respawns()
    assert [respawn(record, 0, died=True) for _ in range(MAX_DEATHS)] == [False] * (MAX_DEATHS - 1) + [True]
    assert record.deaths == MAX_DEATHS


def test_replaced_workers_have_not_died() -> None:
    record = Respawns()
    respawned: list[int] = []
    record.before_respawn = lambda: respawned.append(1)
    for worker in range(MAX_DEATHS):
        record[worker] = time.monotonic()
    assert (record.deaths, len(respawned)) == (0, MAX_DEATHS)
    assert not respawn(record, 0, died=True)
    assert record.deaths == 1


def test_a_worker_that_is_replaced_waits_for_the_new_one() -> None:
    successors = Successors()
    assert not successors.is_awaited, "the server ends"
    record = Respawns(successors.begin)
    respawn(record, 7, died=True)
    assert not successors.is_awaited, "nobody waits for the successor of a dead one"
    for worker in (0, 1):
        record[worker] = time.monotonic()
        assert successors.is_awaited
        pid = os.fork()
        if pid == 0:
            successors.serves()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert not successors.is_awaited


def test_hooks_run_after_a_hangup_only() -> None:
    supervisor: Any = Supervisor("neutrino.cli.workers:application", interface="wsgi")
    called: list[str] = []
    supervisor.on_reload(lambda: called.append("hook"))
    supervisor.replace_workers()
    for hook in supervisor.hooks_reload:
        hook()
    assert called == []
    supervisor.signal_handler_reload()
    for _ in range(2):  # the second without a signal
        for hook in supervisor.hooks_reload:
            hook()
    assert called == ["hook"]
