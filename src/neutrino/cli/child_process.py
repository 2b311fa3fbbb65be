"""A child process of the server's supervisor, such as the feed: forked from the process that has loaded the code, so that
it shares memory and starts fast; respawned when it ends; ended with the server, even if the server is killed.

It is forked by the main thread at first, and by the watching thread later. That thread must live as long as the child, as
PR_SET_PDEATHSIG signals the child when the thread that forked it ends.
"""

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
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Final, NoReturn, Self

from neutrino.cli.errors import report

LOG = logging.getLogger(__name__)
PR_SET_PDEATHSIG: Final = 1
MIN_BACKOFF, MAX_BACKOFF = 0.2, 10.0  # seconds before a respawn
STABLE_SECONDS = 30.0  # a child that ran this long resets the back-off
STOP_SECONDS = 8.0
Work = Callable[[], int | None]  # returns the exit status if it is not 0


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


@dataclass(eq=False)
class ChildProcess:
    """`with ChildProcess("feed", work):` runs `work` in a child process until the end of the block."""

    name: str
    work: Work

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._restart = threading.Event()  # set: the next end of the child is not a failure

    def __enter__(self) -> Self:
        self._child = self._start()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name=self.name)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._end()
        self._watcher.join(STOP_SECONDS)

    def restart(self) -> None:
        """Restart the child, with the configuration that is loaded now."""
        self._restart.set()
        self._end()

    def _watch(self) -> None:
        backoff = MIN_BACKOFF
        while True:
            started = time.monotonic()
            self._child.join()
            if self._stop.is_set():
                return
            if self._restart.is_set():
                self._restart.clear()
            else:
                ran, status = time.monotonic() - started, self._child.exitcode
                backoff = MIN_BACKOFF if ran > STABLE_SECONDS else min(2 * backoff, MAX_BACKOFF)
                LOG.error("the %s process ended with status %s; respawning in %.1f s", self.name, status, backoff)
                if self._stop.wait(backoff):
                    return
            self._child = self._start()
            if self._stop.is_set():  # set during the fork: __exit__ has ended the previous child only
                self._end()

    def _start(self) -> ForkProcess:
        # Until the child has reset it, the parent's (granian's) handler would run in the child, and SIGTERM would be lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            child = ForkProcess(target=_run_child, args=(self.name, self.work, os.getpid()))
            child.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child

    def _end(self) -> None:
        """Send SIGTERM and wait; SIGKILL after a timeout. The watching thread reaps the child."""
        child = self._child
        for send in (child.terminate, child.kill):
            send()
            if wait([child.sentinel], STOP_SECONDS):
                return


def _run_child(name: str, work: Work, parent: int) -> NoReturn:
    status = 1
    try:
        end_with_parent()
        if os.getppid() != parent:  # it ended before prctl
            os._exit(0)
        os.setsid()  # Ctrl-C at the terminal signals the server only, which then ends this process
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a reload: the supervisor restarts this process itself
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        # New stream objects: at the fork another thread may have held the lock of the old ones, which stays locked here.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        with contextlib.suppress(ImportError):  # an optional dependency of granian
            import setproctitle

            setproctitle.setproctitle(f"neutrino-server {name}")
        status = work() or 0
    except Exception as error:
        status = report(error)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # without the parent's atexit handlers and threads
