"""Placement and the aggregates of Nova, as far as segments are reported to them; stateful, in memory.

Requests are checked as the services do: a generation that is not the current one is a conflict, and so is what exists.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from typing import Any

from neutrino.server.placement import PlacementResponse

_LIMITS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


@dataclass
class FakePlacement:
    providers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any) -> PlacementResponse:
        parts = path.strip("/").split("/")
        assert parts[0] == "resource_providers", path
        if len(parts) == 1:
            return self._create(body)
        provider = self.providers.get(parts[1])
        if provider is None:
            return PlacementResponse(404, None)
        if len(parts) == 2:
            return self._one(method, parts[1], provider)
        return {"inventories": self._inventories, "aggregates": self._aggregates}[parts[2]](method, provider, body)

    def _create(self, body: Any) -> PlacementResponse:
        if body["uuid"] in self.providers or any(p["name"] == body["name"] for p in self.providers.values()):
            return PlacementResponse(409, None)
        self.providers[body["uuid"]] = {"name": body["name"], "generation": 0, "inventories": {}, "aggregates": []}
        return PlacementResponse(201, None)

    def _one(self, method: str, key: str, provider: dict[str, Any]) -> PlacementResponse:
        if method == "DELETE":
            del self.providers[key]
            return PlacementResponse(204, None)
        return PlacementResponse(200, {"uuid": key, "name": provider["name"], "generation": provider["generation"]})

    def _inventories(self, method: str, provider: dict[str, Any], body: Any) -> PlacementResponse:
        if method == "PUT":
            if body["resource_provider_generation"] != provider["generation"]:
                return PlacementResponse(409, None)
            for inventory in body["inventories"].values():
                if set(inventory) != set(_LIMITS) or not 0 <= inventory["reserved"] <= inventory["total"]:
                    return PlacementResponse(400, None)
            provider["inventories"] = body["inventories"]
            provider["generation"] += 1
        shown = {"resource_provider_generation": provider["generation"], "inventories": provider["inventories"]}
        return PlacementResponse(200, shown)

    def _aggregates(self, method: str, provider: dict[str, Any], body: Any) -> PlacementResponse:
        if method == "PUT":
            assert isinstance(body, list)  # as of microversion 1.1
            provider["aggregates"] = body
        return PlacementResponse(200, {"aggregates": provider["aggregates"]})


@dataclass
class FakeAggregates:
    hosts: set[str] = field(default_factory=set)  # those with a compute service
    aggregates: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def call(self, method: str, path: str, body: Any) -> PlacementResponse:
        parts = path.strip("/").split("/")
        assert parts[0] == "os-aggregates", path
        if len(parts) == 1 and method == "GET":
            return PlacementResponse(200, {"aggregates": list(self.aggregates.values())})
        if len(parts) == 1:
            made = {**body["aggregate"], "id": next(self._ids), "uuid": str(uuid.uuid4()), "hosts": []}
            self.aggregates[str(made["id"])] = made
            return PlacementResponse(200, {"aggregate": made})
        aggregate = self.aggregates.get(parts[1])
        if aggregate is None:
            return PlacementResponse(404, None)
        if method == "DELETE":
            if aggregate["hosts"]:  # Nova refuses to delete an aggregate with hosts
                return PlacementResponse(400, None)
            del self.aggregates[parts[1]]
            return PlacementResponse(200, None)
        ((action, values),) = body.items()
        return self._act(aggregate, action, values["host"])

    def _act(self, aggregate: dict[str, Any], action: str, host: str) -> PlacementResponse:
        if host not in self.hosts:
            return PlacementResponse(404, None)
        if (host in aggregate["hosts"]) == (action == "add_host"):
            return PlacementResponse(409 if action == "add_host" else 404, None)
        changed = [*aggregate["hosts"], host] if action == "add_host" else [h for h in aggregate["hosts"] if h != host]
        aggregate["hosts"] = changed
        return PlacementResponse(200, {"aggregate": aggregate})
