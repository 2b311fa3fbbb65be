"""Logs of all processes: oslo.log with its options (text or JSON; file, syslog, journal), and the request id in each line.

oslo.log shows a context in its formats (`logging_context_format_string`) and in JSON (`context`). Its own contexts are kept
per thread, and agents work in asyncio tasks: here a log record gets the request id of its thread or task.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg
from oslo_log import log

from neutrino import request_ids


class ContextRecord(logging.LogRecord):
    """A log record with the request that the current thread or task works for, and its caller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        request_id = request_ids.get()
        # Empty without a request: oslo.log would take the context that a library has left in this thread.
        self.context = {"request_id": request_id, **request_ids.CALLER.get()} if request_id else {}


def setup(conf: cfg.ConfigOpts) -> None:
    """Set up the logs of this process by the options of oslo.log."""
    log.setup(conf, "neutrino")
    logging.setLogRecordFactory(ContextRecord)


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the operator has chosen where logs go, or their form; else a supervising process logs to standard error."""
    names = ("log_file", "log_dir", "use_json", "use_syslog", "use_journal", "log_config_append")
    return any(getattr(conf, name) for name in names)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without log lines, in commands that print what these state in another form."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
