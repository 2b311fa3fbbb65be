"""The WSGI application: Falcon serves the routes and renders errors as clients parse them."""

import itertools
import logging
import re
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from wsgiref.types import WSGIApplication

import falcon
import msgspec
from falcon.routing import CompiledRouter, map_http_methods, set_default_responders

from neutrino import request_ids
from neutrino.server import compression, errors
from neutrino.server.api.authentication import Authentication
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Handler, Route
from neutrino.server.api.stages.query_string import pairs_of
from neutrino.server.context import Context
from neutrino.server.requests import RESOURCE

LOG = logging.getLogger(__name__)
_encode = msgspec.json.Encoder(enc_hook=str).encode
SMALL = 256 * 1024  # bytes of a list that is sent as a whole: a thread sends the parts of a larger one


@dataclass(eq=False)
class Endpoint:
    """One path: calls the handler of the method. Falcon finds `on_get` and the like by name."""

    handlers: Mapping[str, Handler]
    names: Sequence[str]  # what the variable parts of the path are, in order
    authentication: Authentication | None  # None: a public path
    max_body: int
    typed: bool  # a body must have the content type of JSON
    resource: str = "other"  # for metrics
    compress_from: int = 0  # bytes of an answer from which on it is compressed; 0: none is
    link_prefix: str = ""  # of links, in place of the scheme and host of the request

    def __post_init__(self) -> None:
        for method in self.handlers:
            setattr(self, f"on_{method.lower()}", self._answer)

    def _answer(self, req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        req.env[RESOURCE] = self.resource
        values = dict(zip(self.names, path.values(), strict=True))
        if any("\x00" in value for value in values.values()):  # databases refuse NUL, so no such object exists
            raise errors.HTTPNotFound()
        request_id = req.env.get("openstack.request_id") or f"req-{uuid.uuid4()}"
        context = self.authentication.context(req.env, request_id) if self.authentication else Context(None)
        names = {name: str(context.credentials.get(name, "")) for name in ("user_name", "project_name")}
        request_ids.CALLER.set({"user": context.user_id, "project": context.project_id or ""})
        request_ids.CALLER_NAMES.set(names)
        # GET may have a body, which has no meaning.
        raw = self._body(req) if req.method in ("POST", "PUT", "DELETE") else b""
        request = Request(
            context=context,
            raw=raw,
            pairs=pairs_of(req.query_string) if req.query_string else [],
            key=values.get("key", ""),
            parent=values.get("parent", ""),
            root=f"{self.link_prefix.rstrip('/')}{req.root_path}" if self.link_prefix else req.prefix,
            path=req.path,
            if_match=req.get_header("If-Match") or "",
        )
        reply = self.handlers[req.method](request)
        if reply.etag and (reply := _revalidated(resp, reply, req.get_header("If-None-Match") or "")).body is None:
            write(resp, reply)
            return
        if reply.compressible and self.compress_from:
            reply = _negotiated(resp, reply, req.get_header("Accept-Encoding") or "", self.compress_from)
        write(resp, reply)

    def _body(self, req: falcon.Request) -> bytes:
        length = req.content_length
        if length is not None and length > self.max_body:
            raise errors.HTTPRequestEntityTooLarge(limit=self.max_body)
        if not length and req.get_header("Transfer-Encoding") is None:
            return b""
        # Browsers send a body without a JSON type with no preflight request. Without authentication (`typed`) any web page
        # could then write through the user's browser, so the type is required.
        assumed = "" if self.typed else "application/json"
        content_type = (req.content_type or assumed).partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise errors.HTTPUnsupportedMediaType(content_type=content_type)
        # Falcon bounds that stream by Content-Length: of a chunked body, which has none, it would read nothing.
        raw: bytes = req.bounded_stream.read(self.max_body + 1) if length else req.stream.read(self.max_body + 1)
        if len(raw) > self.max_body:
            raise errors.HTTPRequestEntityTooLarge(limit=self.max_body)
        return raw


def write(resp: falcon.Response, reply: Reply) -> None:
    resp.status = reply.status
    if reply.body is not None:
        if isinstance(reply.body, deque):
            size = sum(map(len, reply.body))
            if size <= SMALL:
                resp.data = b"".join(reply.body)
            else:
                resp.set_stream(_sent(reply.body), size)
        else:
            resp.data = reply.body if isinstance(reply.body, bytes) else _encode(reply.body)
        resp.content_type = "application/json"


def _revalidated(resp: falcon.Response, reply: Reply, known: str) -> Reply:
    """The answer, or 304 if the client has it. The tag is weak: compressed answers have the same one."""
    resp.set_header("ETag", f'W/"{reply.etag}"')
    resp.set_header("Cache-Control", "private, no-cache")
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if f'"{reply.etag}"' not in tags and "*" not in tags:
        return reply
    if reply.compressible:
        resp.append_header("Vary", compression.VARY)
    return Reply(304)


def _negotiated(resp: falcon.Response, reply: Reply, accepted: str, least: int) -> Reply:
    """The answer, compressed if it is large and the client accepts that."""
    resp.append_header("Vary", compression.VARY)  # also of the small ones: for caches the path decides
    if not compression.accepts_gzip(accepted) or reply.body is None:
        return reply
    encoded = reply.body if isinstance(reply.body, bytes | deque) else _encode(reply.body)
    parts = encoded if isinstance(encoded, deque) else deque([encoded])
    if sum(map(len, parts)) < least:
        return replace(reply, body=encoded)
    resp.set_header("Content-Encoding", "gzip")
    return replace(reply, body=compression.compress(_sent(parts)))


def _sent(parts: deque[bytes]) -> Iterator[bytes]:
    """Each part is released once it is sent, so that a long list is not held twice."""
    while parts:
        yield parts.popleft()


Methods = dict[str, Any]  # what answers each method
_ANY = object()  # in place of an endpoint


class Router(CompiledRouter):
    """Finds endpoints by paths that are compiled once per process: a server that is started, or restarted, serves the same
    ones as the last, and compiling them was a third of its start.
    """

    def __init__(self) -> None:
        super().__init__()
        self._endpoints: dict[str, tuple[Endpoint, Methods]] = {}

    def serve(self, endpoints: Sequence[tuple[str, Endpoint]]) -> None:
        methods: dict[Endpoint, Methods] = {}
        for path, endpoint in endpoints:
            if endpoint not in methods:
                methods[endpoint] = map_http_methods(endpoint)
                set_default_responders(methods[endpoint])
            self._endpoints[path] = endpoint, methods[endpoint]
        self._search = _compiled(tuple(self._endpoints)).find

    def find(self, uri: str, req: falcon.Request | None = None) -> Any:
        route = self._search(uri, req)
        if route is None:
            return None
        _, _, parameters, path = route
        return (*self._endpoints[path or ""], parameters, path)


@cache
def _compiled(paths: tuple[str, ...]) -> CompiledRouter:
    router = CompiledRouter()
    for number, path in enumerate(paths, 1):
        # With the last one the router is compiled. Otherwise each worker would do that for itself, unshared, with its first
        # request: four megabytes.
        router.add_route(path, _ANY, compile=number == len(paths))
    return router


class JsonSuffix:
    """`/v2.0/networks.json` is `/v2.0/networks`."""

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        if req.path.endswith(".json") and req.path.startswith(PREFIX):
            req.path = req.path[:-5]


def build_app(
    routes: Iterable[Route],
    authentication: Authentication,
    *,
    max_body: int,
    typed: bool,
    public: Iterable[Route],
    compress_from: int = 0,
    link_prefix: str = "",
) -> WSGIApplication:
    """`public` routes need no authentication. `typed`: a body must have the content type of JSON."""
    app = falcon.App(middleware=[JsonSuffix()], router=(router := Router()))
    app.req_options.strip_url_path_trailing_slash = True
    paths: dict[str, dict[str, Handler]] = defaultdict(dict)
    # The first route of a path and method wins, so a plugin cannot replace a core resource.
    for route in routes:
        paths[route.path].setdefault(route.method, route.handler)
    endpoints: list[tuple[str, Endpoint]] = []
    for path, handlers in paths.items():
        names, resource = _PARAMETER.findall(path), resource_of(path)
        endpoint = Endpoint(handlers, names, authentication, max_body, typed, resource, compress_from, link_prefix)
        endpoints += [(_positional(spelling), endpoint) for spelling in _spellings(path)]
    for route in public:
        endpoint = Endpoint({route.method: route.handler}, (), None, max_body, typed, link_prefix=link_prefix)
        endpoints.append((route.path, endpoint))
    router.serve(endpoints)
    app.add_sink(_not_found, prefix="/")
    app.add_error_handler(errors.ApiError, _api_error)
    app.add_error_handler(falcon.HTTPError, _http_error)
    app.add_error_handler(Exception, _unexpected)
    return app


def resource_of(path: str) -> str:
    """The collection that a route is about, for metrics: `qos_policies`, and of a child resource `port_forwardings`."""
    words = path.removeprefix(PREFIX).strip("/").split("/")
    at = words.index("{parent}") + 1 if "{parent}" in words[:-1] else 0
    names = list(itertools.takewhile(lambda word: not word.startswith("{"), words[at:]))
    return "_".join(names).replace("-", "_") or "discovery"


def _spellings(path: str) -> set[str]:
    """The spellings of a path: a collection's name may have dashes or underscores."""
    if not path.startswith(f"{PREFIX}/"):
        return {path}
    name, slash, rest = path.removeprefix(f"{PREFIX}/").partition("/")
    names = {name, name.replace("-", "_"), name.replace("_", "-")}
    return {f"{PREFIX}/{each}{slash}{rest}" for each in names}


_PARAMETER = re.compile(r"\{(\w+)\}")


def _positional(path: str) -> str:
    """Falcon needs the same name for the same part of all paths; here it is a key in one route, a parent in another."""
    counter = itertools.count()
    return _PARAMETER.sub(lambda match: f"{{part{next(counter)}}}", path)


def _not_found(req: falcon.Request, resp: falcon.Response, **_: object) -> None:
    raise errors.HTTPNotFound(f"The API has no path {req.path[:255]!r}.")


def _write_error(resp: falcon.Response, status: int, type_: str, message: str) -> None:
    write(resp, Reply(status, {"NeutronError": {"type": type_, "message": message, "detail": ""}}))


def _api_error(req: falcon.Request, resp: falcon.Response, error: errors.ApiError, params: object) -> None:
    if error.retry_after is not None:
        resp.set_header("Retry-After", str(error.retry_after))
    _write_error(resp, error.status, error.type, error.message)


HTTP_NAMES = {404: "HTTPNotFound", 405: "HTTPMethodNotAllowed", 413: "HTTPRequestEntityTooLarge"}


def _http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, params: object) -> None:
    status = error.status_code
    if error.headers:
        resp.set_headers(error.headers)
    message = error.description or error.title or ""
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        message = _not_allowed(req, resp.get_header("Allow") or "")
    _write_error(resp, status, HTTP_NAMES.get(status, "HTTPBadRequest"), message)


def _not_allowed(req: falcon.Request, allowed: str) -> str:
    methods = {each.strip() for each in allowed.split(",")} - {"OPTIONS", ""}
    if "{" not in (req.uri_template or ""):
        methods -= {"PUT", "DELETE"}  # of a collection, where they are answered with 404
    *first, last = sorted(methods) or ["no other"]
    return f"{req.method} is not allowed on this path, but {', '.join(first)}{' and ' if first else ''}{last}."


def _unexpected(req: falcon.Request, resp: falcon.Response, error: Exception, params: object) -> None:
    """A defect of this server: logged with its cause; the client gets the request id only."""
    request_id = req.env.get("openstack.request_id", "")
    LOG.exception("%s %s failed (%s)", req.method, req.path, request_id)
    message = f"Internal error: the cause is in the server's log under {request_id or 'this time'}."
    _write_error(resp, 500, "HTTPInternalServerError", message)
