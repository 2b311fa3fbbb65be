"""What figures depend on, beside the code."""

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
    """How many processes wanted a processor in the last minute."""
    return float(Path("/proc/loadavg").read_text().split()[0])
