"""Bounds the log of a daemon. Daemons run for years, and some log by what strangers send: DHCP requests, IKE, VRRP."""

import contextlib
import os
from collections.abc import Iterable

from neutrino import daemon_files

MAX_LOG, KEPT_LOG = 1 << 20, 1 << 16  # bytes


def bound_logs(paths: Iterable[str]) -> None:
    for path in paths:
        bound_log(path)


def bound_log(path: str) -> None:
    """Cut a log that is longer than MAX_LOG to its last lines. Daemons append to it, so they go on behind them.

    Blocking. What cannot be read is left as it is.
    """
    with contextlib.suppress(OSError), daemon_files.opened(path, os.O_RDWR | os.O_APPEND) as log:
        size = os.fstat(log).st_size
        if size > MAX_LOG:
            last = os.pread(log, KEPT_LOG, size - KEPT_LOG).partition(b"\n")[2]
            os.ftruncate(log, 0)
            os.write(log, last)
