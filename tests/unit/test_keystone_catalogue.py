"""Services that are added to Keystone's catalogue, or move, while the server runs and has a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from neutrino.configuration.options import Configuration
from neutrino.features.baremetal import ironic
from neutrino.features.baremetal.notifications import notifier_from_conf
from neutrino.server.config import configuration
from neutrino.server.placement import Unavailable, caller

NOBODY = "http://127.0.0.1:1"


class Keystone:
    """Also answers for Placement, below /placement."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.service = "placement"  # its type
        self.endpoint = ""
        self.tokens = 0

    def token(self) -> dict[str, Any]:
        self.tokens += 1
        endpoint = {"interface": "public", "region": "one", "region_id": "one", "url": self.endpoint, "id": "1"}
        catalog = [{"type": self.service, "name": "service", "id": "p", "endpoints": [endpoint]}]
        known = catalog if self.endpoint else []
        return {"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": known, "methods": ["password"]}}

    def answer(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        if method == "POST":
            return 201, self.token()
        if path.startswith("/placement"):
            versions = [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT", "links": []}]
            return 200, {"versions": versions}
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{self.url}/v3/"}]}
        return 200, {"versions": {"values": [version]}}


@pytest.fixture
def keystone() -> Iterator[Keystone]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = made.answer(self.command, self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Subject-Token", "the-token")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Keystone(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def configured(keystone: Keystone, directory: Path, section: str) -> Configuration:
    file = directory / "neutrino.conf"
    file.write_text(
        f"[{section}]\nauth_type = password\nauth_url = {keystone.url}\nusername = neutron\npassword = secret\n"
        "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\nregion_name = one\n"
    )
    return configuration([str(file)])


def test_a_service_that_is_added_or_moves_is_found(keystone: Keystone, tmp_path: Path) -> None:
    call = caller(configured(keystone, tmp_path, "placement"), "placement", "placement", "1.28", "test")
    with pytest.raises(Unavailable, match="catalog"):
        call("GET", "/resource_providers", None)
    keystone.endpoint = NOBODY
    with pytest.raises(Unavailable, match=NOBODY):
        call("GET", "/resource_providers", None)
    keystone.endpoint = f"{keystone.url}/placement"
    for _ in range(2):
        assert call("GET", "/resource_providers", None).status == 200
    assert keystone.tokens == 3, "a token is kept while its catalogue serves"


def test_events_to_ironic_follow_it_too(keystone: Keystone, tmp_path: Path) -> None:
    keystone.service, keystone.endpoint = "baremetal", NOBODY
    notifier = notifier_from_conf(configured(keystone, tmp_path, "ironic"))
    try:
        with pytest.raises(ironic.Unavailable, match=NOBODY):
            notifier.post(b"{}")
        keystone.endpoint = f"{keystone.url}/placement"
        assert notifier.post(b"{}") == 201
    finally:
        notifier.close()
