"""Runs tests in several processes: `pytest -p tests.workers --workers 6`. Tests are collected once, then workers forked.

A worker takes unit after unit (`tests/order.py`), and sends its reports to the first process, which shows and records them
as if it had run the tests. It asks for the next unit when it begins the last test of one: pytest has to know the test that
follows, to tear down the fixtures that this one does not need.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn
from warnings import WarningMessage

import pytest

from tests.order import unit_of_work
from tests.support.isolation import isolate, link_to_hub
from tests.support.shared_servers import SharedServers

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself; `servers` is the address of the shared servers, empty without namespaces."""

    number: int
    servers: str


WORKER = pytest.StashKey[WorkerInfo]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N processes")


def pytest_configure(config: pytest.Config) -> None:
    if count := config.getoption("--workers"):
        config.pluginmanager.register(Workers(count, isolated=isolate()))


@dataclass
class _Worker:
    """A worker as the first process sees it: the numbers of the tests that it runs now, and of those that it has taken."""

    pid: int
    connection: Connection
    running: int | None = None
    taken: deque[int] = field(default_factory=deque)


class Workers:
    """The plugin of the first process."""

    def __init__(self, count: int, *, isolated: bool) -> None:
        self._count = count
        self._servers = SharedServers() if isolated else None
        self._hub = os.getpid()
        self._forked = 0
        self._workers: list[_Worker] = []
        self._units: deque[list[int]] = deque()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # as pytest does without workers
        numbered = groupby(enumerate(session.items), key=lambda pair: unit_of_work(pair[1].nodeid))
        self._units.extend([number for number, _ in pairs] for _, pairs in numbered)
        try:
            for _ in range(min(self._count, len(self._units))):
                self._fork(session, [])
            while self._workers:
                self._handle(session)
        finally:
            for worker in self._workers:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
        return True

    def pytest_unconfigure(self) -> None:
        if self._servers is not None:
            self._servers.close()

    def _fork(self, session: pytest.Session, tests: Iterable[int]) -> None:
        own, its = Pipe()
        number, self._forked = self._forked, self._forked + 1
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            own.close()
            for other in self._workers:
                other.connection.close()
            _work(session, its, WorkerInfo(number, self._servers.address if self._servers else ""), self._hub)
        its.close()
        worker = _Worker(pid, own, taken=deque(tests))
        self._workers.append(worker)

    def _handle(self, session: pytest.Session) -> None:
        hook = session.config.hook
        ready = wait([worker.connection for worker in self._workers])
        for worker in [worker for worker in self._workers if worker.connection in ready]:
            try:
                kind, value = worker.connection.recv()
            except EOFError:
                self._ended(session, worker)
                continue
            if kind == "next":
                if not worker.taken and self._units:
                    worker.taken.extend(self._units.popleft())
                worker.connection.send([*worker.taken])
            elif kind == "start":
                worker.running = worker.taken.popleft()
            elif kind == "warning":
                hook.pytest_warning_recorded.call_historic(kwargs=value)
            else:
                self._report(session, hook.pytest_report_from_serializable(config=session.config, data=value))

    def _ended(self, session: pytest.Session, worker: _Worker) -> None:
        """A worker that has ended regularly has no test left; another takes over from one that has crashed."""
        self._workers.remove(worker)
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        if not status:
            return
        if worker.running is not None:
            item = session.items[worker.running]
            text = f"the worker ended with {os.waitstatus_to_exitcode(status)} during this test"
            self._report(session, pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
        if worker.taken or self._units:
            self._fork(session, worker.taken)

    def _report(self, session: pytest.Session, report: pytest.TestReport) -> None:
        session.config.hook.pytest_runtest_logreport(report=report)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)


class _Reporting:
    """The plugin of a worker, in place of the terminal."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection
        self.active = False  # pytest tells a new plugin of earlier warnings, which are not of this worker

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data: dict[str, Any] = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        if not self.active:
            return
        text, category = str(warning_message.message), warning_message.category
        copy = WarningMessage(text, category, warning_message.filename, warning_message.lineno)  # which can be pickled
        self._connection.send(
            ("warning", {"warning_message": copy, "when": when, "nodeid": nodeid, "location": location})
        )


def _work(session: pytest.Session, connection: Connection, worker: WorkerInfo, hub: int) -> NoReturn:
    """Run tests until there are none, then end this process."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        config = session.config
        config.stash[WORKER] = worker
        config.pluginmanager.unregister(name="terminalreporter")
        reporting = _Reporting(config, connection)
        config.pluginmanager.register(reporting)
        reporting.active = True
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:  # its files are those of the first process
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        if isolate() and worker.servers:
            link_to_hub(hub, worker.number)
        tests = _next_unit(connection)
        while tests:
            item = session.items[tests.popleft()]
            connection.send(("start", None))
            tests = tests or _next_unit(connection)
            config.hook.pytest_runtest_protocol(item=item, nextitem=session.items[tests[0]] if tests else None)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _next_unit(connection: Connection) -> deque[int]:
    connection.send(("next", None))
    return deque(connection.recv())
