"""Schemathesis generates requests from the OpenAPI document: no response may have a 5xx status.

Responses must also match their schema. It runs against a server of its own, with real workers and sockets. PostgreSQL and
MariaDB, which are stricter than SQLite about column values, get fewer requests: validation does not depend on the database
(`tests/api/test_odd_values.py` covers what does).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.process import wait_until

CHECKS = "not_a_server_error,status_code_conformance,response_schema_conformance,content_type_conformance"
LIMITS = "\n".join(
    f"quota_{name} = -1"
    for name in ("network", "subnet", "port", "security_group", "security_group_rule", "rbac_policy")
)
CONFIGURATION = """
[DEFAULT]
auth_strategy = noauth
bind_port = {port}
state_path = {directory}
api_workers = 2
[database]
connection = {url}
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[quotas]
{limits}
"""
PROGRAMS = Path(sys.executable).parent


@contextmanager
def running(directory: Path, url: str) -> Iterator[int]:
    """A server; gives its port."""
    port = free_port()
    path = directory / "neutrino.conf"
    path.write_text(CONFIGURATION.format(port=port, directory=directory, url=url.replace("$", "$$"), limits=LIMITS))
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [PROGRAMS / "neutrino", "server", "--config-file", path], stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: answers(port), timeout=60, what="the server", failed=lambda: ended(server, directory))
        yield port
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except OSError:
        return False


def ended(server: subprocess.Popen[bytes], directory: Path) -> str | None:
    if server.poll() is None:
        return None
    return f"ended with {server.returncode}: {(directory / 'log').read_text(errors='replace')[-4000:]}"


def explore(directory: Path, port: int, phases: str, examples: int, seconds: int) -> None:
    done = subprocess.run(
        [
            *(PROGRAMS / "st", "run", f"http://127.0.0.1:{port}/openapi.json", "--no-color"),
            *("--phases", phases, "--max-examples", str(examples), "--max-time", str(seconds), "--checks", CHECKS),
            # More workers than one upset the generator under Python 3.11; what is slow here is the generator anyway.
            *("--workers", "1", "--seed", "20260101", "--suppress-health-check", "all", "--continue-on-failure"),
            *("--generation-database", "none", "--request-timeout", "30", "--warnings", "off"),
        ],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds * 5 + 120,
        check=False,
    )
    log = (directory / "log").read_text(errors="replace")
    assert done.returncode == 0, f"{done.stdout.decode(errors='replace')[-12000:]}\n\n{log[-8000:]}"
    assert "Traceback" not in log


@pytest.mark.slow
def test_on_sqlite(tmp_path: Path) -> None:
    with running(tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite") as port:
        explore(tmp_path, port, "examples,coverage,fuzzing,stateful", 2, 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)],
)
def test_on_servers(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue(kind).create_database("explored")
    with running(tmp_path, url) as port:
        explore(tmp_path, port, "fuzzing", 1, 10)
