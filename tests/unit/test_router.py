"""The router of paths: compiled once for servers with the same paths, with endpoints of each server's own."""

from __future__ import annotations

from typing import Any

from neutrino.server.api.app import Endpoint, Router
from neutrino.server.api.pipeline import Reply

PATHS = ("/v2.0/things", "/v2.0/things/{p0}", "/v2.0/things/{p0}/parts/{p1}", "/v2.0/{p0}")


def router(*paths: str) -> tuple[Router, list[Endpoint]]:
    endpoints = [Endpoint({"GET": lambda _: Reply(200)}, (), None, 0, False) for _ in paths]
    made = Router()
    made.serve([*zip(paths, endpoints, strict=True)])
    return made, endpoints


def found(one: Router, path: str) -> Any:
    endpoint, _, parameters, template = one.find(path)
    return endpoint, parameters, template


def test_each_router_finds_its_own_endpoints() -> None:
    first, second = router(*PATHS), router(*PATHS)
    for made, endpoints in (first, second, first):
        assert found(made, "/v2.0/things") == (endpoints[0], {}, PATHS[0])
        assert found(made, "/v2.0/things/a") == (endpoints[1], {"p0": "a"}, PATHS[1])
        assert found(made, "/v2.0/things/a/parts/b") == (endpoints[2], {"p0": "a", "p1": "b"}, PATHS[2])
        assert found(made, "/v2.0/others") == (endpoints[3], {"p0": "others"}, PATHS[3])
        assert made.find("/v2.0/things/a/parts") is None
        assert made.find("/v3") is None


def test_a_router_has_only_its_own_paths() -> None:
    few, _ = router(*PATHS[:1])
    assert few.find("/v2.0/things/a") is None
    many, endpoints = router(*PATHS)
    assert found(many, "/v2.0/things/a")[0] is endpoints[1]
    assert few.find("/v2.0/things/a") is None


def test_methods_without_a_handler_are_answered_for_each_endpoint() -> None:
    made, (endpoint,) = router(PATHS[0])
    _, methods, _, _ = made.find(PATHS[0])
    assert methods["GET"] == endpoint._answer
    assert {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"} <= methods.keys()
    assert methods["POST"] is methods["DELETE"] is not methods["OPTIONS"]
