"""`neutrino feed`: the feed by itself, and the feed as a process beside the API, started again when it ends."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

LOG = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
FIRST_DELAY, LONGEST_DELAY = 0.2, 10.0  # seconds before it is started again
STEADY_SECONDS = 30.0  # one that ran so long had no trouble starting
STOP_SECONDS = 8.0


def feed(config_files: Sequence[str], parent: int = 0) -> int:
    """`parent`: the process that must not be outlived."""
    from oslo_config import cfg

    from neutrino.server.config import RefusedToStart
    from neutrino.server.db.schema import WrongSchema
    from neutrino.server.feed.main import configuration, run
    from neutrino.server.logs import set_up

    if parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            return 0
    for name in config_files:
        if not os.path.isfile(name):
            print(f"neutrino: there is no configuration file {name}", file=sys.stderr)
            return 2
    try:
        conf = configuration(config_files)
        set_up(conf)
        run(conf)
    except (cfg.Error, RefusedToStart, WrongSchema) as error:
        print(f"neutrino: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"neutrino: the feed cannot be served: {error}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def beside(config_files: Sequence[str]) -> Iterator[None]:
    """The feed in a process of its own for as long as this lasts."""
    stop = threading.Event()
    child = [_start(config_files)]
    watching = threading.Thread(target=_watch, args=(config_files, child, stop), daemon=True, name="feed")
    watching.start()
    try:
        yield
    finally:
        stop.set()
        _end(child[0])
        watching.join(timeout=STOP_SECONDS)


def _start(config_files: Sequence[str]) -> subprocess.Popen[bytes]:
    files = [part for name in config_files for part in ("--config-file", os.path.abspath(name))]
    argv = [sys.executable, "-m", "neutrino.cli.main", "feed", "--parent", str(os.getpid()), *files]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)


def _watch(config_files: Sequence[str], child: list[subprocess.Popen[bytes]], stop: threading.Event) -> None:
    delay = FIRST_DELAY
    while True:
        started = time.monotonic()
        status = child[0].wait()
        if stop.is_set():
            return
        delay = FIRST_DELAY if time.monotonic() - started > STEADY_SECONDS else min(2 * delay, LONGEST_DELAY)
        LOG.error("the feed ended with %s; it is started again in %.1f s", status, delay)
        if stop.wait(delay):
            return
        child[0] = _start(config_files)
        if stop.is_set():  # told while it started
            _end(child[0])
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
