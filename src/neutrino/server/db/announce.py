"""Telling the feed of commits, where PostgreSQL can: soon after them, and of many at once.

A NOTIFY inside the writing transaction makes every commit wait for the one before it, the disk included. So whoever wrote
tells afterwards, from a thread and a connection of its own, and one NOTIFY stands for all commits since the last. One
that is lost costs a second: the feed looks by itself that often.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

import sqlalchemy as sa

CHANGED: Final = "neutrino_changes"  # the channel
GATHER_SECONDS = 0.002  # commits within this time of another are told together
RETRY_SECONDS = 1.0


class Announcer:
    """Safe for threads and for a fork: a process has its thread when it first has something to tell."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._stop = threading.Event()
        self._pid = 0

    def tell(self) -> None:
        """There is something new; returns at once."""
        if self._pid != os.getpid():
            self._start()
        self._some.set()

    def close(self) -> None:
        self._stop.set()
        self._some.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._some, self._stop = threading.Event(), threading.Event()
            work = threading.Thread(target=self._run, args=(self._some, self._stop), daemon=True, name="announce")
            work.start()
            self._pid = os.getpid()

    def _run(self, some: threading.Event, stop: threading.Event) -> None:
        import psycopg

        while not stop.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    connection.execute("SET synchronous_commit = off")  # nothing is lost with a notification
                    self._tell_on(connection, some, stop)
            except (psycopg.Error, OSError):  # who writes finds the same, and says so
                stop.wait(RETRY_SECONDS)
                some.set()

    def _tell_on(self, connection: Any, some: threading.Event, stop: threading.Event) -> None:
        while True:
            some.wait()
            some.clear()
            if stop.is_set():
                return
            connection.execute(f"NOTIFY {CHANGED}")
            time.sleep(GATHER_SECONDS)
