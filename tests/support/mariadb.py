"""A MariaDB server for the tests."""

import secrets
import shutil
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from tests.support.ports import free_port
from tests.support.process import TemporaryServer

# A schema has over a hundred tables, and without these options each is flushed to the disk several times.
_NOT_DURABLE = (
    "--loose-debug-no-sync",
    "--loose-innodb-flush-method=nosync",
    "--loose-skip-sync-frm",
    "--skip-innodb-doublewrite",
    "--skip-innodb-file-per-table",
    "--skip-innodb-stats-persistent",
)


class MariaDB(TemporaryServer):
    """`with MariaDB() as server:` runs a server; `durable`: flushes each commit, which is slower."""

    name = "mariadb"
    users = ("mysql",)
    place = "/var/tmp"  # hundreds of databases; it does not wait for the disk

    def __init__(self, *, durable: bool = False, host: str = "127.0.0.1") -> None:
        super().__init__()
        self.host = host
        self.durable = durable
        self.port = free_port()
        self.user = "neutrino"
        self.password = secrets.token_hex(16)
        self._copies: dict[str, str] = {}  # by the template: the statements that make a copy

    def start(self) -> None:
        data = self.directory / "data"
        # At start it deletes all temporary tables in this directory: several servers must not share one.
        own = {"TMPDIR": str(self.mkdir("tmp"))}
        self.run(
            [
                _program("mariadb-install-db"),
                *("--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"),
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M"),
            ],
            own,
        )
        # Read by the server at start, so that the password is not a command-line argument; root cannot log in any more.
        init = self.write(
            "init.sql",
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self.user}'@'%';\n"
            "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n",
        )
        self.spawn(
            [
                _program("mariadbd"),
                "--no-defaults",
                f"--datadir={data}",
                f"--init-file={init}",
                f"--bind-address={self.host}",
                f"--port={self.port}",
                f"--socket={self.directory / 'mariadb.sock'}",
                f"--pid-file={self.directory / 'mariadb.pid'}",
                "--skip-name-resolve",
                "--skip-log-bin",
                "--character-set-server=utf8mb4",
                "--max-connections=1000",
                "--innodb-log-file-size=64M",
                "--loose-innodb-snapshot-isolation=ON",  # the default since 11.6.2; older servers may have it, off
                f"--innodb-flush-log-at-trx-commit={int(self.durable)}",
                *(() if self.durable else _NOT_DURABLE),
            ],
            own,
            ready=self._ready,
        )

    def url(self, dbname: str = "mysql", *, prefers_tls: bool = False) -> str:
        """The SQLAlchemy URL of a database. This server has no TLS, and PyMySQL, which prefers it unless told otherwise,
        reads all certificates of the machine for each connection before it asks: 25 ms of processor time.
        """
        address = f"{self.user}:{self.password}@{self.host}:{self.port}"
        return f"mysql+pymysql://{address}/{dbname}?charset=utf8mb4{'' if prefers_tls else '&ssl_disabled=true'}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """A database with the tables and rows of the template."""
        self._execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        if template is not None:
            self._copy(template, name)
        return self.url(name)

    def _copy(self, template: str, name: str) -> None:
        """In one request: a statement per table would take three times the processor time, most of it in the client."""
        if template not in self._copies:
            self._copies[template] = self._script(template)
        with self._connect(name, client_flag=CLIENT.MULTI_STATEMENTS) as connection, connection.cursor() as cursor:
            cursor.execute(self._copies[template])
            while cursor.nextset():  # which raises the error of a later statement
                pass

    def _script(self, template: str) -> str:
        statements = ["SET foreign_key_checks = 0"]  # tables in any order
        with self._connect(template) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            for (table,) in cursor.fetchall():
                cursor.execute(f"SHOW CREATE TABLE `{table}`")
                statements.append(cursor.fetchall()[0][1])
                if cursor.execute(f"SELECT 1 FROM `{table}` LIMIT 1"):
                    statements.append(f"INSERT INTO `{table}` SELECT * FROM `{template}`.`{table}`")
        return ";\n".join(statements)

    def drop_database(self, name: str) -> None:
        """Drop it even if clients are connected, whose open transactions would block it."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
            for (thread,) in cursor.fetchall():
                try:
                    cursor.execute(f"KILL {int(thread)}")
                except pymysql.err.OperationalError as error:
                    if error.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:  # it has disconnected meanwhile
                        raise
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def _connect(self, database: str | None = None, client_flag: int = 0) -> "pymysql.connections.Connection[Any]":
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            client_flag=client_flag,
            autocommit=True,
            connect_timeout=5,
            ssl_disabled=True,
        )

    def _execute(self, statement: str) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _ready(self) -> bool:
        try:
            self._connect().close()
        except pymysql.err.OperationalError:
            return False
        return True


def _program(name: str) -> Path:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if found is None:
        raise RuntimeError("MariaDB is not installed: run scripts/setup test")
    return Path(found)
