"""The module that each granian worker loads: the WSGI application, and signal handling around granian's.

Granian misses a SIGTERM that arrives between setting its handler and serving; the worker would run until it is killed. So
a thread receives SIGTERM, and calls granian's handler repeatedly until the worker ends.
"""

import os
import signal
import threading
import time

from neutrino.cli import prefork
from neutrino.cli.server import set_worker_signals

POLL_SECONDS = 0.05
REPEAT_SECONDS = 0.2


def _forward_sigterm() -> None:
    while not callable(handler := signal.getsignal(signal.SIGTERM)):
        if signal.sigtimedwait({signal.SIGTERM}, POLL_SECONDS) is not None:
            os._exit(0)  # granian has no handler yet, so no request is being served
    signal.sigwait({signal.SIGTERM})
    while True:  # until the process ends
        handler(signal.SIGTERM, None)
        time.sleep(REPEAT_SECONDS)


set_worker_signals()  # again, for a Python whose multiprocessing does not fork
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all later threads too: only the one below receives it
threading.Thread(target=_forward_sigterm, name="SIGTERM", daemon=True).start()
application = prefork.application([name for name in os.environ["NEUTRINO_CONFIG_FILES"].split(":") if name])
