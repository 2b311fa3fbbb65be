"""The request that the current work is for: of an API request, and on hosts of the change that caused the work.

Each thread and each asyncio task has its own. Writes put the id into the change log, log lines show it (`logs.py`).
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")  # empty: no request caused it
# The caller, as oslo.log's formats name its parts: user and project, by their ids.
CALLER: Final[ContextVar[Mapping[str, str]]] = ContextVar("caller", default=MappingProxyType({}))
# Its names, user_name and project_name, for DNS domains. Not in logs: names may be those of persons.
CALLER_NAMES: Final[ContextVar[Mapping[str, str]]] = ContextVar("caller_names", default=MappingProxyType({}))
get = CURRENT.get
