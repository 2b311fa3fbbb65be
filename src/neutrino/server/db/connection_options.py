"""Timeouts of connections to PostgreSQL and MariaDB, and what a connection sets up. The URL overrides each of them.

A node that is lost without an answer must not hold a worker for ever: libpq and PyMySQL wait without limit by default.
"""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from neutrino.model.objects import Object

CONNECT_SECONDS: Final = 5
# Longer than a cluster takes to evict a member (five seconds by default), during which commits wait.
READ_SECONDS: Final = 30
GALERA: Final = "galera"  # in the info of a connection: whether the server is a node of a Galera cluster
_MYSQL: Final = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "write_timeout": READ_SECONDS}
# A peer that does not acknowledge is given up after nine seconds. A server process that is stopped still acknowledges.
_POSTGRES: Final = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 9000,
}


# The other direction: a server that has lost its power may have locks, of a transaction that does not go on. By its own
# defaults a database server notices that after two hours (PostgreSQL) or eight (MariaDB).
_POSTGRES_SESSION: Final = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
IDLE_TRANSACTION: Final = "idle_write_transaction_timeout"  # of MariaDB; MySQL has no such variable
IDLE_SECONDS: Final = 15


def connect_args(url: sa.URL) -> Object:
    """Arguments of the driver for what the URL does not set."""
    defaults = _POSTGRES if url.get_backend_name() == "postgresql" else _MYSQL
    return {name: value for name, value in defaults.items() if name not in url.query}


def psycopg_arguments(url: sa.URL) -> Object:
    """Arguments of psycopg.connect. Not the URL itself: libpq does not know SQLAlchemy's form of several hosts."""
    _, arguments = url.get_dialect()().create_connect_args(url)
    arguments.pop("context", None)
    return {**connect_args(url), **arguments}


def limit_psycopg(engine: Engine) -> None:
    """Give up a connection of PostgreSQL that does not answer, as PyMySQL does: libpq has no such timeout.

    A server process that is stopped, or waits for its disk, still acknowledges packets, so TCP does not notice it.
    """
    from neutrino.server.db.postgresql import LimitedConnection

    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        return LimitedConnection.connect(*arguments, **options)

    sa.event.listen(engine, "do_connect", connect)


def prepare_postgresql(engine: Engine) -> None:
    """Have the database server notice within eleven seconds that this machine is lost."""
    statement = "SELECT " + ", ".join(
        f"set_config('{name}', '{value}', false)" for name, value in _POSTGRES_SESSION.items()
    )

    def prepare(connection: Any, _record: Any) -> None:
        connection.execute(statement)
        connection.commit()

    sa.event.listen(engine, "connect", prepare)


def prepare_mysql(engine: Engine, sync_wait: int | None) -> None:
    """Find out whether a new connection's server is a node of a cluster, and have its reads wait for the others' writes.

    And have it end transactions that do not go on, as those of a machine that is lost.
    """

    def prepare(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        # Not `SELECT @@wsrep_on`: MySQL has no such variable.
        cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', '{IDLE_TRANSACTION}')")
        found = {str(name): str(value) for name, value in cursor.fetchall()}
        record.info[GALERA] = found.get("wsrep_on", "").upper() in ("ON", "1")
        if IDLE_TRANSACTION in found:
            cursor.execute(f"SET SESSION {IDLE_TRANSACTION} = {IDLE_SECONDS}")
        if sync_wait is not None and record.info[GALERA]:
            cursor.execute(f"SET SESSION wsrep_sync_wait = {int(sync_wait)}")
        cursor.close()

    sa.event.listen(engine, "connect", prepare)
