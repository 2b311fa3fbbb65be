"""What the same request has just asked, in the same thread: so that it need not ask the database twice.

The pipeline looks at an object to decide whether a request may go on, and the plugin needs it again a moment later. A
value is taken once, by the thread that put it there, and not when it is older than a second; what has changed in that
moment is found by the conditions of the write, as with anything that was read before it.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Generic, TypeVar

T = TypeVar("T")
SECONDS = 1.0


class Just(Generic[T]):
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
