"""Malformed queries, paths, methods and headers."""

from __future__ import annotations

import json

import pytest

from neutrino.server.main import Server
from tests.api.client import PREFIX, Api
from tests.api.test_bad_input import BAD, INPUT, NOWHERE, send

QUERIES = [
    ("limit=many", 400, "BadRequest", "limit"),
    ("limit=-1", 400, "BadRequest", "limit"),
    ("limit=1.5", 400, "BadRequest", "limit"),
    ("limit=99999999999999999999", 400, "BadRequest", "limit"),
    (f"marker={NOWHERE}", 404, "NetworkNotFound", NOWHERE),
    (f"limit=1&marker={'m' * 300}", 404, "NetworkNotFound", "mmm"),
    ("sort_key=colour", 400, BAD, "colour"),
    ("sort_key=subnets", 400, BAD, "subnets"),
    ("sort_key=name&sort_dir=up", 400, BAD, "sort_dir"),
    ("sort_key=name&sort_dir=asc&sort_dir=desc", 400, BAD, "sort_dir"),
    ("colour=red", 400, BAD, "'colour'"),
    ("admin_state_up=perhaps", 400, INPUT, "admin_state_up"),
    ("mtu=many", 400, INPUT, "mtu"),
    ("revision_number=99999999999", 400, BAD, "revision_number"),
    ("changed_since=yesterday", 400, INPUT, "changed_since"),
    ("name=%00", 400, BAD, "name"),
    ("name=%ff", 400, BAD, "query string"),
    ("name=%ed%a0%80", 400, BAD, "query string"),
    ("&".join(f"name={i}" for i in range(1601)), 400, BAD, "name"),
    ("tags=" + ",".join(map(str, range(101))), 400, BAD, "tags"),
]


@pytest.mark.parametrize("query, status, error, part", QUERIES, ids=[q[0][:40] for q in QUERIES])
def test_a_query_that_is_refused(server: Server, query: str, status: int, error: str, part: str) -> None:
    answer = send(server, "GET", f"{PREFIX}/networks", query=query)
    assert (answer.status, answer.error) == (status, error)
    assert part in answer.message


HARMLESS = [
    "limit=",
    "limit=0",
    "marker=",
    "fields=",
    "fields=colour",
    "page_reverse=perhaps",
    "sort_key=name",
    "tags=",
    "not-tags=,,",
    "name=",
    "id=%25",
    "&&&",
    "name=%F0%9F%98%80",
    "&".join(f"name={i}" for i in range(1600)),
]


@pytest.mark.parametrize("query", HARMLESS, ids=lambda q: q[:40])
def test_a_query_that_means_nothing_is_answered(server: Server, query: str) -> None:
    answer = send(server, "GET", f"{PREFIX}/networks", query=query)
    assert answer.status == 200, answer


# --- paths and verbs --------------------------------------------------------------------------------------------------

PATHS = [
    ("GET", "/v3", 404, "HTTPNotFound"),
    ("GET", "/v2.0/weather", 404, "HTTPNotFound"),
    ("POST", "/v2.0/weather", 404, "HTTPNotFound"),
    ("GET", f"/v2.0/networks/{NOWHERE}/weather", 404, "HTTPNotFound"),
    ("GET", "/v2.0/extensions/weather", 404, "HTTPNotFound"),
    ("GET", f"/v2.0/networks/{NOWHERE}", 404, "NetworkNotFound"),
    ("GET", f"/v2.0/networks/{'n' * 3000}", 404, "NetworkNotFound"),
    ("GET", "/v2.0/networks/a%00b", 404, "HTTPNotFound"),
    ("GET", "/v2.0/networks/%ff%fe", 404, "NetworkNotFound"),
    ("GET", "/v2.0/networks/%F0%9F%98%80", 404, "NetworkNotFound"),
    ("DELETE", f"/v2.0/ports/{NOWHERE}", 404, "PortNotFound"),
    ("PUT", "/v2.0/networks", 404, "NetworkNotFound"),
    ("DELETE", "/v2.0/networks", 404, "NetworkNotFound"),
    ("PATCH", "/v2.0/networks", 405, "HTTPMethodNotAllowed"),
    ("POST", f"/v2.0/networks/{NOWHERE}", 405, "HTTPMethodNotAllowed"),
    ("PATCH", f"/v2.0/networks/{NOWHERE}", 405, "HTTPMethodNotAllowed"),
    ("DELETE", "/v2.0/extensions", 405, "HTTPMethodNotAllowed"),
    ("POST", "/", 405, "HTTPMethodNotAllowed"),
    ("HEAD", "/v2.0/networks", 405, ""),
]


@pytest.mark.parametrize("method, path, status, error", PATHS, ids=[f"{m} {p[:40]}" for m, p, _, _ in PATHS])
def test_a_path_or_verb_that_there_is_not(server: Server, method: str, path: str, status: int, error: str) -> None:
    answer = send(server, method, path)
    assert (answer.status, answer.error) == (status, error)
    if status == 405:
        assert "Allow" in answer.headers or "allow" in answer.headers


MESSAGES = [
    ("DELETE", "/v2.0/networks", "DELETE needs an id: /v2.0/networks/{id}."),
    ("PUT", "/v2.0/security-groups/", "PUT needs an id: /v2.0/security-groups/{id}."),
    ("DELETE", "/v2.0/floatingips.json", "DELETE needs an id: /v2.0/floatingips/{id}."),
    ("PUT", "/v2.0/qos/policies", "PUT needs an id: /v2.0/qos/policies/{id}."),
    ("DELETE", "/v2.0/network-ip-availabilities", "There is no DELETE of /v2.0/network-ip-availabilities."),
    ("PATCH", "/v2.0/networks", "PATCH is not allowed on this path, but GET and POST."),
    ("POST", f"/v2.0/networks/{NOWHERE}", "POST is not allowed on this path, but DELETE, GET and PUT."),
    ("PATCH", f"/v2.0/networks/{NOWHERE}/tags", "PATCH is not allowed on this path, but DELETE, GET, POST and PUT."),
    ("DELETE", "/v2.0/extensions", "DELETE is not allowed on this path, but GET."),
    (
        "DELETE",
        f"/v2.0/qos/policies/{NOWHERE}/bandwidth_limit_rules",
        "DELETE is not allowed on this path, but GET and POST.",
    ),
    ("DELETE", "/v2.0/weather", "The API has no path '/v2.0/weather'."),
    ("GET", "/v3/" + "x" * 3000, "The API has no path '/v3/" + "x" * 251 + "'."),
]


@pytest.mark.parametrize("method, path, message", MESSAGES, ids=[f"{m} {p[:40]}" for m, p, _ in MESSAGES])
def test_the_answer_says_what_is_wrong_with_the_path(server: Server, method: str, path: str, message: str) -> None:
    assert send(server, method, path).body["NeutronError"]["message"] == message


@pytest.mark.parametrize("path", ["/v2.0/networks.json", "/v2.0/networks/", "/v2.0/", "/v2.0/extensions.json", "/v2.0"])
def test_other_forms_of_a_path(server: Server, path: str) -> None:
    assert send(server, "GET", path).status == 200


def test_a_member_with_the_suffix(api: Api, server: Server) -> None:
    network = api.network()
    assert send(server, "GET", f"{PREFIX}/networks/{network['id']}.json").body["network"]["id"] == network["id"]


def test_options_tells_the_verbs(server: Server) -> None:
    answer = send(server, "OPTIONS", f"{PREFIX}/networks")
    assert answer.status == 200
    allowed = {k.lower(): v for k, v in answer.headers.items()}["allow"]
    assert {"GET", "POST"} <= {verb.strip() for verb in allowed.split(",")}


def test_names_in_paths_that_would_be_stored(server: Server, api: Api) -> None:
    """A tag and a project are named by the path itself, so the path is where their length is checked."""
    network = api.network()
    tag = send(server, "PUT", f"{PREFIX}/networks/{network['id']}/tags/{'t' * 256}")
    assert (tag.status, tag.error) == (400, INPUT)
    limits = json.dumps({"quota": {"network": 1}})
    quota = send(server, "PUT", f"{PREFIX}/quotas/{'p' * 256}", limits)
    assert quota.status == 400
    assert "project_id" in quota.message


# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, status",
    [
        ("revision_number={current}", 200),
        (" revision_number={current} ", 200),
        ("revision_number={other}", 412),
        ("revision_number=" + "9" * 18, 412),
        ("revision_number=" + "9" * 5000, 200),
        ("revision_number=-1", 200),
        ("revision_number=many", 200),
        ("*", 200),
        ('"an-etag"', 200),
        ("", 200),
    ],
    ids=lambda v: str(v)[:30],
)
def test_if_match(server: Server, api: Api, value: str, status: int) -> None:
    """Only `revision_number=N` is a condition; what else proxies and browsers put there is not for this server."""
    network = api.network()
    revision = network["revision_number"]
    header = value.format(current=revision, other=revision + 1) if "{" in value else value
    raw = json.dumps({"network": {"name": "changed"}})
    answer = send(server, "PUT", f"{PREFIX}/networks/{network['id']}", raw, {"If-Match": header})
    assert answer.status == status, answer
    if status == 412:
        assert answer.error == "RevisionNumberConstraintFailed"


@pytest.mark.parametrize("header", ["X-Project-Id", "X-Tenant-Id"])
def test_a_caller_with_a_project_that_cannot_be_one(server: Server, header: str) -> None:
    """Without authentication the caller names its project itself."""
    headers = {header: "p" * 256, "X-Roles": "member"}
    answer = send(server, "POST", f"{PREFIX}/networks", b'{"network": {}}', headers)
    assert (answer.status, answer.error) == (400, BAD)
    assert "X-Project-Id" in answer.message
    assert send(server, "GET", f"{PREFIX}/security-groups", headers=headers).status == 400
