"""What stands before the application: request ids, health check, CORS and Keystone, as oslo and Keystone provide them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Any]
HEALTH = "/healthcheck"
CORS = {  # what a dashboard in a browser sends and reads; [cors] overrides it
    "allow_headers": ["X-Auth-Token", "X-Service-Token", "If-Match", "X-OpenStack-Request-ID"],
    "expose_headers": ["X-OpenStack-Request-ID"],
    "allow_methods": ["GET", "PUT", "POST", "DELETE"],
}
OPEN = ("", "/", "/openapi.json")  # what anyone may read


def wrap(app: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    """From the inside out: authentication, then request ids, then a proxy's headers and CORS where they are configured;
    health beside them all.
    """
    from oslo_middleware import healthcheck

    inner = app
    if conf.auth_strategy == "keystone":
        inner = _authenticated(app, conf)
    inner = _with_request_id(inner)
    if _behind_proxy(conf):
        from oslo_middleware import http_proxy_to_wsgi

        inner = http_proxy_to_wsgi.HTTPProxyToWSGI(inner, conf)
    if _cors_configured(conf):
        from oslo_middleware import cors

        inner = cors.CORS(inner, conf)
    health = healthcheck.Healthcheck(inner, {"path": HEALTH, "oslo_config_config": conf})

    def dispatch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("PATH_INFO") == HEALTH:
            return health(environ, start_response)
        return inner(environ, start_response)

    return dispatch


def _authenticated(app: Wsgi, conf: cfg.ConfigOpts) -> Wsgi:
    from keystonemiddleware import auth_token

    protected = auth_token.AuthProtocol(app, {"oslo_config_config": conf, "oslo_config_project": "neutrino"})

    def dispatch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("PATH_INFO", "") in OPEN:
            return app(environ, start_response)
        return protected(environ, start_response)

    return dispatch


def _with_request_id(app: Wsgi) -> Wsgi:
    """A name for every request, in its log and its answer, and the caller's own name for it kept.

    It speaks oslo.middleware's words. Its class does the same through webob, which reads and writes each request and
    answer anew: that was a fifth of the time to show a port.
    """
    from oslo_middleware import request_id as words

    callers = "HTTP_" + words.INBOUND_HEADER.upper().replace("-", "_")
    form = re.compile(words.ID_FORMAT)

    def named(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        name = f"req-{uuid.uuid4()}"
        environ[words.ENV_REQUEST_ID] = name
        if form.match(environ.get(callers, "")):
            environ[words.GLOBAL_REQ_ID] = environ[callers]

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, [*headers, (words.HTTP_RESP_HEADER_REQUEST_ID, name)], *rest)

        return app(environ, start)

    return named


def _behind_proxy(conf: cfg.ConfigOpts) -> bool:
    from oslo_middleware import http_proxy_to_wsgi

    conf.register_opts(http_proxy_to_wsgi.OPTS, "oslo_middleware")
    return bool(conf.oslo_middleware.enable_proxy_headers_parsing)


def _cors_configured(conf: cfg.ConfigOpts) -> bool:
    from oslo_middleware import cors

    cors.set_defaults(**CORS)
    conf.register_opts(cors.CORS_OPTS, "cors")
    return bool(conf.cors.allowed_origin)
