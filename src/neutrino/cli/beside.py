"""A process beside the API: forked, as the workers are, from the process that has loaded the code, so that it shares its
memory and starts at once; started again when it ends; ended with the server, also where the server is killed.

It is forked from this process's main thread at first and from the thread that watches over it later. That thread lives
as long as the child does, for the kernel takes the end of the forking thread for the end of the parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from neutrino.cli.failures import report

LOG = logging.getLogger(__name__)
PR_SET_PDEATHSIG: Final = 1
FIRST_DELAY, LONGEST_DELAY = 0.2, 10.0  # seconds before it is started again
STEADY_SECONDS = 30.0  # one that ran so long had no trouble starting
STOP_SECONDS = 8.0
Work = Callable[[], int]


class Beside:
    """`with Beside("feed", work):` runs `work` in a process of its own until the end of the block."""

    def __init__(self, name: str, work: Work) -> None:
        self._name = name
        self._work = work
        self._stop = threading.Event()
        self._anew = threading.Event()  # it ended because it was asked to begin anew

    def __enter__(self) -> Beside:
        self._child = _Child(_fork(self._name, self._work))
        self._watching = threading.Thread(target=self._watch, daemon=True, name=self._name)
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._child.end()
        self._watching.join(STOP_SECONDS)

    def restart(self) -> None:
        """Let it begin anew, with the configuration as it is now."""
        self._anew.set()
        self._child.end()

    def _watch(self) -> None:
        delay = FIRST_DELAY
        while True:
            started = time.monotonic()
            status = self._child.wait()
            if self._stop.is_set():
                return
            if self._anew.is_set():
                self._anew.clear()
            else:
                delay = FIRST_DELAY if time.monotonic() - started > STEADY_SECONDS else min(2 * delay, LONGEST_DELAY)
                LOG.error("the %s ended with %s; it is started again in %.1f s", self._name, status, delay)
                if self._stop.wait(delay):
                    return
            self._child = _Child(_fork(self._name, self._work))
            if self._stop.is_set():  # told while it started
                self._child.end()


class _Child:
    """A child process. One thread waits for it; nobody signals a number that may be another's by now."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._reaping = threading.Lock()
        self._ended = threading.Event()

    def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            _, status = os.waitpid(self._pid, 0)
            self._ended.set()
        return os.waitstatus_to_exitcode(status)

    def end(self) -> None:
        """Ask it to end, and wait; end it if it does not."""
        self._signal(signal.SIGTERM)
        if not self._ended.wait(STOP_SECONDS):
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with self._reaping:
            if not self._ended.is_set():
                os.kill(self._pid, number)


def _fork(name: str, work: Work) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    # A SIGTERM for the child waits until the child has done with the handlers of its parent.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(name, work, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_child(name: str, work: Work, parent: int) -> NoReturn:
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        os.setsid()  # Ctrl-C at the terminal is for the server, which then ends this one
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        # Another thread may have been writing when this process was made, and its lock would never be given back.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        _set_title(name)
        status = work()
    except Exception as error:
        status = report(error)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _set_title(name: str) -> None:
    with contextlib.suppress(ImportError):  # comes with granian where it can be had
        import setproctitle

        setproctitle.setproctitle(f"neutrino-server {name}")
