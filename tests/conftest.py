"""Servers that tests can ask for: each is started when the first test needs it, once per session.

Each process that runs tests has network and mount namespaces of its own (`tests/support/isolation.py`).
"""

import gc
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.order import ordered, unit_of_work
from tests.support.browser import Browser
from tests.support.databases import create_schema
from tests.support.isolation import isolate
from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, which all programs of the tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hands_tests_to_workers = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if not hands_tests_to_workers:  # a worker leaves the machine's namespaces itself, and has to know the way back
        isolate()


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
    items[:] = ordered(items, Path(__file__).parent)


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    """The name of a database with the schema, to be copied."""
    create_schema(postgres.create_database("template_of_tests"))
    return "template_of_tests"


@pytest.fixture(scope="session")
def mariadb_template(mariadb: MariaDB) -> str:
    create_schema(mariadb.create_database("template_of_tests"))
    return "template_of_tests"


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    with Keystone() as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started
