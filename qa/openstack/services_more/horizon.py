"""Horizon: the dashboard with Keystone and neutrino, and a browser that submits its forms."""

from __future__ import annotations

import html.parser
import re
import urllib.parse
from typing import Any

import requests

from qa.openstack.checks.expect import CheckError, expect
from qa.openstack.cloud import ADDRESS, PASSWORD, Cloud
from qa.openstack.services_more.environment import PORTS, more

NAME = "horizon"
PAGE_SECONDS = 120
LOCAL_SETTINGS = """\
from openstack_dashboard.defaults import *
DEBUG = False
ALLOWED_HOSTS = ["*"]
SECRET_KEY = "of a cloud that only its namespaces reach"
OPENSTACK_KEYSTONE_URL = "{auth_url}"
OPENSTACK_KEYSTONE_DEFAULT_ROLE = "member"
SESSION_ENGINE = "django.contrib.sessions.backends.file"
SESSION_FILE_PATH = "{sessions}"
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
# Style sheets are not what is tested.
COMPRESS_ENABLED = False
COMPRESS_PRECOMPILERS = ()
"""
ALERT = re.compile(r"alert-danger alert-dismissable[^>]*>(.*?)</div>", re.DOTALL)
ERROR = re.compile(r'class="(?:help-block|error)[^"]*"[^>]*>(.*?)</', re.DOTALL)


def start(cloud: Cloud) -> None:
    """Start Horizon, unless it runs."""
    if NAME in cloud.started:
        return
    home = cloud.directory("etc", NAME)
    (home / "local").mkdir(exist_ok=True)
    (home / "local" / "__init__.py").touch()
    settings = LOCAL_SETTINGS.format(auth_url=cloud.auth_url, sessions=cloud.directory(NAME, "sessions"))
    (home / "local" / "local_settings.py").write_text(settings)
    environment = {"PYTHONPATH": str(home), "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings"}
    with more(cloud):
        cloud.wsgi(NAME, "openstack_dashboard.wsgi:application", environment, port=PORTS[NAME])
    cloud.add_started(NAME)


class Form(html.parser.HTMLParser):
    """The fields of the first form that submits to `action`, with the values that a browser would send."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self.choices: dict[str, list[str]] = {}
        self._action = urllib.parse.urlparse(action).path
        self._state = "before"
        self._select = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and self._state == "before" and self._matches(values.get("action", "")):
            self._state = "inside"
        if self._state != "inside":
            return
        name = values.get("name", "")
        if tag == "input" and name and values.get("type") not in ("submit", "button", "file"):
            boxes = values.get("type") in ("checkbox", "radio")
            if not boxes or "checked" in values:
                self.fields.setdefault(name, []).append(values.get("value", "on" if boxes else ""))
        elif tag == "textarea" and name:
            self._text = name
            self.fields[name] = [""]
        elif tag == "select" and name:
            self._select = name
        elif tag == "option" and self._select:
            self.choices.setdefault(self._select, []).append(values.get("value", ""))
            if "selected" in values or self._select not in self.fields:
                self.fields[self._select] = [values.get("value", "")]

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._state == "inside":
            self._state = "after"
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._text = ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.fields[self._text] = [data.lstrip("\n")]

    @property
    def found(self) -> bool:
        return self._state != "before"

    def _matches(self, action: str) -> bool:
        return urllib.parse.urlparse(action).path in (self._action, "") or action.endswith("#")


class Browser:
    """A session of one user."""

    def __init__(self, user: str) -> None:
        self.base = f"http://{ADDRESS}:{PORTS[NAME]}"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of the environment for a namespace
        self.login(user)

    def login(self, user: str) -> None:
        """Log in; Horizon chooses the user's project."""
        form = self.form("/auth/login/")
        values = {**form.fields, "username": [user], "password": [PASSWORD]}
        answer = self._send("/auth/login/", values)
        expect("/auth/login" not in answer.url, f"{user} cannot log in: {_errors(answer.text)}")

    def get(self, path: str) -> str:
        """A page; CheckError unless it is there, without an error message of the API."""
        answer = self._session.get(self.base + path, timeout=PAGE_SECONDS)
        expect(answer.ok and "/auth/login" not in answer.url, f"GET {path}: {answer.status_code} at {answer.url}")
        if alerts := _alerts(answer.text):
            raise CheckError(f"GET {path}: {alerts}")
        return answer.text

    def json(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Horizon's own REST API, which its Angular pages use."""
        headers = {"X-Requested-With": "XMLHttpRequest", "X-CSRFToken": self._session.cookies.get("csrftoken") or ""}
        answer = self._session.request(
            method, self.base + path, json=body, headers=headers, timeout=PAGE_SECONDS, allow_redirects=False
        )
        expect(answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def form(self, path: str) -> Form:
        form = Form(path)
        form.feed(self._session.get(self.base + path, timeout=PAGE_SECONDS).text)
        expect(form.found, f"GET {path}: no form")
        return form

    def submit(self, path: str, **values: object) -> str:
        """Fill in a form and submit it; CheckError with its messages if it comes back."""
        form = self.form(path)
        fields = dict(form.fields)
        for name, value in values.items():
            fields.pop(name, None)
            if value is not False:  # an empty checkbox is not sent
                fields[name] = [str(each) for each in value] if isinstance(value, list) else [_text(value)]
        answer = self._send(path, fields)
        if answer.url == self.base + path or _alerts(answer.text):
            raise CheckError(f"POST {path}: {_alerts(answer.text)} {_errors(answer.text)}")
        return answer.text

    def act(self, page: str, table: str, action: str, key: str) -> None:
        """A button of a table's row, as `delete`."""
        fields = dict(self.form(page).fields)
        button = f"{table}__{action}__{key}"
        expect(button in self.get(page), f"{page}: no button {button}")
        answer = self._send(page, {**fields, "action": [button]})
        if alerts := _alerts(answer.text):
            raise CheckError(f"{page}: {action}: {alerts}")

    def _send(self, path: str, fields: dict[str, list[str]]) -> requests.Response:
        answer = self._session.post(
            self.base + path, data=fields, headers={"Referer": self.base + path}, timeout=PAGE_SECONDS
        )
        expect(answer.ok, f"POST {path}: {answer.status_code}")
        return answer


def _text(value: object) -> str:
    return "on" if value is True else str(value)


def _alerts(text: str) -> str:
    return " ".join(_plain(found) for found in ALERT.findall(text))


def _errors(text: str) -> str:
    return " ".join(filter(None, (_plain(found) for found in ERROR.findall(text))))[:500]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>|&times;", " ", text).split())
