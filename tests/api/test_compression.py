"""Compressed lists: negotiated, from a size on, and never with secrets."""

from __future__ import annotations

import gzip
import io
import ipaddress
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from neutrino.server.api.app import SMALL
from neutrino.server.main import Server
from tests.api.client import ADMIN, Api

LONG = "x" * 200


def fetch(
    server: Server, api: Api, path: str, accepted: str | None, query: str = ""
) -> tuple[int, dict[str, str], bytes]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "9696",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
        "HTTP_X_PROJECT_ID": api.project,
        "HTTP_X_ROLES": ADMIN,
    }
    if accepted is not None:
        environ["HTTP_ACCEPT_ENCODING"] = accepted
    started: list[Any] = []
    body = b"".join(server.app(environ, lambda status, headers, *_: started.extend((status, headers))))
    return int(started[0][:3]), dict(started[1]), body


@pytest.fixture(scope="module")
def owner(server: Server) -> Api:
    """Has networks of 30 kB together."""
    admin = Api(server.app).as_admin()
    for number in range(60):
        admin.network(name=f"n{number}", description=LONG)
    return admin


@pytest.mark.parametrize("query", ["", "limit=50", "sort_key=name"])
def test_a_large_list_is_compressed(server: Server, owner: Api, query: str) -> None:
    _, plain_headers, plain = fetch(server, owner, "/v2.0/networks", None, query)
    status, headers, packed = fetch(server, owner, "/v2.0/networks", "gzip, deflate", query)
    assert (status, headers["content-encoding"], headers["vary"]) == (200, "gzip", "Accept-Encoding")
    assert int(headers["content-length"]) == len(packed) < len(plain) / 5
    assert gzip.decompress(packed) == plain
    assert "content-encoding" not in plain_headers
    assert plain_headers["vary"] == "Accept-Encoding"  # a cache must not give this one to all


@pytest.mark.parametrize("accepted", [None, "", "identity", "br", "gzip;q=0", "gzip; q=0.000"])
def test_not_for_clients_that_do_not_accept_it(server: Server, owner: Api, accepted: str | None) -> None:
    _, headers, body = fetch(server, owner, "/v2.0/networks", accepted)
    assert "content-encoding" not in headers
    assert len(json.loads(body)["networks"]) == 60


def test_small_lists_and_single_objects_are_sent_as_they_are(server: Server, owner: Api) -> None:
    _, headers, body = fetch(server, owner, "/v2.0/networks", "gzip", "limit=2")
    assert "content-encoding" not in headers
    one = json.loads(body)["networks"][0]["id"]
    assert "content-encoding" not in fetch(server, owner, f"/v2.0/networks/{one}", "gzip")[1]


def test_a_list_that_is_sent_in_parts(server: Server, owner: Api) -> None:
    """One that stays large when it is compressed is streamed: its length is known all the same."""
    admin, addresses = owner.as_admin(), random.Random(1)
    for number in range(100):
        several = [f"{ipaddress.IPv6Address(addresses.getrandbits(128))}/128" for _ in range(250)]
        admin.make("address_group", name=f"g{number}", addresses=several, project_id=f"p{number}")
    _, headers, packed = fetch(server, admin, "/v2.0/address-groups", "gzip")
    assert headers["content-encoding"] == "gzip"
    assert int(headers["content-length"]) == len(packed) > SMALL
    assert len(json.loads(gzip.decompress(packed))["address_groups"]) == 100


def test_lists_with_secrets_are_not_compressed(server: Server, owner: Api) -> None:
    """A tenant who could repeat parts of a key elsewhere in the answer would learn from its length that they are right."""
    status, headers, _ = fetch(server, owner, "/v2.0/vpn/ipsec-site-connections", "gzip")
    assert (status, "vary" in headers) == (200, False)


def test_an_operator_may_leave_it_to_a_proxy(another_server: Callable[..., Server]) -> None:
    server = another_server({"DEFAULT": {"compress_from": "0"}})
    admin = Api(server.app).as_admin()
    for number in range(80):
        admin.network(name=f"n{number}", description=LONG)
    _, headers, body = fetch(server, admin, "/v2.0/networks", "gzip")
    assert {"vary", "content-encoding"}.isdisjoint(headers)
    assert len(body) > 16384
