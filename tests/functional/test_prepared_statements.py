"""Prepared statements of PostgreSQL: psycopg keeps some for a connection, and those beyond are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db.session import Database
from tests.support.postgres import Postgres

KEPT, STATEMENTS = 5, 30


@pytest.fixture
def db() -> Iterator[Database]:
    with Postgres() as server:
        made = Database(server.create_database("prepared"), pool_size=1)
        yield made
        made.close()


@pytest.mark.postgres
def test_statements_that_are_not_used_any_more_are_dropped(db: Database) -> None:
    """The driver drops them with `execute` only, so each batch has to have one."""
    with db._writes.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        driver.prepare_threshold, driver.prepared_max = 0, KEPT
    for number in range(STATEMENTS):
        with db.transaction() as tx:
            tx.write(sa.text(f"SELECT {number}"))
    with db._writes.connect() as connection:
        count = connection.execute(sa.text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
    assert 0 < count < 2 * KEPT
