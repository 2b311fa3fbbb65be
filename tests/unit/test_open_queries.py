"""Open queries of a feed process: how many a host may have."""

from __future__ import annotations

from typing import Any

from neutrino.feed.messages import Query
from neutrino.server.hosts.queries import MAX_KEPT, OpenQueries


def query(name: str, seconds: float = 5.0) -> tuple[str, Query]:
    return "h1", Query(id=name, kind="trace", seconds=seconds)


def test_expired_queries_leave_room_for_new_ones() -> None:
    now = 100.0
    database: Any = None  # only `read`, `take_answer` and `sweep` use it
    queries = OpenQueries(database, timer=lambda: now)
    queries.add(query(f"old{number}") for number in range(MAX_KEPT + 1))
    assert len(queries.of("h1")) == MAX_KEPT
    now = 106.0
    queries.add([query("new")])
    assert [found.id for found in queries.of("h1")] == ["new"]
