"""The servers of tests/support start, respond, and leave nothing behind."""

import socket

import kombu
import pytest
import requests
import sqlalchemy as sa

from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.memory import alive, tree
from tests.support.postgres import Postgres
from tests.support.process import TemporaryServer
from tests.support.rabbitmq import RabbitMQ


def _round_trip(url: str) -> None:
    table = sa.Table(
        "greetings", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.String(50))
    )
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"id": 1, "text": "naïve 🐘"}])
        with engine.connect() as connection:
            assert connection.execute(sa.select(table.c.text)).scalar_one() == "naïve 🐘"
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    "server",
    [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)],
)
def test_database_round_trip(server: str, request: pytest.FixtureRequest) -> None:
    database: Postgres | MariaDB = request.getfixturevalue(server)
    url = database.create_database("support_servers")
    assert url == database.url("support_servers")
    _round_trip(url)

    database.drop_database("support_servers")
    gone = sa.create_engine(url)
    with pytest.raises(sa.exc.OperationalError):
        gone.connect()


@pytest.mark.parametrize(
    "server",
    [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)],
)
def test_database_in_use_can_be_dropped(server: str, request: pytest.FixtureRequest) -> None:
    database: Postgres | MariaDB = request.getfixturevalue(server)
    engine = sa.create_engine(database.create_database("busy"))
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE t (id int)"))
        connection.commit()
        connection.execute(sa.text("SELECT * FROM t"))  # leaves a transaction open
        database.drop_database("busy")
        connection.invalidate()
    engine.dispose()


@pytest.mark.rabbitmq
def test_rabbitmq_publish_and_consume(rabbitmq: RabbitMQ) -> None:
    with kombu.Connection(rabbitmq.url) as connection:
        queue = connection.SimpleQueue("greetings")
        queue.put({"hello": "world"})
        message = queue.get(timeout=10)
        assert message.payload == {"hello": "world"}
        message.ack()
        queue.close()


@pytest.mark.keystone
def test_keystone_tokens_and_catalog(keystone: Keystone) -> None:
    project = keystone.create_project("greeters")
    user = keystone.create_user("greeter", "a-password", project, ["member", "reader"])
    with keystone.network_endpoint("http://127.0.0.1:1/old"), keystone.network_endpoint("http://127.0.0.1:1"):
        token = keystone.token("greeter", "a-password", "greeters")
        service = keystone.token(keystone.service_user, keystone.service_password, keystone.service_project)
        # The service user may validate the tokens of others, as keystonemiddleware does for each request.
        answer = requests.get(
            f"{keystone.url}/auth/tokens", headers={"X-Auth-Token": service, "X-Subject-Token": token}, timeout=30
        )
        assert answer.status_code == 200
        body = answer.json()["token"]
        assert body["user"]["id"] == user
        assert body["project"]["id"] == project
        assert {role["name"] for role in body["roles"]} == {"member", "reader"}
        (service,) = (entry for entry in body["catalog"] if entry["type"] == "network")
        endpoints = [each["url"] for each in service["endpoints"] if each["region_id"] == keystone.region]
        assert endpoints == ["http://127.0.0.1:1"] * 3


@pytest.mark.parametrize("kind", [Postgres, MariaDB, RabbitMQ, Keystone])
def test_nothing_is_left_behind(kind: type[Postgres | MariaDB | RabbitMQ | Keystone]) -> None:
    with kind() as server:
        port, directory, pids = server.port, server.directory, server.pids
        processes = {process for pid in pids for process in tree(pid)}
        assert pids
    assert not directory.exists()
    assert [pid for pid in processes if alive(pid)] == []
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) != 0


def test_failure_to_start_shows_the_output() -> None:
    class Broken(TemporaryServer):
        name = "broken"

        def start(self) -> None:
            self.spawn(["sh", "-c", "echo no such luck; exit 3"], ready=lambda: False)

    broken = Broken()
    with pytest.raises(RuntimeError, match="no such luck"):
        broken.__enter__()
    assert not broken.directory.exists()
