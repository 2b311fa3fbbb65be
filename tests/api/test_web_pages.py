"""Requests that a web page can make a browser send to a server without authentication on the same machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from neutrino.server.main import Server
from tests.api.client import Api, Response

PAGE = "https://page.example"


def create(api: Api, **headers: str) -> Response:
    return api.post("/networks", {"network": {}}, headers={name.replace("_", "-"): v for name, v in headers.items()})


@pytest.mark.parametrize(
    "type_", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
)
def test_a_body_must_say_that_it_is_json(api: Api, type_: str) -> None:
    """These are the types that a page may send to another site without asking it first, and none at all."""
    create(api, Content_Type=type_).refused(415, "HTTPUnsupportedMediaType")
    network = api.network()["id"]
    api.put(f"/networks/{network}", {"network": {"name": "x"}}, headers={"Content-Type": type_}).expect(415)
    api.delete(f"/networks/{network}", {}, headers={"Content-Type": type_}).expect(415)
    api.put(f"/networks/{network}/tags/x").expect(201)  # a request without a body needs no content type
    api.delete(f"/networks/{network}", headers={"Content-Type": type_}).expect(204)


@pytest.mark.parametrize("type_", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken(api: Api, type_: str) -> None:
    create(api, Content_Type=type_).expect(201)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9696", "127.0.0.1", "127.8.8.8:1", "[::1]:9696", "[::1]", "localhost", "LOCALHOST:9696", "server-1"],
)
def test_names_of_this_machine_are_answered_to(api: Api, host: str) -> None:
    create(api, Host=host).expect(201)
    create(api, Host=host, Origin=f"http://{host}").expect(201)


@pytest.mark.parametrize(
    "host",
    [
        "page.example",
        "page.example:9696",
        "127.0.0.1.page.example",
        "localhost.page.example:9696",
        "0.0.0.0:9696",
        "10.0.0.1",
    ],
)
def test_a_name_that_was_made_to_mean_this_machine_is_not_answered_to(api: Api, host: str) -> None:
    """DNS rebinding: for the browser it is the page's own site."""
    for headers in ({}, {"Origin": f"http://{host}"}, {"Sec-Fetch-Site": "same-origin"}):
        refused = api.get("/networks", headers={"Host": host, **headers}).refused(403, "HTTPForbidden")
        assert host in refused.message
        assert refused.headers["x-openstack-request-id"].startswith("req-")
    create(api, Host=host).expect(403)


@pytest.mark.parametrize("origin", [PAGE, "null", "http://127.0.0.1:8000", "http://localhost:9696", "file://"])
def test_a_page_of_another_site_is_not_let_in(api: Api, origin: str) -> None:
    before = len(api.all("/networks"))
    for method in ("GET", "POST", "OPTIONS"):
        api.call(method, "/networks", headers={"Host": "127.0.0.1:9696", "Origin": origin}).refused(
            403, "HTTPForbidden"
        )
    create(api, Host="127.0.0.1:9696", Origin=origin).expect(403)
    assert len(api.all("/networks")) == before


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_a_page_that_does_not_tell_its_origin_is_known_by_its_site(api: Api, site: str, status: int) -> None:
    api.get("/networks", headers={"Host": "localhost:9696", "Sec-Fetch-Site": site}).expect(status)


def test_a_site_that_the_operator_lets_in(another_server: Callable[..., Server]) -> None:
    api = Api(another_server({"cors": {"allowed_origin": PAGE}}).app)
    answer = create(api, Host="127.0.0.1:9696", Origin=PAGE).expect(201)
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    create(api, Host="127.0.0.1:9696", Origin="https://other.example").expect(403)


def test_beyond_loopback_any_name_is_answered_to(another_server: Callable[..., Server]) -> None:
    """allow_noauth_beyond_loopback: pages of other sites are still refused."""
    for host in ("0.0.0.0", "127.0.0.1"):
        options = {"bind_host": host, "allow_noauth_beyond_loopback": "true"}
        api = Api(another_server({"DEFAULT": options}).app)
        create(api, Host="cloud.example:9696").expect(201)
        create(api, Host="cloud.example:9696", Origin=PAGE).expect(403)
        create(api, Host="cloud.example:9696", Content_Type="").expect(415)
