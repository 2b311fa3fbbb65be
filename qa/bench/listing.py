"""Many ports: a hundred in one request, and lists of a thousand and more, whole, in part and page by page."""

from __future__ import annotations

import time

from qa.bench.client import LoadError
from qa.bench.timing import figures, one_by_one, repeated
from qa.bench.workbench import Bench, identity, progress

BULK = 100
_PORTS_PER_NETWORK = 1000
_FEW = 20


class Ports:
    """The existing ports, a thousand per network, and a small network for the filter."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._networks = 0
        self.ids: list[str] = []
        self.small = bench.network_with_subnet("few", "10.3.0.0/16")
        self._current = ""
        self._room = 0
        self.add(_FEW, self.small)

    def add(self, count: int, network: str | None = None) -> float:
        """Create ports in one request; returns its milliseconds."""
        chosen = network or self._with_room(count)
        ports = [{"network_id": chosen, "name": f"many{i}"} for i in range(count)]
        reply = self._bench.client.post("/ports", {"ports": ports})
        made = [str(port["id"]) for port in reply.items()]
        if len(made) != count:
            raise LoadError(f"{len(made)} ports made instead of {count}")
        self.ids += made
        return reply.millis

    def fill(self, goal: int) -> None:
        while len(self.ids) < goal:
            self.add(min(BULK, goal - len(self.ids)))

    def _with_room(self, count: int) -> str:
        if self._room < count:
            self._networks += 1
            self._current = self._bench.network_with_subnet(f"many{self._networks}", f"10.{10 + self._networks}.0.0/16")
            self._room = _PORTS_PER_NETWORK
        self._room -= count
        return self._current


def run(bench: Bench) -> None:
    ports = Ports(bench)
    bulk(bench, ports)
    for goal in bench.sizes.list_sizes:
        progress(f"filling up to {goal} ports")
        ports.fill(goal)
        progress(f"lists of {goal} ports")
        lists(bench, ports, goal)
        bench.observe(f"ports_{goal}")


def bulk(bench: Bench, ports: Ports) -> None:
    bench.record("bulk_100_ports", figures(ports.add(BULK) for _ in range(bench.sizes.bulk_repeats)))


def lists(bench: Bench, ports: Ports, goal: int) -> None:
    prefix = f"list_{goal}"
    client, times, total = bench.client, bench.sizes.list_repeats, len(ports.ids)
    # The server may have ports of other projects too, which an unfiltered list includes.
    bench.record(f"{prefix}_all", repeated(client, "/ports", max(3, times // 2), at_least=total))
    bench.record(f"{prefix}_fields_id", repeated(client, "/ports?fields=id", times, at_least=total))
    bench.record(f"{prefix}_of_network", repeated(client, f"/ports?network_id={ports.small}", times, _FEW))
    bench.record(f"{prefix}_limit_100", repeated(client, "/ports?limit=100", times, 100))
    page = f"/ports?limit=100&sort_key=id&sort_dir=asc&marker={sorted(ports.ids)[total // 2]}"
    bench.record(f"{prefix}_from_marker", repeated(client, page, times, 100))
    bench.record(f"{prefix}_walk", _walk(bench, ports))
    measured, _ = one_by_one(ports.ids[:50], lambda port: client.get(f"/ports/{port}"))
    bench.record(f"{prefix}_show_port", measured)
    measured, replies = one_by_one(range(30), lambda _: bench.create_port(ports.small))
    bench.record(f"{prefix}_create_port", measured)
    bench.delete_all("ports", [identity(reply) for reply in replies])


def _walk(bench: Bench, ports: Ports) -> dict[str, float | int]:
    """The whole list in pages of a hundred, which must contain each port exactly once."""
    seen: list[str] = []
    marker, pages = "", 0
    started = time.perf_counter()
    while True:
        page = bench.client.get(f"/ports?limit=100{marker}").items()
        if not page:
            break
        pages += 1
        seen += [str(port["id"]) for port in page]
        marker = f"&marker={seen[-1]}"
    millis = (time.perf_counter() - started) * 1000
    if len(set(seen)) != len(seen) or not set(ports.ids) <= set(seen):
        raise LoadError(f"page by page {len(set(seen))} ports in {len(seen)} places, {len(ports.ids)} made")
    return {"items": len(seen), "pages": pages, "p50_ms": round(millis, 1)}
