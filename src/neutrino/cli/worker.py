"""What each process of `neutrino server` loads: the application, after the signals are set right for a worker."""

from __future__ import annotations

import os

from neutrino.cli import image
from neutrino.cli.server import worker_signals

worker_signals()  # here as well, for a Python that starts its processes without a fork
application = image.application([name for name in os.environ["NEUTRINO_CONFIG_FILES"].split(":") if name])

__all__ = ["application"]
