"""What a client asks first: which versions, which resources, which extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route


def _origin(url: str) -> str:
    """Scheme and host of a request's URL."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def public_routes() -> list[Route]:
    def versions(request: Request) -> Reply:
        link = {"rel": "self", "href": f"{_origin(request.url)}{PREFIX}/"}
        return Reply(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]})

    return [Route("GET", "/", versions)]


def routes(core: Sequence[Resource], extensions: Sequence[dict[str, Any]]) -> list[Route]:
    def resources(request: Request) -> Reply:
        origin = _origin(request.url)
        listed = [
            {
                "name": r.name,
                "collection": r.collection,
                "links": [{"rel": "self", "href": f"{origin}{PREFIX}/{r.collection}"}],
            }
            for r in core
        ]
        return Reply(200, {"resources": listed})

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
