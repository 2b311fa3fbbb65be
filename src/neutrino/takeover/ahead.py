"""Makes the next item of an iterator while the last one is used: one database is read while the other is compared."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The same items, each made in another thread while the one before is used; its errors are raised here.

    When the block ends that thread has ended too, so what it uses may be closed.
    """
    with ThreadPoolExecutor(1) as thread:
        yield _ahead(thread, items)


def _ahead(thread: ThreadPoolExecutor, items: Iterator[T]) -> Iterator[T]:
    end = object()
    following = thread.submit(next, items, end)
    while (item := following.result()) is not end:
        following = thread.submit(next, items, end)
        yield item  # type: ignore[misc]  # mypy does not see that `end` is excluded
