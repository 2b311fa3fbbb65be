"""PostgreSQL with a streaming standby, which is promoted when the primary fails; each in its own network namespace.

The tool is the failover manager (in production Patroni, pg_auto_failover or Pacemaker): it fences the old primary before it
promotes the standby, and then rejoins the old primary as standby by pg_rewind.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from qa.faults.failover.network import NodeServer
from tests.support.postgres import _programs
from tests.support.process import wait_until

PORT = 5432
DATABASE = "neutrino"
START_SECONDS = 60.0
# docs/databases.md recommends these settings; a test compares.
SETTINGS = {
    "wal_level": "replica",
    "wal_log_hints": "on",
    "hot_standby": "on",
    "synchronous_commit": "on",
    "wal_keep_size": "1GB",
    "wal_retrieve_retry_interval": "1s",
    "max_connections": "500",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    "wal_receiver_timeout": "10s",
    "wal_sender_timeout": "10s",
}


class Node(NodeServer):
    name = "standby"
    users = ("postgres",)

    def __init__(self, number: int, password: str) -> None:
        super().__init__(number)
        self.user = "neutrino"
        self.password = password
        self.data = self.directory / "data"
        self.programs = _programs()
        self.write(".pgpass", f"*:*:*:*:{password}\n")

    def initialize(self) -> None:
        self.run(
            [
                self.programs / "initdb",
                *("--pgdata", self.data, "--username", self.user, "--pwfile", self.write("password", self.password)),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"),
            ]
        )
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all 10.99.0.0/24 scram-sha-256\nhost replication all 10.99.0.0/24 scram-sha-256\n")
        # In the file, not on the command line: pg_rewind starts the server by itself, for the recovery of a killed one.
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())

    def start(self) -> None:
        settings = {
            "listen_addresses": self.address,
            "port": str(PORT),
            "unix_socket_directories": str(self.directory),
            "fsync": "off",  # the machine does not fail here, only processes: the page cache survives
        }
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        with contextlib.suppress(OSError):
            (self.data / "postmaster.pid").unlink()
        argv = [str(self.programs / "postgres"), "-D", str(self.data), *options]
        self.spawn_inside(argv, {}, self.is_up, stop_signal=signal.SIGINT, timeout=START_SECONDS)

    def copy_from(self, primary: Node) -> None:
        """A new standby of this primary."""
        self._inside(
            [
                *(
                    self.programs / "pg_basebackup",
                    "--pgdata",
                    self.data,
                    "--write-recovery-conf",
                    "--wal-method=stream",
                ),
                *("--checkpoint=fast", "--no-sync", "--dbname", self._conninfo(primary)),
            ]
        )

    def rewind_from(self, primary: Node) -> None:
        """Turn this node, which was the primary, into a standby of the new one: what only it had is removed."""
        # A killed server has not finished: pg_rewind starts it in single-user mode for its crash recovery.
        source = self._conninfo(primary, "postgres")
        self._inside(
            [
                *(self.programs / "pg_rewind", "--target-pgdata", self.data, "--source-server", source),
                *("--write-recovery-conf", "--no-sync"),
            ]
        )

    def _inside(self, argv: list[Any]) -> None:
        """Run a command to its end in the node's namespace."""
        with contextlib.suppress(OSError):
            (self.data / "postmaster.pid").unlink()
        self._enters = True
        try:
            self.run(self.network.command([str(part) for part in argv], self._account))
        finally:
            self._enters = False

    def _conninfo(self, other: Node, dbname: str = "") -> str:
        name = f" dbname={dbname}" if dbname else ""
        return f"host={other.address} port={PORT} user={self.user} application_name=node{self.number}{name}"

    def promote(self) -> None:
        self.query("SELECT pg_promote(true, 30)")

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        self.query(f"ALTER SYSTEM SET {name} = '{value}'")
        self.query("SELECT pg_reload_conf()")

    # --- state ----------------------------------------------------------------------------------------------------

    def query(self, statement: str, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(
            host=self.address,
            port=PORT,
            user=self.user,
            password=self.password,
            dbname=dbname,
            autocommit=True,
            connect_timeout=5,
        ) as connection:
            done = connection.execute(statement)
            return list(done.fetchall()) if done.description else []

    def is_up(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            self.query("SELECT 1")
            return True
        return False

    def replication(self) -> str:
        """How this primary replicates to its standby: `async`, `sync`, or nothing while no standby streams."""
        with contextlib.suppress(psycopg.OperationalError):
            found = self.query("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")
            return str(found[0][0]) if found else ""
        return ""

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))


class Pair:
    """A primary and its standby."""

    def __init__(self, nodes: list[Node], *, synchronous: bool = True) -> None:
        self.nodes = nodes
        self.primary, self.standby = nodes
        self.synchronous = synchronous

    def url(self) -> str:
        """The connection URL of both nodes, of which clients use the one that accepts writes."""
        first = self.primary
        hosts = "&".join(f"host={node.address}:{PORT}" for node in self.nodes)
        return f"postgresql+psycopg://{first.user}:{first.password}@/{DATABASE}?{hosts}&target_session_attrs=read-write"

    def join_standby(self) -> None:
        """Start the standby and, if replication is synchronous, have commits wait for it."""
        self.standby.start()
        self._wait_for(("async", "sync"))
        if self.synchronous:
            # Only now: until a standby streams, commits would wait.
            self.primary.set("synchronous_standby_names", f"node{self.standby.number}")
            self._wait_for(("sync",))

    def _wait_for(self, states: Sequence[str]) -> None:
        ready = lambda: self.primary.replication() in states  # noqa: E731
        wait_until(ready, timeout=60, what="the standby", failed=lambda: None)

    def fail_over(self) -> None:
        """Promote the standby. The old primary must be fenced already."""
        # Before the promotion: the new primary has no standby, and its commits would wait for one.
        if (self.standby.data / "postgresql.auto.conf").exists():
            self._forget_standby()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def _forget_standby(self) -> None:
        path: Path = self.standby.data / "postgresql.auto.conf"
        kept = [line for line in path.read_text().splitlines() if not line.startswith("synchronous_standby_names")]
        path.write_text("\n".join([*kept, "synchronous_standby_names = ''", ""]))
        self.standby.query("SELECT pg_reload_conf()")

    def rejoin(self) -> None:
        """Make the old primary the standby of the new one."""
        self.primary.query("CHECKPOINT")  # before it, pg_rewind finds the old timeline and does nothing
        self.standby.rewind_from(self.primary)
        self.join_standby()


@contextlib.contextmanager
def pair(*, synchronous: bool = True) -> Iterator[Pair]:
    password = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        nodes = []
        for number in (1, 2):
            node = Node(number, password)
            stack.callback(node.stop)
            nodes.append(node)
        primary, standby = nodes
        primary.initialize()
        primary.start()
        primary.query(f"CREATE DATABASE {DATABASE}")
        standby.copy_from(primary)
        made = Pair(nodes, synchronous=synchronous)
        made.join_standby()
        yield made
