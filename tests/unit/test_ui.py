"""The topology page's server side: files, headers, logins and their limits."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from neutrino.server.config import configuration
from neutrino.server.middleware import wrap
from neutrino.server.requests import CLIENT
from neutrino.server.ui import attempts as attempts_module
from neutrino.server.ui import login as login_module
from neutrino.server.ui.app import CSP, MAX_BODY, Page
from neutrino.server.ui.attempts import Attempts, network_of
from neutrino.server.ui.files import read_files
from neutrino.server.ui.login import Credentials, LoginSession, Refused, Unavailable, keystone_login, within

FOLDER = Path(__file__).parents[2] / "src" / "neutrino" / "server" / "ui" / "page"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SESSION = LoginSession(
    token="t",
    expires_at="",
    user="u",
    user_id="i",
    project="p",
    project_id="pi",
    roles=["member"],
    projects=[],
    names={},
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Answer:
    def __init__(self, page: Page, method: str, path: str, body: bytes = b"", **environ: str) -> None:
        given = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "wsgi.input": io.BytesIO(body),
            CLIENT: "192.0.2.1",
        }
        if body:
            given["CONTENT_LENGTH"] = str(len(body))
        self.body = b"".join(page({**given, **environ}, self.start))

    def start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status = int(status[:3])
        self.headers = dict(headers)

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["NeutronError"]["message"])


def page(login: Any = lambda credentials: SESSION, limit: int = 3, clock: Clock | None = None) -> Page:
    return Page(read_files(), login, Attempts(limit, 60, clock or Clock()))


def post(served: Page, body: Any = None, **environ: str) -> Answer:
    given = {"method": "password", "user": "u", "password": "p"} if body is None else body
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()
    return Answer(served, "POST", "/ui/login", raw, **{"CONTENT_TYPE": "application/json", **environ})


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_file_has_its_type_and_the_same_headers() -> None:
    served = page()
    for path in ["", *(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.*"))]:
        answer = Answer(served, "GET", f"/ui/{path}")
        assert answer.status == 200, path
        assert answer.headers["Content-Security-Policy"] == CSP
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(
            path.rpartition(".")[2], "text/html"
        )
        assert answer.headers["Content-Type"].startswith(kind)
        assert len(answer.body) == int(answer.headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    "path", ["../app.py", "js/../../app.py", "/etc/passwd", "js", "js/", "..%2fapp.py", "app.py", "\x00", "index.html/"]
)
def test_no_other_path_is_a_file(path: str) -> None:
    answer = Answer(page(), "GET", f"/ui/{path}")
    assert (answer.status, answer.message) == (404, "The topology page has no such file.")


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    served = page()
    first = Answer(served, "GET", "/ui/js/app.js")
    again = Answer(served, "GET", "/ui/js/app.js", HTTP_IF_NONE_MATCH=f'"x", W/{first.headers["ETag"]}')
    assert (again.status, again.body) == (304, b"")
    other = Answer(served, "GET", "/ui/js/main.js", HTTP_IF_NONE_MATCH=first.headers["ETag"])
    assert other.status == 200
    head = Answer(served, "HEAD", "/ui/js/app.js")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(first.body)))


def test_compressed_for_browsers_that_ask_for_it() -> None:
    served = page()
    plain = Answer(served, "GET", "/ui/js/app.js")
    small = Answer(served, "GET", "/ui/js/app.js", HTTP_ACCEPT_ENCODING="br, gzip")
    assert small.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small.body) == plain.body
    assert len(small.body) < len(plain.body)
    assert small.headers["ETag"] != plain.headers["ETag"]


def test_files_below_their_version_are_kept_by_browsers() -> None:
    """So that a second visit loads nothing but the index, which is revalidated."""
    served = page()
    index = Answer(served, "GET", "/ui/")
    assert index.headers["Cache-Control"] == "no-cache"
    targets = re.findall(r'(?:src|href)="([^"]+)"', index.body.decode())
    assert len(targets) == sum(1 for file in FOLDER.rglob("*.*")) - 1  # all but the index
    for target in targets:
        assert target.startswith("v/"), target
        answer = Answer(served, "GET", f"/ui/{target}")
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
        name = target.split("/", 2)[2]
        old = Answer(served, "GET", f"/ui/{name}")
        assert (old.body, old.headers["Cache-Control"]) == (answer.body, "no-cache")


def test_a_file_of_another_servers_version_is_answered_and_not_kept() -> None:
    answer = Answer(page(), "GET", "/ui/v/0123456789abcdef/js/app.js")
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-cache")


@pytest.mark.parametrize("path", ["v/", "v/0a", "v/0a/", "v/0a/index.html", "v/0a/v/0a/js/app.js", "v/x/js/app.js"])
def test_a_version_has_files_only(path: str) -> None:
    assert Answer(page(), "GET", f"/ui/{path}").status == 404


@pytest.mark.parametrize(
    ("header", "is_compressed"),
    [("gzip;q=0", False), ("*", True), ("*;q=0.0", False), ("gzip;q=0, *", False), ("br;q=1, GZIP ; q=0.5", True)],
)
def test_gzip_is_negotiated(header: str, is_compressed: bool) -> None:
    answer = Answer(page(), "GET", "/ui/js/app.js", HTTP_ACCEPT_ENCODING=header)
    assert ("Content-Encoding" in answer.headers) is is_compressed


def test_the_folder_without_a_slash_is_redirected() -> None:
    answer = Answer(page(), "GET", "/ui")
    assert (answer.status, answer.headers["Location"]) == (308, "ui/")


@pytest.mark.parametrize("path", ["", "session", "js/app.js"])
def test_files_are_only_read(path: str) -> None:
    answer = Answer(page(), "POST", f"/ui/{path}")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert Answer(page(), "GET", "/ui/login").status == 405


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.*")), ids=lambda file: file.name)
def test_nothing_from_elsewhere_and_nothing_inline(file: Path) -> None:
    """The CSP refuses it too; this says where it is."""
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    if file.suffix == ".html":
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=", text)
    if file.suffix == ".js":
        for target in re.findall(r"^import .* from '([^']+)';", text, re.MULTILINE):
            assert (file.parent / target).resolve().is_file(), target


def test_all_modules_are_loaded_at_once() -> None:
    """Without it, the browser would find the modules import by import, a round trip for each level."""
    loaded = re.findall(r'(?:modulepreload" href|type="module" src)="([^"]+)"', (FOLDER / "index.html").read_text())
    assert sorted(loaded) == sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.js"))


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.js")), ids=lambda file: file.name)
def test_modules_are_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) < 450


@pytest.mark.parametrize(("enabled", "status"), [("true", "200"), ("false", "404")])
def test_the_page_can_be_switched_off(tmp_path: Path, enabled: str, status: str) -> None:
    file = tmp_path / "neutrino.conf"
    file.write_text(f"[DEFAULT]\nauth_strategy = noauth\n[ui]\nenabled = {enabled}\n")
    answered: list[str] = []

    def api(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("404 Not Found", [])
        return []

    wrapped = wrap(api, configuration([str(file)]))
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/ui/", "HTTP_SEC_FETCH_SITE": "none"}
    wrapped(environ, lambda line, headers, *rest: answered.append(line[:3]))
    # A link of another site leads to the page, but not to the API.
    wrapped({**environ, "HTTP_SEC_FETCH_SITE": "cross-site"}, lambda line, *rest: answered.append(line[:3]))
    wrapped({**environ, "PATH_INFO": "/uix"}, lambda line, *rest: answered.append(line[:3]))
    assert answered == [status, status if enabled == "true" else "403", "404"]


# --- session and login ------------------------------------------------------------------------------------------------


def test_the_session_tells_how_callers_log_in() -> None:
    for login, auth in ((None, "noauth"), (lambda credentials: SESSION, "keystone")):
        answer = Answer(page(login), "GET", "/ui/session")
        assert json.loads(answer.body)["auth"] == auth
        assert answer.headers["Cache-Control"] == "no-store"


def test_without_authentication_there_is_no_login() -> None:
    assert post(page(None)).status == 404


def test_a_login_returns_the_token_and_is_not_stored() -> None:
    answer = post(page())
    assert answer.status == 200
    assert json.loads(answer.body)["token"] == "t"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("body", "environ", "status", "text"),
    [
        (None, {"CONTENT_TYPE": "text/plain"}, 415, "application/json"),
        (None, {"CONTENT_TYPE": ""}, 415, "application/json"),
        (None, {"CONTENT_LENGTH": ""}, 411, "Content-Length"),
        (None, {"CONTENT_LENGTH": "x"}, 411, "Content-Length"),
        (None, {"CONTENT_LENGTH": str(MAX_BODY + 1)}, 413, str(MAX_BODY)),
        (None, {"HTTP_SEC_FETCH_SITE": "cross-site"}, 403, "another site"),
        (b"{", {}, 400, "not JSON"),
        (b"[]", {}, 400, "Invalid login"),
        ({"method": "password", "user": "u"}, {}, 400, "password is missing"),
        ({"method": "password", "user": "u", "password": 5}, {}, 400, "password"),
        ({"method": "token"}, {}, 400, "token is missing"),
        ({"method": "token", "token": "a\r\nX-Other: 1"}, {}, 400, "token has characters"),
        ({"method": "application_credential", "secret": "s"}, {}, 400, "credential_id is missing"),
        ({"method": "other"}, {}, 400, "method is one of"),
        ({"method": "token", "token": "t", "colour": "red"}, {}, 400, "colour"),
    ],
)
def test_a_login_that_is_not_well_formed(body: Any, environ: dict[str, str], status: int, text: str) -> None:
    called: list[Credentials] = []
    answer = post(page(called.append), body, **environ)
    assert (answer.status, called) == (status, [])
    assert text in answer.message


def refuse(credentials: Credentials) -> LoginSession:
    raise Refused


def test_failures_are_limited_by_address() -> None:
    clock = Clock()
    served = page(refuse, limit=3, clock=clock)
    for second in (0, 1, 2):
        clock.now = second
        assert post(served).status == 401
    answer = post(served)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "59")
    assert post(served, **{CLIENT: "192.0.2.2"}).status == 401
    assert (
        post(served, REMOTE_ADDR="192.0.2.3").status == 429
    )  # as the proxy middleware leaves it: chosen by the client
    clock.now = 60.5  # the first failure has expired
    assert post(served).status == 401
    assert post(served).status == 429


def test_a_success_does_not_forget_failures() -> None:
    """Or somebody with a token of his own could guess passwords without limit."""

    def login(credentials: Credentials) -> LoginSession:
        if credentials.method == "password":
            raise Refused
        return SESSION

    served = page(login, limit=2)
    own = {"method": "token", "token": "t"}
    assert [post(served, body).status for body in (None, own, None, own, None)] == [401, 200, 401, 429, 429]


def test_logins_that_keystone_does_not_answer_count_as_attempts() -> None:
    def login(credentials: Credentials) -> LoginSession:
        raise Unavailable

    served = page(login, limit=2)
    assert [post(served).status for _ in range(3)] == [502, 502, 429]


def test_one_login_at_a_time() -> None:
    inner: list[int] = []

    def login(credentials: Credentials) -> LoginSession:
        inner.append(post(served).status)
        return SESSION

    served = page(login)
    assert post(served).status == 200
    assert inner == [503]


def test_a_login_ends_at_its_deadline() -> None:
    """Whatever Keystone does; until then there is no second one, which would cost another thread."""
    called, answered = threading.Semaphore(0), threading.Event()

    def slow(credentials: Credentials) -> LoginSession:
        called.release()
        assert answered.wait(30)
        return SESSION

    served = page(within(0.2, slow), limit=100_000)
    began = time.monotonic()
    assert [post(served).status for _ in range(3)] == [502, 502, 502]
    assert time.monotonic() - began < 10
    assert called.acquire(timeout=30)
    assert not called.acquire(blocking=False)
    answered.set()
    deadline = time.monotonic() + 10
    while (status := post(served).status) == 502 and time.monotonic() < deadline:
        time.sleep(0.01)  # the thread ends
    assert status == 200
    assert post(page(within(5, refuse))).status == 401


def test_the_requests_of_a_login_share_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a slow Keystone the lists of projects are left out, and no request starts after the time."""
    monkeypatch.setattr(login_module, "REQUEST_SECONDS", 5.0)
    asked: list[str] = []

    class Keystone(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            time.sleep(3.0)
            user = {"id": "i", "name": "u"}
            token = {"user": user, "roles": [{"name": "admin"}], "project": {"id": "pi", "name": "p"}}
            token["expires_at"] = "2030-01-01T00:00:00.000000Z"
            body = json.dumps({"token": token, "projects": [{"id": "pi", "name": "p", "enabled": True}]}).encode()
            with contextlib.suppress(OSError):  # nobody waits for a late answer
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Keystone) as keystone:
        threading.Thread(target=keystone.serve_forever, daemon=True).start()
        file = tmp_path / "neutrino.conf"
        url = f"http://127.0.0.1:{keystone.server_port}/v3"
        file.write_text(f"[DEFAULT]\nauth_strategy = keystone\n[keystone_authtoken]\nwww_authenticate_uri = {url}\n")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        conf = configuration([str(file)])
        wrap(lambda environ, start: [], conf)  # registers the options of keystonemiddleware
        session = keystone_login(conf)(Credentials(method="token", token="t"))
        keystone.shutdown()
    assert (session.project, session.projects, session.names) == ("p", [], {})
    assert asked == ["/v3/auth/tokens?nocatalog", "/v3/auth/projects"]


def test_the_table_of_failures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "MAX_ADDRESSES", 10)
    clock = Clock()
    attempts = Attempts(1, 60, clock)
    for number in range(100):
        attempts.failed(f"192.0.2.{number}")
    assert len(attempts) == 10
    assert attempts.wait("192.0.2.99") == 60
    assert attempts.wait("192.0.2.0") == 0
    clock.now = 61
    assert attempts.wait("192.0.2.99") == 0
    assert len(attempts) == 9


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("x" * 100, "x" * 64),
    ],
)
def test_an_ipv6_client_counts_by_its_network(address: str, network: str) -> None:
    assert network_of(address) == network
