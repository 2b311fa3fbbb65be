"""The request id that the current work belongs to: of an API request, and on hosts of the change that caused the work.

Each thread and each asyncio task has its own. Writes put it into the change log, log lines show it (`logs.py`).
"""

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")  # empty: no request caused it
get = CURRENT.get
