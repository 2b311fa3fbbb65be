"""Servers that tests can ask for: each is started when the first test needs it, once per session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.order import ordered
from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = ordered(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def keystone() -> Iterator[Keystone]:
    with Keystone() as server:
        yield server
