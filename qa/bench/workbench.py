"""Shared by the parts of the load: connection, sizes, and creation of networks, subnets and ports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qa.bench.client import Client, Reply, Target
from qa.bench.timing import Figures, at_once, dealt


@dataclass(frozen=True)
class Sizes:
    """Sizes of the load."""

    repeats: int = 50
    list_sizes: tuple[int, ...] = (1000, 5000)
    list_repeats: int = 10
    bulk_repeats: int = 3
    rules: int = 100
    routers: int = 20
    clients: int = 4


QUICK = Sizes(repeats=10, list_sizes=(1000,), list_repeats=3, bulk_repeats=1, routers=5)


def progress(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _ignore(moment: str) -> None:
    """Discard progress messages."""


@dataclass
class Bench:
    """One run of the load. All its objects belong to `project`, which is new."""

    client: Client
    project: str
    sizes: Sizes
    observe: Callable[[str], None] = _ignore
    results: dict[str, Figures] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        return self.client.target

    def record(self, operation: str, measured: Figures) -> None:
        self.results[operation] = measured

    def create_network(self, name: str, **attributes: Any) -> Reply:
        return self.client.post("/networks", {"network": {"name": f"bench-{name}", **attributes}})

    def create_subnet(self, network: str, cidr: str, **attributes: Any) -> Reply:
        body = {"network_id": network, "ip_version": 4, "cidr": cidr, **attributes}
        return self.client.post("/subnets", {"subnet": body})

    def create_port(self, network: str, name: str = "bench") -> Reply:
        return self.client.post("/ports", {"port": {"network_id": network, "name": name}})

    def network_with_subnet(self, name: str, cidr: str, **attributes: Any) -> str:
        """The id of a new network with a subnet."""
        network = identity(self.create_network(name, **attributes))
        self.create_subnet(network, cidr)
        return network

    def delete_all(self, collection: str, ids: list[str]) -> Figures | None:
        """Delete with several clients; objects that are deleted already are ignored."""
        if not ids:
            return None
        measured, _ = at_once(
            self.target,
            dealt(ids, self.sizes.clients),
            lambda client, item: client.delete(f"/{collection}/{item}", accept=(200, 204, 404)),
        )
        return measured


def identity(reply: Reply) -> str:
    """The id of the resource in a response."""
    return str(reply.item()["id"])
