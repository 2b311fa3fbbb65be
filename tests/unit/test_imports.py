"""What the server does not load: these modules would take memory of all its processes, and time of its start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFIGURATION = """[DEFAULT]
auth_strategy = noauth
state_path = {directory}
{options}
"""
# As the command does it, up to the fork of workers and feed.
LOAD = """
import sys
import neutrino.cli.server
from neutrino.cli import workers
workers.load(sys.argv[1:])
"""
PRINT_MODULES = "print(*sys.modules)"
# Loaded where an option or a request needs it.
ON_DEMAND = {
    "alembic": "a schema of another version",
    "bcrypt": "oslo.middleware",
    "cryptography": "certificates that `neutrino pki` makes",
    "difflib": "an unknown option",
    "dns": "external_dns_driver = rfc2136",
    "greenlet": "oslo.middleware",
    "jinja2": "oslo.middleware",
    "jsonschema": "tests",
    "keystoneauth1": "credentials of Nova, Placement or Designate",
    "keystonemiddleware": "auth_strategy = keystone",
    "neutrino.agent": "`neutrino agent`",
    "neutrino.dataplane": "`neutrino agent`",
    "neutrino.lab.hosts": "`neutrino lab`",
    "neutrino.server.trace.tracer": "a trace",
    "oslo_messaging": "notifications",
    "oslo_middleware": "[cors], [healthcheck], enable_proxy_headers_parsing",
    "psycopg": "PostgreSQL",
    "pymysql": "MariaDB",
    "sqlalchemy.dialects.mysql": "MariaDB",
    "sqlalchemy.dialects.postgresql": "PostgreSQL",
    "sqlalchemy.orm": "nothing",
    "webob": "oslo.middleware",
}
HEALTH = """
for method, accept in (("GET", "*/*"), ("HEAD", "*/*"), ("GET", "application/json")):
    environ = {"REQUEST_METHOD": method, "PATH_INFO": "/healthcheck", "HTTP_ACCEPT": accept, "wsgi.url_scheme": "http"}
    environ |= {"SERVER_NAME": "localhost", "SERVER_PORT": "9696", "SERVER_PROTOCOL": "HTTP/1.1"}
    sent = []
    body = b"".join(workers._server.app(environ, lambda *answer: sent.extend(answer[:2])))
    print(method, accept, sent[0], sorted(sent[1]), body.decode().split())
    print("webob" in sys.modules)
"""


# Commands that run on hosts or at operators' desks; some stay: what the agent imports is in the memory of each host.
WITHOUT_THE_SERVER = ("main", "agent", "lab", "doctor.command", "status.command", "trace.command", "history.command")
OF_THE_SERVER = ("neutrino.server", "neutrino.takeover", "neutrino.features", "sqlalchemy")


def run(directory: Path, program: str, options: str = "") -> str:
    file = directory / "neutrino.conf"
    file.write_text(CONFIGURATION.format(directory=directory, options=options))
    command = [sys.executable, "-W", "ignore", "-c", program, str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return frozenset(run(tmp_path_factory.mktemp("server"), LOAD + PRINT_MODULES).split())


@pytest.mark.parametrize("name", ON_DEMAND)
def test_the_server_does_not_load_it(name: str, loaded: frozenset[str]) -> None:
    assert name not in loaded, f"{name} is needed for {ON_DEMAND[name]}: import it there"


def test_commands_do_not_load_the_server() -> None:
    program = "".join(f"import neutrino.cli.{name}\n" for name in WITHOUT_THE_SERVER)
    command = [sys.executable, "-W", "ignore", "-c", f"import sys\n{program}{PRINT_MODULES}"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in loaded if name.startswith(OF_THE_SERVER)] == []


def test_what_every_process_needs_is_loaded_before_the_fork(loaded: frozenset[str]) -> None:
    assert {"sqlite3", "neutrino.server.feed.server", "websockets.asyncio.server"} <= loaded


def test_options_load_what_they_need(tmp_path: Path) -> None:
    found = run(tmp_path, LOAD + PRINT_MODULES, "[cors]\nallowed_origin = https://cloud.example.org\n").split()
    assert "oslo_middleware.cors" in found


def test_health_check_answers_as_the_library(tmp_path: Path) -> None:
    """Without options it is loaded for answers in other formats only; with options it gives all of them."""
    without = run(tmp_path, LOAD + HEALTH).splitlines()
    by_library = run(tmp_path, LOAD + HEALTH, "[healthcheck]\ndetailed = false\n").splitlines()
    assert without[::2] == by_library[::2]
    assert without[1::2] == ["False", "False", "True"]
    assert by_library[1::2] == ["True", "True", "True"]
