"""Servers that tests can ask for: each is started when the first test needs it, once per run.

Each process that runs tests has network and mount namespaces of its own (`tests/support/isolation.py`).
"""

import gc
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.order import Recorder, known_durations, ordered
from tests.support.browser import Browser
from tests.support.isolation import isolate
from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ
from tests.support.shared_servers import Server, shared_server
from tests.workers import WORKER

# With Python's own 700, a tenth of the time of a module with many servers went into collections: each server and each
# statement that is compiled is many objects, which stay.
GARBAGE = (10_000, 10, 10)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", type=Path, metavar="FILE", help="write the seconds of each test file")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, which all programs of the tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("--workers", default=0):  # workers are isolated one by one
        isolate()
    if path := config.getoption("--record-durations"):
        config.pluginmanager.register(Recorder(path))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collections; later ones need not visit modules and tests either, as they stay, and are seldom."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = ordered(items, known_durations())


def running(kind: type[Server], request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server that all workers share, or one of this process."""
    worker = request.config.stash.get(WORKER, None)
    if worker is not None and worker.servers:
        yield shared_server(worker.servers, kind)
    else:
        with kind() as server:
            yield server


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    yield from running(Postgres, request)


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDB]:
    yield from running(MariaDB, request)


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest) -> Iterator[RabbitMQ]:
    yield from running(RabbitMQ, request)


@pytest.fixture(scope="session")
def keystone(request: pytest.FixtureRequest) -> Iterator[Keystone]:
    for server in running(Keystone, request):
        worker = request.config.stash.get(WORKER, None)
        server.region += f"-{worker.number if worker is not None else 'own'}"
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started
