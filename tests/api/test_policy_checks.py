"""Rules with checks of other packages, which depend on the whole object, are evaluated for each object."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from oslo_policy import policy

from neutrino.model.objects import Object
from neutrino.server.api.authentication import Authentication
from neutrino.server.main import Server
from neutrino.server.policy.authorizer import Authorizer
from tests.api.client import Api


class NameCheck(policy.Check):
    """`probe:<text>`: an object whose name begins with the text. As a package's check, with the arguments of old."""

    def __call__(self, target: Any, credentials: Any, enforcer: Any) -> bool:  # type: ignore[override]
        return str(target.get("name", "")).startswith(self.match)


policy.register("probe", NameCheck)


class Decider:
    """An HTTP server that decides as `http:` rules ask it to."""

    def __init__(self) -> None:
        self.requests: list[Object] = []
        decider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                decider.requests.append(body)
                answer = b"True" if str(body["target"].get("name", "")).startswith("open") else b"False"
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/decide"


@pytest.fixture
def decider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Decider]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Decider()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


Make = Callable[..., Api]


@pytest.fixture
def with_rules(another_server: Callable[..., Server], tmp_path: Path) -> Make:
    def make(**rules: str) -> Api:
        path = tmp_path / "policy.yaml"
        path.write_text(json.dumps({name.replace("__", ":"): rule for name, rule in rules.items()}))
        options = {"policy_file": str(path), "remote_content_type": "application/json"}
        return Api(another_server({"oslo_policy": options}).app)

    return make


def names(api: Api, path: str = "/networks") -> list[str]:
    return sorted(one["name"] for one in api.all(path))


@pytest.mark.parametrize("check", ["probe", "http"])
def test_each_row_of_a_list_is_asked_for(with_rules: Make, decider: Decider, check: str) -> None:
    rule = "probe:open" if check == "probe" else decider.url
    api = with_rules(get_network=rule)
    made = {name: api.network(name=name)["id"] for name in ("open1", "shut1", "open2", "shut2")}
    stranger = api.as_stranger()
    stranger.network(name="open3")
    assert names(api) == ["open1", "open2"]  # its own only: an external check gives no access to other projects' rows
    assert names(api.as_admin()) == ["open1", "open2", "open3"]
    for name, key in made.items():
        api.get(f"/networks/{key}").expect(200 if name.startswith("open") else 404)


@pytest.mark.parametrize("check", ["probe", "http"])
def test_each_change_is_asked_for(with_rules: Make, decider: Decider, check: str) -> None:
    rule = "probe:open" if check == "probe" else decider.url
    api = with_rules(update_network=rule, delete_network=f"not {rule}", create_network=rule)
    shut = api.as_admin()
    shut.post("/networks", {"network": {"name": "shut"}}).refused(403, "PolicyNotAuthorized")
    first, second = api.network(name="open1"), api.network(name="open2")
    api.change("network", first["id"], name="shut")
    api.put(f"/networks/{first['id']}", {"network": {"name": "open"}}).refused(403, "PolicyNotAuthorized")
    api.change("network", second["id"], name="open3")
    api.delete(f"/networks/{second['id']}").refused(403, "PolicyNotAuthorized")
    api.delete(f"/networks/{first['id']}").expect(204)


def test_a_check_sees_the_whole_object_with_plain_values(with_rules: Make, decider: Decider) -> None:
    api = with_rules(get_port=f"rule:owner and {decider.url}")
    network = api.network()
    subnet = api.subnet(network)
    port = api.port(network, name="open", fixed_ips=[{"subnet_id": subnet["id"]}])
    decider.requests.clear()
    assert names(api, "/ports") == ["open"]
    (request,) = decider.requests
    assert request["rule"] == "get_port"
    assert request["target"]["fixed_ips"] == port["fixed_ips"]
    assert request["target"]["network:project_id"] == api.project
    assert api.get("/ports", {"fields": "id"}).body == {"ports": [{"id": port["id"]}]}


def test_a_hidden_attribute_is_asked_for_each_row(with_rules: Make) -> None:
    api = with_rules(get_network__mtu="probe:open")
    for name in ("open", "shut"):
        api.network(name=name)
    for caller in (api, api.as_admin()):
        assert {one["name"]: "mtu" in one for one in caller.all("/networks")} == {"open": True, "shut": False}


def test_what_an_object_is_not_says_nothing_without_an_object(with_rules: Make) -> None:
    """`not …` is true of no object at all, which does not open the objects of all projects."""
    api = with_rules(get_port="not rule:compute_device")
    network = api.network()
    api.port(network, name="free")
    api.port(network, name="used", device_owner="compute:nova")
    stranger = api.as_stranger()
    stranger.port(stranger.network(), name="anothers")
    assert names(api, "/ports") == ["free"]
    assert names(api.as_admin(), "/ports") == ["anothers", "free"]


def test_decisions_for_one_domain_are_not_anothers(another_server: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text('"update_network": "domain_id:d1"\n"get_network": "system_scope:all"\n')
    server = another_server({"oslo_policy": {"policy_file": str(path)}})
    authorizer = Authorizer(server.conf)
    who = Authentication(authorizer, keystone=True)
    environ = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_ROLES": "member", "HTTP_X_USER_ID": "u"}
    for domain, allowed in (("d1", True), ("d2", False), ("d1", True)):
        context = who.context({**environ, "HTTP_X_DOMAIN_ID": domain}, "req-1")
        assert authorizer.allows(context, "update_network", {}) is allowed
        assert not authorizer.allows(context, "get_network", {})
    context = who.context({**environ, "HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}, "req-1")
    assert authorizer.allows(context, "get_network", {})
    assert authorizer.allows(replace(context, request_id="req-2"), "get_network", {})
