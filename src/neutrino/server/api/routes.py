"""Every URL, in one table.

    GET    /v2.0/things                     index      PUT    /v2.0/things/{id}/verb       act
    POST   /v2.0/things                     create     …      /v2.0/parents/{id}/things…   the same, below a parent
    GET    /v2.0/things/{id}                show       …      /v2.0/things/{id}/tags…      tags
    PUT    /v2.0/things/{id}                update     …      /v2.0/quotas…                quotas
    DELETE /v2.0/things/{id}                delete     GET    / /v2.0 /v2.0/extensions /openapi.json

A path may end in `.json`. Other paths are answered with 404, other methods of a path with 405.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neutrino.server.api.catalog import Served
from neutrino.server.api.pipeline import Pipeline, Reply, Request

Handler = Callable[[Request], Reply]
PREFIX = "/v2.0"


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
    if resource.parent:
        base = f"{PREFIX}/{resource.parent.collection.replace('_', '-')}/{{parent}}/{resource.url}"
    member = f"{base}/{{key}}"
    routes = []
    if served.index:
        routes.append(Route("GET", base, lambda r: pipeline.index(served, r)))
    if served.create:
        routes.append(Route("POST", base, lambda r: pipeline.create(served, r)))
    if served.show:
        routes.append(Route("GET", member, lambda r: pipeline.show(served, r)))
    if served.update:
        routes.append(Route("PUT", member, lambda r: pipeline.update(served, r)))
    if served.delete:
        routes.append(Route("DELETE", member, lambda r: pipeline.delete(served, r)))
    # Not a lambda here: it would see the last action only.
    for action in served.actions:
        routes.append(Route("PUT", f"{member}/{action}", _action(pipeline, served, action)))
    if not resource.parent:  # the id is missing
        for method in ("PUT", "DELETE"):
            routes.append(Route(method, base, lambda r: _no_member(served)))
    return routes


def _action(pipeline: Pipeline, served: Served, action: str) -> Handler:
    return lambda request: pipeline.act(served, action, request)


def _no_member(served: Served) -> Reply:
    raise served.resource.not_found(id="", object_type=served.resource.name, address_group_id="")
