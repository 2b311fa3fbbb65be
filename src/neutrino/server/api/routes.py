"""Every URL, in one table.

    GET    /v2.0/things                     index      PUT    /v2.0/things/{id}/verb       act
    POST   /v2.0/things                     create     …      /v2.0/parents/{id}/things…   the same, below a parent
    GET    /v2.0/things/{id}                show       …      /v2.0/things/{id}/tags…      tags
    GET    /v2.0/things/{id}/noun           look_up
    PUT    /v2.0/things/{id}                update     …      /v2.0/quotas…                quotas
    DELETE /v2.0/things/{id}                delete     GET    / /v2.0 /v2.0/extensions /openapi.json

A path may end in `.json`. Other paths are answered with 404, other methods of a path with 405.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial

import msgspec

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.catalog import Served
from neutrino.server.api.definition import Extension, Resource
from neutrino.server.api.pipeline import Pipeline, Reply, Request

Handler = Callable[[Request], Reply]
PREFIX = "/v2.0"
VERBS = (
    ("index", "GET", ""),
    ("create", "POST", ""),
    ("show", "GET", "/{key}"),
    ("update", "PUT", "/{key}"),
    ("delete", "DELETE", "/{key}"),
)


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str  # with {key}, {parent} and {name}
    handler: Handler


def resource_routes(pipeline: Pipeline, served: Iterable[Served]) -> list[Route]:
    return [route for one in served for route in _routes(pipeline, one)]


def _routes(pipeline: Pipeline, served: Served) -> list[Route]:
    resource = served.resource
    base = f"{PREFIX}/{resource.url}"
    routes = [
        Route(method, f"{base}{member}", partial(getattr(pipeline, verb), served))
        for verb, method, member in VERBS
        if verb in resource.verbs
    ]
    for action in resource.actions:
        routes.append(Route("PUT", f"{base}/{{key}}/{action}", partial(pipeline.act, served, action)))
    for lookup in resource.lookups:
        routes.append(Route("GET", f"{base}/{{key}}/{lookup}", partial(pipeline.look_up, served, lookup)))
    if not resource.parent:
        verbs = (("PUT", "update"), ("DELETE", "delete"))
        routes += [Route(method, base, partial(_without_id, resource, method, verb)) for method, verb in verbs]
    return routes


def _without_id(resource: Resource, method: str, verb: str, request: Request) -> Reply:
    """PUT and DELETE of a collection: clients expect the 404 of the resource, not a 405."""
    path = f"{PREFIX}/{resource.url}"
    exists = verb in resource.verbs
    raise resource.not_found(f"{method} needs an id: {path}/{{id}}." if exists else f"There is no {method} of {path}.")


# --- discovery --------------------------------------------------------------------------------------------------------


def listed(extensions: Iterable[Extension]) -> list[Object]:
    """Extensions as the API shows them, each alias once."""
    return list({extension.alias: {**asdict(extension), "links": []} for extension in extensions}.values())


def public_routes(document: Callable[[], Object]) -> list[Route]:
    """The routes without authentication: the versions, and the OpenAPI document, generated on the first request for it."""
    encoded = cache(lambda: msgspec.json.encode(document()))  # most workers never get one

    def versions(request: Request) -> Reply:
        link = {"rel": "self", "href": f"{request.root}{PREFIX}/"}
        return Reply(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]})

    return [Route("GET", "/", versions), Route("GET", "/openapi.json", lambda request: Reply(200, encoded()))]


def discovery_routes(core: Sequence[Resource], extensions: Sequence[Object]) -> list[Route]:
    """The core resources, and the extensions."""

    def resources(request: Request) -> Reply:
        def link(resource: Resource) -> dict[str, str]:
            return {"rel": "self", "href": f"{request.root}{PREFIX}/{resource.collection}"}

        shown = [{"name": r.name, "collection": r.collection, "links": [link(r)]} for r in core]
        return Reply(200, {"resources": shown})

    def one_extension(request: Request) -> Reply:
        for extension in extensions:
            if extension["alias"] == request.key:
                return Reply(200, {"extension": extension})
        raise errors.HTTPNotFound(f"There is no extension {request.key!r}.")

    return [
        Route("GET", PREFIX, resources),
        Route("GET", f"{PREFIX}/extensions", lambda request: Reply(200, {"extensions": list(extensions)})),
        Route("GET", f"{PREFIX}/extensions/{{key}}", one_extension),
    ]
