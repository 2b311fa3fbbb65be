"""Wakes the feed after commits on PostgreSQL, with one NOTIFY for many commits.

A NOTIFY inside the writing transaction serializes all commits, including their disk writes: PostgreSQL takes a global lock.
So the writer's process sends it afterwards, from a thread with its own connection. A lost NOTIFY delays the feed by a
second: it polls that often.
"""

import os
import threading
import time
from typing import Final

import sqlalchemy as sa

from neutrino.server.db.connection_options import psycopg_arguments

CHANNEL: Final = "neutrino_changes"
GATHER_SECONDS = 0.01  # commits within this time share a NOTIFY
RETRY_SECONDS = 1.0


class CommitNotifier:
    """Thread-safe and fork-safe: a process starts its thread with its first notification."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._committed = threading.Event()
        self._stop = threading.Event()
        self._pid = 0

    def notify(self) -> None:
        """There was a commit; returns at once."""
        if self._pid != os.getpid():
            self._start()
        self._committed.set()

    def close(self) -> None:
        self._stop.set()
        self._committed.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            # New events: a forked child shares no thread with its parent, and must not wait for the parent's events.
            self._committed, self._stop = threading.Event(), threading.Event()
            threading.Thread(target=self._run, daemon=True, name="commit-notifier").start()
            self._pid = os.getpid()

    def _run(self) -> None:
        import psycopg

        committed, stop = self._committed, self._stop
        while not stop.is_set():
            try:
                with psycopg.connect(**psycopg_arguments(self._url), autocommit=True) as connection:
                    connection.execute("SET synchronous_commit = off")  # a lost notification is harmless
                    while committed.wait() and not stop.is_set():
                        committed.clear()
                        connection.execute(f"NOTIFY {CHANNEL}")
                        time.sleep(GATHER_SECONDS)
            except (psycopg.Error, OSError):  # not logged: writers get the same error and report it
                stop.wait(RETRY_SECONDS)
                committed.set()
