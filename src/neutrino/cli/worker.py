"""What each process of `neutrino server` loads: the application, after the signals are set right for a worker."""

from __future__ import annotations

from neutrino.cli.server import worker_signals

worker_signals()  # here as well, for a Python that starts its processes without a fork

from neutrino.server.wsgi import application  # noqa: E402

__all__ = ["application"]
