"""A database that drops its connections is not noticed by clients; one that stays away gets them 503."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.client import Api
from tests.api.conftest import start
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres


def cut_postgres(url: str) -> None:
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        connection.execute(sa.text(f"{others} AND datname = current_database()"))


def cut_mariadb(url: str) -> None:
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        others = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()"
        for number in connection.execute(sa.text(others)).scalars().all():
            with contextlib.suppress(sa.exc.OperationalError):  # it has disconnected meanwhile
                connection.execute(sa.text(f"KILL {int(number)}"))


@pytest.mark.parametrize(
    "kind,cut",
    [
        pytest.param(Postgres, cut_postgres, marks=pytest.mark.postgres),
        pytest.param(MariaDB, cut_mariadb, marks=pytest.mark.mariadb),
    ],
)
def test_lost_connections_and_a_lost_server(
    kind: type[Postgres] | type[MariaDB], cut: Callable[[str], None], tmp_path: Path
) -> None:
    with kind() as database:
        url = database.create_database("lost")
        server = start(tmp_path, url, {"database": {"failover_timeout": "1"}})
        api = Api(server.app)
        api.post("/networks", {"network": {"name": "before"}}).expect(201)
        for number in range(2):
            cut(url)
            api.get("/networks").expect(200)
            cut(url)
            api.post("/networks", {"network": {"name": f"after {number}"}}).expect(201)
        database.stop()
        assert api.get("/networks").refused(503, "DatabaseUnreachable").headers["retry-after"] == "1"
        api.post("/networks", {"network": {"name": "never"}}).refused(503, "DatabaseUnreachable")
        server.close()
