"""Servers that tests can ask for: each is started when the first test needs it, once per run.

Each process that runs tests has network and mount namespaces of its own (`tests/support/isolation.py`).
"""

import fcntl
import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.order import Recorder, known_durations, ordered, unit_of_work
from tests.support.browser import Browser
from tests.support.databases import create_schema
from tests.support.isolation import isolate, link_to_hub
from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ
from tests.support.shared_servers import Server, SharedServers, shared_server

TEMPLATE = "template_of_tests"
SHARED = pytest.StashKey[SharedServers]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", type=Path, metavar="FILE", help="write the seconds of each test file")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, which all programs of the tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    isolated = isolate()
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        if "hub" in worker:
            link_to_hub(worker["hub"], worker["number"])
        return
    if isolated and getattr(config.option, "numprocesses", None):  # it hands the tests to workers
        config.stash[SHARED] = SharedServers()
    if path := config.getoption("--record-durations"):
        config.pluginmanager.register(Recorder(path))


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash:
        config.stash[SHARED].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the shared servers are."""
    if SHARED in node.config.stash:
        node.workerinput["hub"] = os.getpid()
        node.workerinput["number"] = int(node.gateway.id.removeprefix("gw"))
        node.workerinput["servers"] = node.config.stash[SHARED].address


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collections; later ones need not visit modules and tests either, as they stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = ordered(items, known_durations())


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def running(kind: type[Server], request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server that all workers share, or one of this process."""
    worker = getattr(request.config, "workerinput", {})
    if "servers" in worker:
        yield shared_server(worker["servers"], kind)
    else:
        with kind() as server:
            yield server


def create_template(server: Postgres | MariaDB) -> str:
    """The name of a database with the schema, to be copied; the first worker that needs it creates it."""
    with (server.directory / "template.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = server.directory / "template.done"
        if not done.exists():
            create_schema(server.create_database(TEMPLATE))
            done.touch()
    return TEMPLATE


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    yield from running(Postgres, request)


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDB]:
    yield from running(MariaDB, request)


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    return create_template(postgres)


@pytest.fixture(scope="session")
def mariadb_template(mariadb: MariaDB) -> str:
    return create_template(mariadb)


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest) -> Iterator[RabbitMQ]:
    yield from running(RabbitMQ, request)


@pytest.fixture(scope="session")
def keystone(request: pytest.FixtureRequest) -> Iterator[Keystone]:
    for server in running(Keystone, request):
        server.region += f"-{getattr(request.config, 'workerinput', {}).get('workerid', 'own')}"
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started
