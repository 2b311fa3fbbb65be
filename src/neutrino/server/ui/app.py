"""WSGI application of the page, below /ui/.

    GET  /ui/            the page          GET  /ui/session    how callers log in
    GET  /ui/css/… js/…  its files         POST /ui/login      credentials → token (only with Keystone)
    GET  /ui/v/<version>/css/… js/…        the same, which a browser keeps: the page refers to these

No path here reads the database. The page's data comes from the API, with the caller's token.
"""

import threading
import time
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
from oslo_config import cfg

from neutrino.server.compression import accepts_gzip
from neutrino.server.requests import CLIENT
from neutrino.server.ui.attempts import Attempts
from neutrino.server.ui.files import Files, StaticFile, read_files
from neutrino.server.ui.login import Credentials, Login, LoginSession, Refused, Unavailable, keystone_login

PREFIX: Final = "/ui"
MAX_BODY = 16 * 1024  # bytes of a login; tokens may have some thousand characters
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY = [
    ("Content-Security-Policy", CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]
# Servers of two versions may stand behind one load balancer: a browser asks for the index again, and gets 304 if it has it.
REVALIDATE = ("Cache-Control", "no-cache")
KEEP = ("Cache-Control", "public, max-age=31536000, immutable")  # a file below its version
NO_STORE = ("Cache-Control", "no-store")
STATUS = {
    200: "200 OK",
    304: "304 Not Modified",
    308: "308 Permanent Redirect",
    400: "400 Bad Request",
    401: "401 Unauthorized",
    403: "403 Forbidden",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    411: "411 Length Required",
    413: "413 Content Too Large",
    415: "415 Unsupported Media Type",
    429: "429 Too Many Requests",
    502: "502 Bad Gateway",
    503: "503 Service Unavailable",
}
Headers = list[tuple[str, str]]


class Rejected(Exception):
    """A login that is answered with an error."""

    def __init__(self, status: int, kind: str, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers or []


class Page:
    """The page as a WSGI application. `login` is None if the API needs no authentication."""

    def __init__(self, files: Files, login: Login | None, attempts: Attempts) -> None:
        self._files, self._login, self._attempts = files, login, attempts
        self._busy = threading.Lock()  # one login at a time: a slow Keystone must not take all threads from the API
        self._session = msgspec.json.encode({"auth": "keystone" if login else "noauth", "default_domain": "Default"})

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        path, method = environ.get("PATH_INFO", ""), environ.get("REQUEST_METHOD", "GET")
        if path == PREFIX:
            # Relative, because a proxy may have put a prefix before it.
            return _send(start, 308, [("Location", f"{PREFIX[1:]}/"), REVALIDATE], b"")
        name = path.removeprefix(f"{PREFIX}/")
        if name == "login":
            return self._post(environ, start) if method == "POST" else _not_allowed(start, "POST")
        file, is_kept = self._files.find(name)
        if method not in ("GET", "HEAD") and (file or name == "session"):
            return _not_allowed(start, "GET, HEAD")
        if name == "session":
            return _send(start, 200, [NO_STORE, ("Content-Type", "application/json")], self._session)
        if file is None:
            return _error(start, Rejected(404, "HTTPNotFound", "The topology page has no such file."))
        return _static(file, KEEP if is_kept else REVALIDATE, environ, start)

    def _post(self, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        try:
            body = msgspec.json.encode(self._logged_in(environ))
        except Rejected as error:
            return _error(start, error)
        return _send(start, 200, [NO_STORE, ("Content-Type", "application/json")], body)

    def _logged_in(self, environ: WSGIEnvironment) -> LoginSession:
        if self._login is None:
            raise Rejected(404, "HTTPNotFound", "This server has no authentication: there is nothing to log in to.")
        credentials = _credentials(environ)
        address = environ[CLIENT]
        if wait := self._attempts.wait(address):
            message = f"Too many failed logins from this address: try again in {wait:.0f} seconds."
            raise Rejected(429, "TooManyRequests", message, [("Retry-After", str(int(wait) + 1))])
        if not self._busy.acquire(blocking=False):
            message = "Another login is in progress: try again."
            raise Rejected(503, "ServiceUnavailable", message, [("Retry-After", "1")])
        try:
            # Does not forget failures: with a token of his own, an attacker could reset them between his guesses.
            return self._login(credentials)
        except Refused:
            self._attempts.failed(address)
            message = "Login failed: the credentials are wrong, or the user has no role on this project."
            raise Rejected(401, "Unauthorized", message) from None
        except Unavailable:
            # Counts too: Keystone may have checked the password before it failed.
            self._attempts.failed(address)
            message = "Keystone does not answer; the cause is in the server's log."
            raise Rejected(502, "BadGateway", message) from None
        finally:
            self._busy.release()


def build_page(conf: cfg.ConfigOpts) -> Page | None:
    """Build the page of a server with this configuration; None if it is switched off."""
    if not conf.ui.enabled:
        return None
    login = keystone_login(conf) if conf.auth_strategy == "keystone" else None
    attempts = Attempts(conf.ui.login_attempts, conf.ui.login_period, time.monotonic)
    return Page(read_files(), login, attempts)


def _credentials(environ: WSGIEnvironment) -> Credentials:
    # A page of another site could otherwise try passwords through the browsers of its visitors.
    if environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none"):
        raise Rejected(403, "HTTPForbidden", "A page of another site cannot log in here.")
    content_type = str(environ.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Rejected(415, "HTTPUnsupportedMediaType", "The content type must be application/json.")
    try:
        length = int(environ.get("CONTENT_LENGTH") or -1)
    except ValueError:
        length = -1
    if length < 0:
        raise Rejected(411, "HTTPLengthRequired", "Content-Length is missing.")
    if length > MAX_BODY:
        raise Rejected(413, "HTTPRequestEntityTooLarge", f"A login has at most {MAX_BODY} bytes.")
    try:
        return msgspec.json.decode(environ["wsgi.input"].read(length), type=Credentials)
    except msgspec.ValidationError as error:
        # The text names the field or its type, not its value.
        raise Rejected(400, "HTTPBadRequest", f"Invalid login: {error}.") from None
    except msgspec.DecodeError:
        raise Rejected(400, "HTTPBadRequest", "Invalid login: the body is not JSON.") from None


def _static(file: StaticFile, cached: tuple[str, str], environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
    zipped = file.compressed is not None and accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
    etag = f'"{file.etag}{"-gz" if zipped else ""}"'
    headers = [*SECURITY, cached, ("ETag", etag), ("Vary", "Accept-Encoding")]
    known = {tag.strip().removeprefix("W/") for tag in environ.get("HTTP_IF_NONE_MATCH", "").split(",")}
    if etag in known or "*" in known:
        start(STATUS[304], headers)
        return []
    body = file.compressed if zipped and file.compressed is not None else file.body
    headers += [("Content-Type", file.content_type), ("Content-Length", str(len(body)))]
    if zipped:
        headers.append(("Content-Encoding", "gzip"))
    start(STATUS[200], headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


def _send(start: StartResponse, status: int, headers: Headers, body: bytes) -> list[bytes]:
    start(STATUS[status], [*SECURITY, *headers, ("Content-Length", str(len(body)))])
    return [body]


def _error(start: StartResponse, error: Rejected) -> list[bytes]:
    body = msgspec.json.encode({"NeutronError": {"type": error.kind, "message": error.message, "detail": ""}})
    return _send(start, error.status, [NO_STORE, ("Content-Type", "application/json"), *error.headers], body)


def _not_allowed(start: StartResponse, allowed: str) -> list[bytes]:
    message = f"The method is not allowed here: {allowed}."
    return _error(start, Rejected(405, "HTTPMethodNotAllowed", message, [("Allow", allowed)]))
