"""WSGI middleware in front of the application: health check, CORS, Keystone, guard against web pages.

oslo.middleware is imported where an option or a request needs it: with webob and jinja2, which it loads, it takes 7 MB in
every process.
"""

import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from oslo_config import cfg

from neutrino.configuration.findings import is_configured
from neutrino.configuration.options import Configuration
from neutrino.server import config
from neutrino.server.client_address import client_address
from neutrino.server.filters import applied, read_filters
from neutrino.server.requests import Headers, observed
from neutrino.server.ui import app as ui

HEALTH = "/healthcheck"
CORS = {  # headers and methods of a dashboard in a browser; [cors] overrides it
    "allow_headers": ["X-Auth-Token", "X-Service-Token", "If-Match", "X-OpenStack-Request-ID"],
    "expose_headers": ["X-OpenStack-Request-ID"],
    "allow_methods": ["GET", "PUT", "POST", "DELETE"],
}
PORT = re.compile(r":\d+$")
PLAIN = ("", "*/*", "text/plain")  # values of Accept
OPEN = ("", "/", "/openapi.json")  # paths without authentication


def wrap(app: WSGIApplication, conf: Configuration) -> WSGIApplication:
    """The application inside its middleware, from the inside out: filters of the site, authentication, filters outside of
    it, proxy headers, the guard against web pages (which needs the Host header before proxy headers replace it), the
    topology page, request ids, CORS, health check.
    """
    filters = read_filters(conf)
    filtered = applied(app, filters.inside)
    if conf.auth_strategy == "keystone":
        filtered = _authenticated(filtered, app, conf)
    inner = _behind_proxy(applied(filtered, filters.outside), conf)
    if conf.auth_strategy == "noauth":
        inner = _not_from_web_pages(inner, conf)
    page = ui.build_page(conf)
    if page is not None:
        # Outside the guard: a link of another site may lead to the page, which has no data of its own.
        inner = _below(ui.PREFIX, _behind_proxy(page, conf), inner)
    inner = observed(inner, conf.log_requests, client_address(conf))
    if _origins(conf):
        from oslo_middleware.cors import CORS as Cors

        inner = Cors(inner, conf)
    return _by_path((HEALTH,), _health_check(inner, conf), inner)


def _health_check(app: WSGIApplication, conf: Configuration) -> WSGIApplication:
    """oslo.middleware's. Without options there is nothing to check: a load balancer gets the same answer from here."""

    @cache
    def configured() -> WSGIApplication:
        from oslo_middleware.healthcheck import Healthcheck

        check: WSGIApplication = Healthcheck(app, conf)
        return check

    if is_configured(conf, "healthcheck"):
        return configured()

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_ACCEPT", "") not in PLAIN:  # HTML or JSON
            return configured()(environ, start_response)
        if environ["REQUEST_METHOD"] == "HEAD":
            start_response("204 No Content", [])
        else:
            start_response("200 OK", [("Content-Type", "text/plain; charset=UTF-8"), ("Content-Length", "0")])
        return []

    return answer


def _behind_proxy(app: WSGIApplication, conf: Configuration) -> WSGIApplication:
    if not conf.oslo_middleware.enable_proxy_headers_parsing:
        return app
    from oslo_middleware.http_proxy_to_wsgi import HTTPProxyToWSGI

    options = cfg.ConfigOpts()  # not `conf`, which has an option of ours under the name that this class registers
    proxied: WSGIApplication = HTTPProxyToWSGI(app, options)
    options.set_override("enable_proxy_headers_parsing", True, "oslo_middleware")
    return proxied


def _below(prefix: str, special: WSGIApplication, other: WSGIApplication) -> WSGIApplication:
    folder = f"{prefix}/"

    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        return (special if path.startswith(folder) or path == prefix else other)(environ, start_response)

    return dispatch


def _by_path(paths: Collection[str], special: WSGIApplication, other: WSGIApplication) -> WSGIApplication:
    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return (special if environ.get("PATH_INFO", "") in paths else other)(environ, start_response)

    return dispatch


def _authenticated(app: WSGIApplication, bare: WSGIApplication, conf: Configuration) -> WSGIApplication:
    """`bare`: without filters, which rely on the identity that a request has after authentication."""
    from keystonemiddleware import auth_token

    protected = auth_token.AuthProtocol(app, {"oslo_config_config": conf, "oslo_config_project": "neutrino"})
    return _by_path(OPEN, bare, protected)


def _not_from_web_pages(app: WSGIApplication, conf: Configuration) -> WSGIApplication:
    """Refuse requests of other sites' pages: without authentication, each would be an administrator's request.

    Browsers send Origin, or at least Sec-Fetch-Site. With DNS rebinding the page's own name resolves to this machine:
    such a request has the page's name as its Host.
    """
    check_host = config.is_loopback(conf.bind_host) and not conf.allow_noauth_beyond_loopback
    own_names = {conf.bind_host.lower(), conf.host.lower()}
    allowed = _origins(conf)

    def refusal(environ: WSGIEnvironment) -> str:
        host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
        name = PORT.sub("", host).strip("[]").lower()
        if check_host and name and name not in own_names and not config.is_loopback(name):
            return (
                f"Host is {host[:255]!r}, which is not this server: without authentication it answers to loopback "
                "addresses and to bind_host, unless allow_noauth_beyond_loopback=true."
            )
        if origin is None:
            # none: the user typed the address. Without the header it is no browser, so no page caused the request.
            same = environ.get("HTTP_SEC_FETCH_SITE", "none") in ("none", "same-origin")
            return "" if same else "A page of another site is not let in ([cors] allowed_origin)."
        same = origin in allowed or origin.partition("://")[2].lower() == host.lower()
        return "" if same else f"A page of {origin[:255]!r} is not let in ([cors] allowed_origin)."

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        reason = refusal(environ)
        if not reason:
            return app(environ, start_response)
        return answer_error(start_response, "403 Forbidden", "HTTPForbidden", reason)

    return guarded


def answer_error(
    start_response: StartResponse, status: str, type_: str, message: str, headers: Headers = ()
) -> list[bytes]:
    """An error in the form of the API's, of a request that does not reach it."""
    body = json.dumps({"NeutronError": {"type": type_, "message": message, "detail": ""}}).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers])
    return [body]


def _origins(conf: Configuration) -> frozenset[str]:
    """The sites whose pages may use the API."""
    if not is_configured(conf, "cors"):
        return frozenset()
    from oslo_middleware import cors

    cors.set_defaults(**CORS)
    conf.register_opts(cors.CORS_OPTS, "cors")
    return frozenset(conf.cors.allowed_origin or ())
