"""The supervisor of API workers: which ends of workers count as deaths."""

from __future__ import annotations

from typing import Any

import pytest
from granian.server import Server as Granian

from neutrino.cli.workers import MAX_DEATHS, Supervisor


def supervisor(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Without processes: granian only notes which workers it has replaced."""

    def respawn(self: Any, workers: list[int], *more: Any) -> None:
        self.respawned_wrks.update(dict.fromkeys(workers, 1.0))

    def reload(self: Any, *more: Any) -> None:
        self._respawn_workers(list(range(4)), *more)

    monkeypatch.setattr(Granian, "_respawn_workers", respawn)
    monkeypatch.setattr(Granian, "_reload", reload)
    made = Supervisor.__new__(Supervisor)
    made.__dict__.update(respawned_wrks={}, hooks_reload=[])
    return made


def test_many_deaths_are_a_crash_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made = supervisor(monkeypatch)
    for _ in range(MAX_DEATHS - 1):
        made._respawn_workers([0], None, None)
        assert not made.respawned_wrks  # by which granian detects a loop
    made._respawn_workers([0], None, None)
    assert made.respawned_wrks
    assert made.deaths == MAX_DEATHS


def test_replaced_workers_have_not_died(monkeypatch: pytest.MonkeyPatch) -> None:
    made = supervisor(monkeypatch)
    for _ in range(MAX_DEATHS):
        made._reload(None, None)
        assert not made.respawned_wrks
    made._respawn_workers([0], None, None)  # one that has died
    assert not made.respawned_wrks
    assert made.deaths == 1
