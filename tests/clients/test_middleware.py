"""What stands before the application (request ids, CORS, health, a proxy), and the application under other servers."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.neutrino import Caller, Neutrino

ORIGIN = "https://dashboard.example.org"
DRAINED = Path(tempfile.gettempdir()) / f"neutrino-drained-{os.getpid()}"
WSGIREF = """
import socketserver, sys
from wsgiref.simple_server import WSGIServer, make_server
from neutrino.server.wsgi import application

class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

make_server("127.0.0.1", int(sys.argv[1]), application, Server).serve_forever()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    settings = {
        "cors": {"allowed_origin": ORIGIN},
        "oslo_middleware": {"enable_proxy_headers_parsing": True},
        "healthcheck": {"backends": "disable_by_file", "disable_by_file_path": DRAINED},
    }
    with Neutrino(settings) as running:
        yield running


@pytest.fixture(scope="module")
def call(server: Neutrino) -> Caller:
    return Caller(server.url)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/v2.0/networks", 200),
        ("GET", "/v2.0/networks/none", 404),
        ("GET", "/v2.0/nothing", 404),
        ("GET", "/nothing", 404),
        ("POST", "/v2.0/networks", 400),
        ("PATCH", "/v2.0/networks", 405),
    ],
)
def test_every_answer_has_a_request_id(call: Caller, method: str, path: str, status: int) -> None:
    answer = call(method, path)
    assert answer.status_code == status
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["X-Openstack-Request-Id"] != call(method, path).headers["X-Openstack-Request-Id"]


def test_a_browser_at_an_allowed_origin_may_ask(call: Caller) -> None:
    wanted = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "X-Auth-Token"}
    preflight = call("OPTIONS", "/v2.0/networks", headers={"Origin": ORIGIN, **wanted})
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "X-Auth-Token".lower() in preflight.headers["Access-Control-Allow-Headers"].lower()
    answer = call("GET", "/v2.0/networks", headers={"Origin": ORIGIN})
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "X-Openstack-Request-Id".lower() in answer.headers["Access-Control-Expose-Headers"].lower()
    for verb in ("PUT", "POST", "DELETE"):
        preflight = {"Origin": ORIGIN, "Access-Control-Request-Method": verb}
        assert call("OPTIONS", "/v2.0/networks", headers=preflight).headers["Access-Control-Allow-Methods"] == verb
    other = call("GET", "/v2.0/networks", headers={"Origin": "https://elsewhere.example.org"})
    assert "Access-Control-Allow-Origin" not in other.headers


def test_health(call: Caller) -> None:
    """A file takes the server out of its load balancer, as [healthcheck] says."""
    assert call("GET", "/healthcheck").status_code == 200
    DRAINED.touch()
    try:
        assert call("GET", "/healthcheck").status_code == 503
    finally:
        DRAINED.unlink()
    assert call("GET", "/healthcheck").status_code == 200
    assert Caller(call.url)("HEAD", "/healthcheck").status_code in (200, 204)


def test_links_are_those_that_the_proxy_was_asked_for(call: Caller) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "network.example.org"}
    [version] = call("GET", "/", headers=headers).json()["versions"]
    assert version["links"][0]["href"] == "https://network.example.org/v2.0/"
    below = {**headers, "X-Forwarded-Prefix": "/networking"}
    [version] = call("GET", "/", headers=below).json()["versions"]
    assert version["links"][0]["href"] == "https://network.example.org/networking/v2.0/"


class OtherServer(Neutrino):
    """The application under another WSGI server than the command's."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__()
        self._argv = argv

    def start(self) -> None:
        argv = [part.format(port=self.port) for part in self._argv]
        self.spawn(argv, {"NEUTRINO_CONFIG_FILES": str(self.config)}, ready=self._answers)
        self._ready = True


def other_servers() -> list[object]:
    directory = str(Path(sys.executable).parent)
    found: list[object] = [pytest.param([sys.executable, "-c", WSGIREF, "{port}"], id="wsgiref")]
    application = "neutrino.server.wsgi:application"
    if gunicorn := shutil.which("gunicorn", path=directory):
        found.append(
            pytest.param([gunicorn, "--bind", "127.0.0.1:{port}", "--threads", "2", application], id="gunicorn")
        )
    if uwsgi := shutil.which("uwsgi", path=directory):
        argv = [uwsgi, "--http-socket", "127.0.0.1:{port}", "--enable-threads", "--module", application]
        found.append(pytest.param(argv, id="uwsgi"))
    return found


@pytest.mark.parametrize("argv", other_servers())
def test_any_wsgi_server_serves_it(argv: Sequence[str]) -> None:
    with OtherServer(argv) as running:
        caller = Caller(running.url)
        network = caller.create("network", name="elsewhere")
        ports = [{"network_id": network["id"], "name": f"p{i}"} for i in range(3)]
        assert len(caller("POST", "/v2.0/ports", {"ports": ports}).json()["ports"]) == 3
        assert caller("GET", f"/v2.0/networks/{network['id']}.json").json()["network"]["name"] == "elsewhere"
        assert caller("GET", "/v2.0/ports?limit=2").json()["ports_links"][0]["href"].startswith(running.url)
        refused = caller("POST", "/v2.0/networks", {"network": {"mtu": "wide"}})
        assert refused.status_code == 400
        assert "mtu" in json.loads(refused.text)["NeutronError"]["message"]
