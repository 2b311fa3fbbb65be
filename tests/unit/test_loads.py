"""The counts that the schedulers balance: exact while there are few placements, kept when there are many."""

from __future__ import annotations

from neutrino.server.scheduling.loads import KEPT_SECONDS, Loads


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_few_placements_are_counted_with_each_request() -> None:
    loads = Loads(most=10)
    loads.read({"a": 4, "b": 6})
    assert loads.kept() is None


def test_the_counts_of_many_are_kept_for_some_seconds() -> None:
    clock = Clock()
    loads = Loads(most=10, clock=clock)
    assert loads.kept() is None
    loads.read({"a": 5, "b": 6})
    assert loads.kept() == {"a": 5, "b": 6}
    clock.now += KEPT_SECONDS
    assert loads.kept() is None
    loads.read({"a": 1})
    assert loads.kept() is None, "few again"


def test_what_is_placed_meanwhile_is_added() -> None:
    loads = Loads(most=10)
    loads.read({"a": 5, "b": 6})
    loads.placed(["b", "c", "c"])
    assert loads.kept() == {"a": 5, "b": 7, "c": 2}
    loads.read({"a": 50})
    assert loads.kept() == {"a": 50}, "counted again: what was added is among them"


def test_by_chance_nothing_is_counted_and_any_agent_may_be_first() -> None:
    loads = Loads(by_chance=True)
    loads.placed(["a"] * 1000)
    assert loads.kept() is not None, "counts would be read in vain"
    drawn = [loads.drawn("ab") for _ in range(100)]
    assert {min(one, key=lambda key: one[key]) for one in drawn} == {"a", "b"}
