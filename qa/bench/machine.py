"""The machine: CPU, memory, versions, load."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    return {
        "processors": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def busy() -> float:
    """The load average of the last minute."""
    return float(Path("/proc/loadavg").read_text().split()[0])
