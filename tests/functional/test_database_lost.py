"""A database that drops its connections is not noticed by clients; one that stays away gets them 503."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.server.db import connection_options
from neutrino.server.db.engines import server_engines
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
        server = start(tmp_path, url, {"database": {"failover_timeout": "4"}})
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


@pytest.mark.postgres
def test_postgresql_notices_that_the_machine_of_a_transaction_is_lost(postgres: Postgres) -> None:
    """By its own default after two hours, for which it would keep the locks."""
    _, engine = server_engines(sa.make_url(postgres.create_database("noticed")), 1, None)
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
    with engine.connect() as connection:
        found = [connection.execute(sa.text(f"SHOW {name}")).scalar() for name in names]
    assert found == ["5", "2", "3", "10000"]
    engine.dispose()


@pytest.mark.mariadb
def test_mariadb_ends_a_transaction_that_does_not_go_on(mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a machine that is lost: its locks are released before others give up."""
    monkeypatch.setattr(connection_options, "IDLE_SECONDS", 1)
    _, engine = server_engines(sa.make_url(mariadb.create_database("ended")), 2, None)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE held (id INT PRIMARY KEY) ENGINE=InnoDB"))
        connection.execute(sa.text("INSERT INTO held VALUES (1)"))
    lost = engine.connect()
    lost.begin()
    lost.execute(sa.text("UPDATE held SET id = 2"))
    with engine.begin() as connection:
        connection.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 20"))
        connection.execute(sa.text("UPDATE held SET id = 3 WHERE id = 1"))
        assert connection.execute(sa.text("SELECT id FROM held")).scalars().all() == [3]
    lost.invalidate()
    lost.close()
    engine.dispose()
