"""Statistics of measured times, and the loops that measure: sequential, or several clients concurrently."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from qa.bench.client import Client, LoadError, Reply, Target

Item = TypeVar("Item")
Figures = dict[str, Any]


def figures(millis: Iterable[float], wall: float | None = None) -> Figures:
    """Median, 95th percentile, mean, worst and rate. `wall` is in seconds; without it the times are added up."""
    ordered = sorted(millis)
    count = len(ordered)
    if not count:
        raise LoadError("nothing was measured")
    seconds = sum(ordered) / 1000 if wall is None else wall
    return {
        "n": count,
        "p50_ms": round(ordered[count // 2], 3),
        "p95_ms": round(ordered[min(count - 1, int(count * 0.95))], 3),
        "mean_ms": round(statistics.fmean(ordered), 3),
        "max_ms": round(ordered[-1], 3),
        "per_s": round(count / seconds, 2),
    }


def one_by_one(items: Iterable[Item], ask: Callable[[Item], Reply]) -> tuple[Figures, list[Reply]]:
    """Send one request per item, sequentially."""
    replies = [ask(item) for item in items]
    return figures(reply.millis for reply in replies), replies


def repeated(client: Client, path: str, times: int, expect: int | None = None, at_least: int = 0) -> Figures:
    """Request a list repeatedly. The last response must have the expected number of items."""
    millis = []
    for _ in range(times):
        reply = client.get(path)
        millis.append(reply.millis)
    found = len(reply.items())
    if found < at_least or (expect is not None and found != expect):
        raise LoadError(f"GET {path}: {found} items instead of {expect or at_least}")
    return {**figures(millis), "items": found, "bytes": len(reply.content)}


def at_once(
    target: Target, shares: Sequence[Sequence[Item]], ask: Callable[[Client, Item], Reply]
) -> tuple[Figures, list[Reply]]:
    """One client per share, concurrently. The first error of any client is raised."""
    lock = threading.Lock()
    replies: list[Reply] = []
    errors: list[LoadError] = []

    def work(share: Sequence[Item]) -> None:
        client = Client(target)
        try:
            for item in share:
                reply = ask(client, item)
                with lock:
                    replies.append(reply)
        except LoadError as error:
            with lock:
                errors.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(share,), daemon=True) for share in shares]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - started
    if errors:
        raise errors[0]
    return {**figures((reply.millis for reply in replies), wall), "clients": len(shares)}, replies


def dealt(items: Sequence[Item], hands: int) -> list[Sequence[Item]]:
    """The items in even shares, without empty ones."""
    return [items[hand::hands] for hand in range(min(hands, len(items)))]
