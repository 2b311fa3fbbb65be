"""A PostgreSQL server for the tests."""

import re
import secrets
import signal
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.ports import free_port
from tests.support.process import TemporaryServer


class Postgres(TemporaryServer):
    """`with Postgres() as server:` runs a server; `durable`: with fsync, which is slower."""

    name = "postgres"
    users = ("postgres",)
    place = "/var/tmp"  # hundreds of databases of 10 MB; it does not wait for the disk

    def __init__(self, *, durable: bool = False, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.host = host
        self.durable = durable
        self.port = free_port()
        self.user = "neutrino"
        self.password = secrets.token_hex(16)

    def start(self) -> None:
        programs = _programs()
        data = self.directory / "data"
        self.run(
            [
                programs / "initdb",
                *("--pgdata", data, "--username", self.user, "--pwfile", self.write("password", self.password)),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"),
            ]
        )
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "hba_file": str(self.write("pg_hba.conf", "host all all all scram-sha-256\n")),
            "unix_socket_directories": str(self.directory),
            "max_connections": "1000",
            "autovacuum": "off",  # it visits a database after the other, and each worker has to read its catalog first
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        # SIGINT: fast shutdown, without waiting for clients to disconnect.
        self.spawn([programs / "postgres", "-D", data, *options], ready=self._ready, stop_signal=signal.SIGINT)

    def url(self, dbname: str = "postgres") -> str:
        """The SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{self.user}:{self.password}@{self.host}:{self.port}/{dbname}"

    def create_database(self, name: str, template: str = "template1") -> str:
        """A database with what the template has, which nobody may be connected to."""
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop it even if clients are connected."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=30,
        )

    def _execute(self, statement: sql.Composed) -> None:
        with self._connect() as connection:
            connection.execute(statement)

    def _ready(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _programs() -> Path:
    """Debian keeps each version's programs out of PATH; take the newest."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    versions = sorted(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parts[-3])])
    if not versions:
        raise RuntimeError("PostgreSQL is not installed: run scripts/setup test")
    return versions[-1].parent
