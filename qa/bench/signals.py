"""Signals of a benchmark that has started a lab."""

from __future__ import annotations

import signal
import sys


def unwind_if_terminated() -> None:
    """End by SIGTERM, as `timeout` sends it, as by Ctrl-C: the lab's processes and namespaces are removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
