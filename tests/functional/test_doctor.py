"""neutrino doctor and neutrino status with a real server: what is wrong on purpose is named, with its exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from tests.support.agent import add_host
from tests.support.commands import Done, run_neutrino
from tests.support.doctor import certificate
from tests.support.launcher import PROGRAM
from tests.support.mariadb import MariaDB
from tests.support.neutrino import Neutrino, configuration
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import wait_until


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls") / "feed.pem", -1, 365, time.time())


@pytest.fixture(scope="module")
def secure() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def server(pem: Path, secure: str) -> Iterator[Neutrino]:
    """With the feed on a Unix socket, and with TLS."""
    feed = {"run": True, "tls_cert_file": pem, "tls_key_file": pem}
    running = Neutrino({"feed": feed}, workers=2)
    running.settings["feed"]["bind"] = f"unix:{running.directory}/feed.sock,{secure}"
    running.write("neutrino.conf", configuration(running.settings))
    with running:
        wait_until(lambda: len(processes(running)) == 3, timeout=60, what="all processes", failed=lambda: None)
        yield running


def doctor(path: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the findings by kind."""
    done = run_neutrino(["doctor", "--json", "--config-file", str(path), *arguments], environment=environment)
    assert done.error == "", done.error
    return done.status, {each["kind"]: each for each in json.loads(done.out)["findings"]}


def agent_file(directory: Path, server: Neutrino | None = None, **sections: dict[str, object]) -> Path:
    credential = directory / "credential"
    if not credential.exists():
        credential.write_text("wrong")
        credential.chmod(0o600)
    feed = f"unix:{server.directory if server else directory}/feed.sock"
    settings: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "h1", "state_path": directory / "agent", "roles": "l2,dhcp"},
        "feed": {"server": feed, "credential_file": credential},
        "ovs": {"ovsdb_connection": f"unix:{directory}/db.sock", "run_directory": directory, "datapath_type": "netdev"},
    }
    for section, options in sections.items():
        settings.setdefault(section, {}).update(options)
    path = directory / "agent.conf"
    path.write_text(configuration(settings))
    return path


def status(server: Neutrino, *arguments: str) -> Done:
    return run_neutrino(["status", "--endpoint", server.url, *arguments])


# --- a server ---------------------------------------------------------------------------------------------------------


def test_a_running_server_has_no_findings(server: Neutrino) -> None:
    assert doctor(server.config) == (0, {})


def test_a_server_with_an_unknown_option_and_an_expired_certificate(tmp_path: Path) -> None:
    pem = certificate(tmp_path / "feed.pem", -100, -1, time.time())
    settings = {
        "DEFAULT": {
            "auth_strategy": "noauth",
            "bind_port": free_port(),
            "state_path": tmp_path / "state",
            "bind_hots": "x",
        },
        "feed": {"bind": f"127.0.0.1:{free_port()}", "tls_cert_file": pem, "tls_key_file": pem},
    }
    settings["DEFAULT"]["bind_hots"] = "127.0.0.1"
    path = tmp_path / "server.conf"
    path.write_text(configuration(settings))
    code, found = doctor(path)
    assert code == 1
    assert set(found) == {
        "option-unknown",
        "certificate-expired",
        "database-missing",
        "api-not-listening",
        "feed-not-listening",
    }
    assert "bind_hots" in found["option-unknown"]["what"]
    assert "did you mean bind_host?" in found["option-unknown"]["what"]
    assert "neutrino pki" in found["certificate-expired"]["fix"]
    assert not (tmp_path / "state").exists(), "doctor creates nothing"


@pytest.mark.parametrize(
    ("kind", "refuse_writes"),
    [(Postgres, "ALTER SYSTEM SET default_transaction_read_only = on"), (MariaDB, "SET GLOBAL read_only = 1")],
    ids=["postgresql", "mariadb"],
)
def test_a_database_that_refuses_writes(
    tmp_path: Path, kind: type[Postgres] | type[MariaDB], refuse_writes: str
) -> None:
    with kind() as running:
        url = running.create_database("cloud")
        db = Database(url)
        schema.ensure(db)
        db.close()
        path = tmp_path / "server.conf"
        settings = {
            "DEFAULT": {"auth_strategy": "noauth", "bind_port": free_port(), "state_path": tmp_path / "state"},
            "database": {"connection": url},
            "feed": {"run": False},
        }
        path.write_text(configuration(settings))
        assert "database-read-only" not in doctor(path)[1]
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(refuse_writes)
            if kind is Postgres:
                connection.exec_driver_sql("SELECT pg_reload_conf()")
        engine.dispose()
        wait_until(lambda: "database-read-only" in doctor(path)[1], timeout=30, what="finding", failed=lambda: None)


def test_an_old_schema(tmp_path: Path, server: Neutrino) -> None:
    copy = tmp_path / "neutrino.sqlite"
    source = sa.create_engine(server.database)
    with source.connect() as connection:
        connection.exec_driver_sql(f"VACUUM INTO '{copy}'")
    source.dispose()
    engine = sa.create_engine(f"sqlite:///{copy}")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0003'"))
    engine.dispose()
    path = tmp_path / "server.conf"
    settings = {"auth_strategy": "noauth", "state_path": tmp_path}
    path.write_text(configuration({"DEFAULT": settings, "database": {"connection": f"sqlite:///{copy}"}}))
    code, found = doctor(path, "--only", "database,service")
    assert (code, set(found)) == (1, {"schema-old"})
    assert "neutrino db upgrade" in found["schema-old"]["fix"]


# --- a host -----------------------------------------------------------------------------------------------------------


def test_a_host_whose_credential_is_refused(tmp_path: Path, server: Neutrino) -> None:
    path = agent_file(tmp_path, server)
    code, found = doctor(path, "--only", "feed")
    assert (code, set(found)) == (1, {"feed-credential-refused"})
    assert f"with the credential in {tmp_path}/credential" in found["feed-credential-refused"]["what"]
    assert "SIGHUP" in found["feed-credential-refused"]["fix"]
    (tmp_path / "credential").write_text("\n")
    code, found = doctor(path, "--only", "feed")
    assert (code, set(found)) == (1, {"feed-credential-refused"})
    assert found["feed-credential-refused"]["what"].endswith("credential: it is empty")
    (tmp_path / "credential").write_text(add_host(server, "h1"))
    assert doctor(path, "--only", "feed") == (0, {})


def test_the_feed_with_tls(tmp_path: Path, server: Neutrino, secure: str, pem: Path) -> None:
    (tmp_path / "credential").write_text(add_host(server, "h2"))
    feed = {"server": f"wss://{secure}"}
    code, found = doctor(agent_file(tmp_path, DEFAULT={"host": "h2"}, feed=feed), "--only", "feed")
    assert (code, set(found)) == (1, {"feed-certificate-refused"})
    trusting = agent_file(tmp_path, DEFAULT={"host": "h2"}, feed={**feed, "ca_file": pem})
    assert doctor(trusting, "--only", "feed,certificates") == (0, {})


def test_a_host_without_a_program_and_without_open_vswitch(tmp_path: Path) -> None:
    """/dev/null, which is not executable, is mounted over dnsmasq."""
    hidden = ["unshare", "--mount", "bash", "-c", 'mount --bind /dev/null "$(readlink -f "$0")" && exec "$@"']
    dnsmasq = str(shutil.which("dnsmasq", path="/usr/sbin:/usr/bin"))
    command = [str(PROGRAM), "doctor", "--json", "--config-file", str(agent_file(tmp_path))]
    done = subprocess.run([*hidden, dnsmasq, *command], capture_output=True, text=True, timeout=90, check=False)
    found = {each["kind"]: each for each in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert {"program-missing", "ovsdb-unreachable", "feed-unreachable", "never-synced", "agent-not-running"} <= set(
        found
    )
    assert found["program-missing"]["fix"] == "apt-get install dnsmasq-base"
    assert "check-failed" not in found


# --- status -----------------------------------------------------------------------------------------------------------


def processes(server: Neutrino) -> dict[int, str]:
    found = json.loads(status(server, "--json").out)
    return {each["pid"]: each["kind"] for one in found["servers"] for each in one["processes"]}


def test_the_processes_of_a_server(server: Neutrino) -> None:
    before = processes(server)
    assert sorted(before.values()) == ["api", "api", "feed"]
    feed = next(pid for pid, kind in before.items() if kind == "feed")
    os.kill(feed, signal.SIGKILL)

    def is_replaced() -> bool:
        """The new process removes the row of the killed one."""
        after = processes(server)
        return feed not in after and sorted(after.values()) == ["api", "api", "feed"]

    wait_until(is_replaced, timeout=60, what="the row of the new feed process", failed=lambda: None)
    done = status(server)
    assert (done.status, done.error) == (0, "")
    assert done.out.startswith("OK: no problems")


def test_a_stopped_server_leaves_no_rows() -> None:
    with Neutrino({"feed": {"run": True}}) as running:
        wait_until(lambda: len(processes(running)) == 2, timeout=60, what="the rows", failed=lambda: None)
        pid = running.pids[0]
        os.kill(pid, signal.SIGTERM)
        engine = sa.create_engine(running.database)

        def is_empty() -> bool:
            with engine.connect() as connection:
                return not connection.execute(sa.text("SELECT count(*) FROM server_processes")).scalar()

        wait_until(is_empty, timeout=60, what="rows that are removed", failed=lambda: None)
        engine.dispose()
        running._ready = False  # it ends on purpose
