"""A running server without authentication: what a web page could send to it is refused on the wire as well."""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.neutrino import Neutrino

BODY = b'{"network": {}}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino() as running:
        yield running


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 201),
        ({}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Host": "page.example"}, 403),
        ({**JSON, "Host": "localhost:1"}, 201),
        ({**JSON, "Origin": "https://page.example"}, 403),
        ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_request_that_a_page_could_send(server: Neutrino, headers: dict[str, str], status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/v2.0/networks", BODY, headers)
    answer = connection.getresponse()
    assert (answer.status, answer.read()[:1]) == (status, b"{")
    connection.close()


def test_curl_with_json_works(server: Neutrino) -> None:
    command = ["curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/v2.0/networks"]
    post = ["-d", BODY.decode()]
    for more, status in ((["-H", "Content-Type: application/json"], "201"), ([], "415")):
        done = subprocess.run([*command, *more, *post], capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == status
