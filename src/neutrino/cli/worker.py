"""What each process of `neutrino server` loads: the application, after the signals are set right for a worker.

Granian does not hear a SIGTERM that comes after it has set its handler and before it serves: the worker would go on until
it is killed. So here a thread takes the signal, and calls the handler until it is heard.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from neutrino.cli import image
from neutrino.cli.server import worker_signals

LOOK_SECONDS = 0.05
AGAIN_SECONDS = 0.2


def take_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads that come
    threading.Thread(target=_pass_on_sigterm, name="SIGTERM", daemon=True).start()


def _pass_on_sigterm() -> None:
    while not callable(handler := signal.getsignal(signal.SIGTERM)):
        if signal.sigtimedwait({signal.SIGTERM}, LOOK_SECONDS) is not None:
            os._exit(0)  # it serves nobody yet
    signal.sigwait({signal.SIGTERM})
    while True:  # as long as the process lives
        handler(signal.SIGTERM, None)
        time.sleep(AGAIN_SECONDS)


worker_signals()  # here as well, for a Python that starts its processes without a fork
take_sigterm()
application = image.application([name for name in os.environ["NEUTRINO_CONFIG_FILES"].split(":") if name])

__all__ = ["application"]
