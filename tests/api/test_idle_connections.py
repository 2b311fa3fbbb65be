"""Idle connections of a server hold no transaction: nothing waits for them, such as ALTER TABLE of an upgrade."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import url_of
from tests.api.dhcp import serve
from tests.api.l3 import attach, gateway, inside, l3_agent, outside

OPEN_TRANSACTIONS = {
    "postgresql": "SELECT query FROM pg_stat_activity"
    " WHERE datname = current_database() AND state NOT IN ('idle', 'active')",
    "mysql": "SELECT p.info FROM information_schema.innodb_trx x JOIN information_schema.processlist p"
    " ON p.id = x.trx_mysql_thread_id WHERE p.db = database() AND p.id <> connection_id()",
}
SHORT_WAITS = {
    "postgresql": "SET lock_timeout = '2s'",
    "mysql": "SET SESSION lock_wait_timeout = 2",
    "sqlite": "PRAGMA busy_timeout = 2000",
}


@pytest.fixture
def outside_connection(server: Server) -> Iterator[sa.Connection]:
    """A connection of another program."""
    engine = sa.create_engine(url_of(server), poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


def check_nothing_waits(connection: sa.Connection) -> None:
    dialect = connection.dialect.name
    if dialect in OPEN_TRANSACTIONS:
        assert connection.exec_driver_sql(OPEN_TRANSACTIONS[dialect]).all() == []
    connection.exec_driver_sql(SHORT_WAITS[dialect])
    for name in ("networks", "ports", "quotas", "routers", "agents"):
        column = f"c_{uuid.uuid4().hex}"
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {column} INTEGER")  # fails if it has to wait
        connection.exec_driver_sql(f"ALTER TABLE {name} DROP COLUMN {column}")


@pytest.mark.every_database
def test_requests_leave_no_transaction(server: Server, outside_connection: sa.Connection) -> None:
    admin = Api(server.app).as_admin()
    serve(server, "h1")
    l3_agent(server, "h1")
    network, subnet = inside(admin)
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    check_nothing_waits(outside_connection)
    port = admin.make("port", network_id=network["id"])
    admin.post("/ports", {"port": {"network_id": network["id"], "mac_address": port["mac_address"]}}).refused(409)
    admin.change("port", port["id"], name="x")
    admin.delete(f"/ports/{port['id']}").expect(204)
    admin.get("/networks").expect(200)
    check_nothing_waits(outside_connection)
