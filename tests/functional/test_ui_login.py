"""Login of the topology page at a real Keystone, what members see, and what the server keeps secret."""

from __future__ import annotations

import http
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.support.browser import Browser, Page
from tests.support.keystone import Keystone
from tests.support.neutrino import Caller, Neutrino, with_keystone

pytestmark = pytest.mark.keystone
PASSWORD = "correct horse"
ATTEMPTS = 4
PERIOD = 300  # seconds, much longer than so many attempts take on a busy machine


@dataclass(frozen=True)
class Cloud:
    server: Neutrino
    keystone: Keystone
    projects: dict[str, str]

    def caller(self, user: str, project: str) -> Caller:
        return Caller(self.server.url, {"X-Auth-Token": self.keystone.token(user, PASSWORD, project)})

    def post(self, body: dict[str, Any], **headers: str) -> requests.Response:
        return Caller(self.server.url)("POST", "/ui/login", body, headers)


@pytest.fixture(scope="module")
def cloud(keystone: Keystone) -> Iterator[Cloud]:
    projects = {name: keystone.create_project(name) for name in ("ui-red", "ui-green")}
    keystone.create_user("ui-alice", PASSWORD, projects["ui-red"], ["member", "reader"])
    both = keystone.create_user("ui-bob", PASSWORD, projects["ui-green"], ["member", "reader"])
    keystone.grant(both, projects["ui-red"], "reader")
    admin = keystone.create_user("ui-root", PASSWORD, projects["ui-green"], ["admin", "member", "reader"])
    keystone.grant(admin, projects["ui-red"], "admin")
    settings = {**with_keystone(keystone), "ui": {"login_attempts": ATTEMPTS, "login_period": PERIOD}}
    settings["oslo_middleware"] = {"enable_proxy_headers_parsing": True}  # a test is several clients
    with Neutrino(settings) as server:
        made = Cloud(server, keystone, projects)
        for user, project in (("ui-alice", "ui-red"), ("ui-bob", "ui-green")):
            api = made.caller(user, project)
            network = api.create("network", name=f"{project}-net")
            api.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", name=f"{project}-v4")
            api.create("port", network_id=network["id"], name=f"{project}-port")
        root = made.caller("ui-root", "ui-green")
        root.create("network", name="ui-public", **{"router:external": True})
        shared = root.create("network", name="ui-shared", shared=True, project_id=keystone.create_project("ui-blue"))
        root.create("subnet", network_id=shared["id"], ip_version=4, cidr="10.5.0.0/24", name="ui-shared-v4")
        root.create("port", network_id=shared["id"])
        yield made


@pytest.fixture
def page(browser: Browser, cloud: Cloud) -> Iterator[Page]:
    with browser.page() as opened:
        opened.goto(f"{cloud.server.url}/ui/")
        opened.wait_for("document.querySelector('.login-form input[name=user]') !== null")
        yield opened


def log_in(page: Page, **values: str) -> None:
    for name, value in values.items():
        page.fill(f"input[name={name}]", value)
    page.press("Enter")


def test_a_member_sees_its_project_and_what_is_not_visible(page: Page, cloud: Cloud) -> None:
    page.screenshot("login")
    log_in(page, user="ui-alice", password="wrong")
    page.wait_for_text("Login failed", "[role=alert]")
    assert page.evaluate("document.querySelector('input[name=user]').value") == "ui-alice"
    assert page.evaluate("document.querySelector('input[name=password]').value") == ""
    page.screenshot("login-failed")
    log_in(page, password=PASSWORD)
    page.wait_for_text("Live", ".connection")
    page.wait_for_text("ui-red-net", ".n-network")
    page.wait_for_text("ui-alice · ui-red", ".account")
    assert "ui-green-net" not in page.evaluate("document.body.textContent")
    assert page.texts(".n-external .t-name") == ["ui-public"]
    page.screenshot("member-topology")
    page.click("nav a[href='#/hosts']")
    page.wait_for_text("Hosts are not visible to you")
    page.screenshot("member-hosts")
    page.click("nav a[href='#/health']")
    page.wait_for_text("visible to administrators only", ".notice")
    page.wait_for_text("1 down", ".tile")
    page.click("nav a[href='#/subnets']")
    page.wait_for_text("1 of 253 used", ".usage-list")
    page.wait_for_text("at least 0 of 253 used", ".usage-list")  # ports of others are not visible
    page.wait_for_text("counted from the ports that you see", ".notice")
    page.screenshot("member-subnets")
    page.click("nav a[href='#/trace']")
    page.wait_for_text("Trace a packet")
    cloud.caller("ui-alice", "ui-red").create("network", name="ui-later")
    page.click("nav a[href='#/topology']")
    page.wait_for_text("ui-later", ".n-network")


def test_the_token_is_in_the_tab_and_forgotten(page: Page, cloud: Cloud) -> None:
    log_in(page, user="ui-alice", password=PASSWORD)
    page.wait_for_text("Live", ".connection")
    assert page.evaluate("document.cookie") == ""
    assert "gAAAA" not in page.evaluate("location.href")
    assert "gAAAA" not in page.evaluate("JSON.stringify(localStorage)")
    assert PASSWORD not in page.evaluate("JSON.stringify(sessionStorage)")
    page.call("Page.reload")
    page.wait_for_text("ui-red-net", ".n-network")
    page.click("[aria-label='Log out']")
    page.wait_for("document.querySelector('.login-form') !== null")
    assert page.evaluate("JSON.stringify(sessionStorage)") == "{}"
    assert "ui-red-net" not in page.evaluate("document.body.textContent")


def test_a_token_that_ends_asks_for_a_login(page: Page, cloud: Cloud) -> None:
    log_in(page, user="ui-alice", password=PASSWORD)
    page.wait_for_text("Live", ".connection")
    page.evaluate(
        "sessionStorage.setItem('neutrino-session', JSON.stringify("
        "{...JSON.parse(sessionStorage.getItem('neutrino-session')), token: 'gone'}))"
    )
    page.call("Page.reload")
    page.wait_for_text("The login has expired", ".banner")
    page.click(".banner button")
    page.wait_for("document.querySelector('.login-form') !== null")


def test_a_token_and_a_choice_of_projects(page: Page, cloud: Cloud) -> None:
    password = {"user": {"name": "ui-bob", "domain": {"id": "default"}, "password": PASSWORD}}
    auth = {"identity": {"methods": ["password"], "password": password}, "scope": {"unscoped": {}}}
    unscoped = Caller(cloud.keystone.url)("POST", "/auth/tokens", {"auth": auth}).headers["X-Subject-Token"]
    page.click("[role=tab]", containing="Token")
    log_in(page, token=unscoped)
    page.wait_for_text("Choose a project", ".login-form")
    assert sorted(page.texts("option")) == ["ui-green", "ui-red"]
    page.screenshot("login-project")
    page.choose("select", cloud.projects["ui-red"])
    page.set_offline(True)  # a choice that fails can be tried again
    page.click("button[type=submit]")
    page.wait_for_text("does not answer", "[role=alert]")
    page.wait_for(f"document.querySelector('select').value === '{cloud.projects['ui-red']}'")
    page.set_offline(False)
    page.click("button[type=submit]")
    page.wait_for_text("ui-red-net", ".n-network")
    assert "ui-green-net" not in page.evaluate("document.body.textContent")


def test_an_administrator_sees_all_projects_by_name(page: Page, cloud: Cloud) -> None:
    log_in(page, user="ui-root", password=PASSWORD, project="ui-red")
    page.wait_for_text("ui-red-net", ".n-network")
    page.wait_for_text("ui-green-net", ".n-network")
    page.wait_for_text("ui-green", ".box")
    page.wait_for_text("ui-blue", ".box")  # a project that the user has no role on
    page.screenshot("admin-topology")
    page.wait_for("[...document.querySelectorAll('select.project option')].map((o) => o.text).includes('ui-red')")
    page.choose("select.project", cloud.projects["ui-red"])
    page.wait_until_gone("ui-green-net", ".n-network")
    page.click("nav a[href='#/health']")
    page.wait_for_text("round trip", ".tile")


def test_another_project_without_a_new_login(page: Page, cloud: Cloud) -> None:
    red, green = cloud.projects["ui-red"], cloud.projects["ui-green"]
    log_in(page, user="ui-bob", password=PASSWORD, project="ui-green")
    page.wait_for_text("ui-green-net", ".n-network")
    page.set_offline(True)  # a switch that fails leaves the project as it was
    page.choose("select.switch", red)
    page.wait_for(f"document.querySelector('select.switch').value === '{green}'")
    page.set_offline(False)
    page.choose("select.switch", red)
    page.wait_for_text("ui-red-net", ".n-network")
    assert "ui-green-net" not in page.evaluate("document.body.textContent")
    assert page.evaluate("JSON.parse(sessionStorage.getItem('neutrino-session')).project_id") == red


def test_an_application_credential(cloud: Cloud) -> None:
    alice = Caller(cloud.keystone.url, {"X-Auth-Token": cloud.keystone.token("ui-alice", PASSWORD, "ui-red")})
    user = cloud.post({"method": "password", "user": "ui-alice", "password": PASSWORD}).json()["user_id"]
    made = alice("POST", f"/users/{user}/application_credentials", {"application_credential": {"name": "page"}})
    assert made.status_code == http.HTTPStatus.CREATED, made.text
    credential = made.json()["application_credential"]
    given = {"method": "application_credential", "credential_id": credential["id"]}
    answer = cloud.post({**given, "secret": credential["secret"]})
    assert (answer.status_code, answer.json()["project"]) == (http.HTTPStatus.OK, "ui-red")
    assert cloud.post({**given, "secret": "wrong"}, **{"X-Forwarded-For": "192.0.2.77"}).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "wrong"},
        {"user": "ui-nobody"},
        {"project": "ui-none"},
        {"project": "ui-green"},
        {"user_domain": "elsewhere"},
        {"method": "token", "token": "wrong"},
    ],
)
def test_errors_do_not_tell_what_was_wrong(cloud: Cloud, wrong: dict[str, str]) -> None:
    right = {"method": "password", "user": "ui-alice", "password": PASSWORD, "project": "ui-red"}
    answer = cloud.post({**right, **wrong}, **{"X-Forwarded-For": f"192.0.2.{sum(map(ord, str(wrong))) % 250}"})
    assert answer.status_code == http.HTTPStatus.UNAUTHORIZED, answer.text
    assert answer.json()["NeutronError"]["message"] == (
        "Login failed: the credentials are wrong, or the user has no role on this project."
    )


def test_failures_are_limited_and_nothing_is_logged(cloud: Cloud) -> None:
    given = {"method": "password", "user": "ui-alice", "password": "guess-number-one"}
    found = [cloud.post(given, **{"X-Forwarded-For": "198.51.100.7"}) for _ in range(ATTEMPTS + 1)]
    assert [answer.status_code for answer in found] == [401] * ATTEMPTS + [429]
    assert 0 < int(found[-1].headers["Retry-After"]) <= PERIOD + 1
    log = cloud.server.log
    assert "guess-number-one" not in log
    assert PASSWORD not in log
    assert "gAAAA" not in log
    assert "Traceback" not in log


def test_the_page_is_public_and_the_api_is_not(cloud: Cloud) -> None:
    anyone = Caller(cloud.server.url)
    assert anyone("GET", "/ui/").status_code == http.HTTPStatus.OK
    assert anyone("GET", "/ui/session").json()["auth"] == "keystone"
    assert anyone("GET", "/v2.0/networks").status_code == http.HTTPStatus.UNAUTHORIZED
    assert anyone("GET", "/uix").status_code == http.HTTPStatus.UNAUTHORIZED
    cross = anyone("POST", "/ui/login", {"method": "token", "token": "x"}, {"Sec-Fetch-Site": "cross-site"})
    assert cross.status_code == http.HTTPStatus.FORBIDDEN


def test_a_keystone_that_does_not_answer(keystone: Keystone) -> None:
    settings = {name: dict(values) for name, values in with_keystone(keystone).items()}
    settings["keystone_authtoken"]["auth_url"] = "http://127.0.0.1:1/v3"
    with Neutrino(settings) as server:
        answer = Caller(server.url)("POST", "/ui/login", {"method": "password", "user": "u", "password": "hidden-word"})
        assert answer.status_code == http.HTTPStatus.BAD_GATEWAY
        assert "hidden-word" not in server.log
        assert "Keystone cannot be used for a login" in server.log
