"""A Galera cluster of three MariaDB nodes, each in its own network namespace."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql

from qa.faults.failover.network import NodeServer
from tests.support.mariadb import _program
from tests.support.process import wait_until

LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
PORT = 3306
DATABASE = "neutrino"
START_SECONDS = 120.0
# docs/databases.md recommends these settings; a test compares.
SETTINGS = {
    "wsrep_on": "ON",
    "binlog_format": "ROW",
    "default_storage_engine": "InnoDB",
    "innodb_autoinc_lock_mode": "2",
    "innodb_flush_log_at_trx_commit": "2",
    "wsrep_sst_method": "rsync",
    "wsrep_slave_threads": "2",
    "max_connections": "500",
    "character_set_server": "utf8mb4",
}
PROVIDER = {"gcache.size": "64M", "pc.recovery": "true"}


class Node(NodeServer):
    """One MariaDB with Galera. `start` joins the cluster; the first node starts it with `bootstrap`."""

    name = "galera"
    users = ("mysql",)

    def __init__(self, number: int, peers: Sequence[str], password: str) -> None:
        super().__init__(number)
        self.password = password
        self.user = "neutrino"
        self._peers = peers
        self._own_files = {"TMPDIR": str(self.mkdir("tmp"))}

    def install(self) -> None:
        self.run(
            [
                _program("mariadb-install-db"),
                *("--no-defaults", f"--datadir={self.directory / 'data'}"),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M"),
            ],
            self._own_files,
        )

    def start(self, *, bootstrap: bool = False) -> None:
        # Only the first start creates the user: the others receive it with the state transfer.
        init = self.write("init.sql", self._grants()) if bootstrap else None
        provider = {
            **PROVIDER,
            "base_host": self.address,
            "gmcast.listen_addr": f"tcp://{self.address}:4567",
            "ist.recv_addr": f"{self.address}:4568",
        }
        options = {
            **SETTINGS,
            "datadir": self.directory / "data",
            "bind-address": self.address,
            "port": PORT,
            "socket": self.directory / "mariadb.sock",
            "pid-file": self.directory / "mariadb.pid",
            "innodb-log-file-size": "64M",
            "wsrep_provider": _library(),
            "wsrep_cluster_name": "neutrino",
            "wsrep_cluster_address": "gcomm://" + ("" if bootstrap else ",".join(self._peers)),
            "wsrep_node_address": self.address,
            "wsrep_node_name": f"node{self.number}",
            "wsrep_sst_receive_address": f"{self.address}:4444",
            "wsrep_provider_options": ";".join(f"{name}={value}" for name, value in provider.items()),
            **({"init-file": init} if init else {}),
        }
        argv = [
            str(_program("mariadbd")),
            "--no-defaults",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--loose-innodb-snapshot-isolation=ON",
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        with contextlib.suppress(OSError):  # of a killed process: grastate.dat alone decides how the node rejoins
            (self.directory / "mariadb.pid").unlink()
        self.spawn_inside(argv, self._own_files, self.is_synced, timeout=START_SECONDS)

    def _grants(self) -> str:
        return (
            f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self.user}'@'%';\n"
            "CREATE USER IF NOT EXISTS 'haproxy'@'%' IDENTIFIED BY '';\n"
            "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"
            f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n"
        )

    def lose_data(self) -> None:
        """Remove what the node knows of the cluster, so that it needs a full copy."""
        shutil.rmtree(self.directory / "data")
        self.install()

    # --- state ----------------------------------------------------------------------------------------------------

    def url(self, address: str | None = None, port: int = PORT) -> str:
        where = f"{address or self.address}:{port}"
        return f"mysql+pymysql://{self.user}:{self.password}@{where}/{DATABASE}?charset=utf8mb4"

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        connection = pymysql.connect(
            host=self.address, user=self.user, password=self.password, connect_timeout=3, read_timeout=30
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def status(self, name: str) -> str:
        found = self.query(f"SHOW GLOBAL STATUS LIKE '{name}'")
        return str(found[0][1]) if found else ""

    def is_synced(self) -> bool:
        try:
            return self.status("wsrep_local_state_comment") == "Synced"
        except pymysql.err.Error:
            return False

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log")))


class Cluster:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def wait_synced(self, seconds: float = START_SECONDS) -> None:
        """Until every node is a synced member of one primary component."""

        def ready() -> bool:
            return all(
                node.is_synced() and node.status("wsrep_cluster_size") == str(len(self.nodes)) for node in self.nodes
            )

        wait_until(ready, timeout=seconds, what="the Galera cluster", failed=lambda: None)


@contextlib.contextmanager
def cluster(size: int = 3) -> Iterator[Cluster]:
    password = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        nodes: list[Node] = []
        peers: list[str] = []
        for number in range(1, size + 1):
            node = Node(number, peers, password)
            stack.callback(node.stop)
            nodes.append(node)
            peers.append(node.address)
        for node in nodes:
            node.install()
            node.start(bootstrap=node is nodes[0])
        made = Cluster(nodes)
        made.wait_synced()
        yield made


def _library() -> str:
    for path in LIBRARIES:
        if Path(path).exists():
            return path
    raise RuntimeError("Galera is not installed: apt-get install galera-4")
