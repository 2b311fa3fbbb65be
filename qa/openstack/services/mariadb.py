"""MariaDB: one database for each service, reachable on the management network."""

from __future__ import annotations

from qa.openstack.cloud import ADDRESS, PASSWORD, PORTS, Cloud


def start(cloud: Cloud) -> None:
    data, temporary = cloud.state / "mariadb", cloud.directory("mariadb-tmp")
    common = ["--no-defaults", "--user=root", f"--datadir={data}"]
    cloud.run(
        ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
        {"TMPDIR": str(temporary)},
    )
    cloud.start(
        "mariadb",
        [
            "mariadbd",
            *common,
            f"--socket={cloud.state / 'mariadb.sock'}",
            f"--pid-file={cloud.state / 'mariadb.pid'}",
            f"--bind-address={ADDRESS}",
            f"--port={PORTS['mariadb']}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=1000",
            "--innodb-flush-log-at-trx-commit=0",  # nothing of this cloud must survive a crash of the machine
        ],
        {"TMPDIR": str(temporary)},
    )
    cloud.wait(lambda: _responds(cloud), "MariaDB does not respond", process="mariadb")
    cloud.sql(f"CREATE USER openstack IDENTIFIED BY '{PASSWORD}'; GRANT ALL PRIVILEGES ON *.* TO openstack")


def _responds(cloud: Cloud) -> bool:
    socket = cloud.state / "mariadb.sock"
    ping = ["mariadb-admin", "--no-defaults", "--user=root", f"--socket={socket}", "ping"]
    return socket.exists() and cloud.run(ping, check=False).returncode == 0
