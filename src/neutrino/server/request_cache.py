"""A value that one request reads twice, kept between the two reads.

Authorization loads an object, and the plugin needs it again a moment later: the second query is saved. The value can be
taken once, by the thread that put it, within a second. A change in between is detected by the conditions of the write, as
for every other value that was read before the transaction.
"""

import threading
import time
from typing import Any, Generic, TypeVar

T = TypeVar("T")
SECONDS = 1.0


class RequestCache(Generic[T]):
    def __init__(self) -> None:
        self._thread = threading.local()

    def put(self, key: Any, value: T) -> None:
        self._thread.kept = (key, value, time.monotonic())

    def take(self, key: Any) -> T | None:
        kept = getattr(self._thread, "kept", None)
        self._thread.kept = None
        if kept is None or kept[0] != key or time.monotonic() - kept[2] > SECONDS:
            return None
        value: T = kept[1]
        return value
