"""Routers whose traffic a host may report: those that it has, and for a bounded time those that it had."""

from __future__ import annotations

from neutrino.feed.messages import Traffic
from neutrino.model.routing import MeteredTraffic, Router
from neutrino.server.feed.placed_routers import PlacedRouters
from neutrino.server.feed.records import RouterRecord


class Cloud:
    """Routers as a fan-out has them: the mapping and what is called with each change."""

    def __init__(self, most: int = 1000) -> None:
        self.now = 1000.0
        self.routers: dict[str, RouterRecord] = {}
        self.placed = PlacedRouters(lambda: self.now, kept_seconds=60, most=most)
        self.placed.follow(self.routers)

    def place(self, router_id: str, *hosts: str, project_id: str = "project") -> None:
        before = self.routers.pop(router_id, None)
        if hosts:
            self.routers[router_id] = {host: Router(id=router_id, project_id=project_id) for host in hosts}
        self.placed.changed(router_id, before, self.routers.get(router_id))


def test_a_router_counts_where_it_is_and_for_a_while_where_it_was() -> None:
    cloud = Cloud()
    cloud.place("r", "h1", "h2")
    assert cloud.placed.project_of("h1", "r") == "project"
    assert cloud.placed.project_of("h3", "r") is None
    cloud.place("r", "h2", "h3")
    cloud.now += 59
    assert [cloud.placed.project_of(host, "r") for host in ("h1", "h2", "h3")] == ["project"] * 3
    cloud.now += 2
    assert cloud.placed.project_of("h1", "r") is None
    cloud.place("r")  # deleted
    assert cloud.placed.project_of("h3", "r") == "project"


def test_a_router_that_is_back_and_leaves_again() -> None:
    cloud = Cloud()
    for hosts in (("h1",), ("h2",), ("h1",), ()):
        cloud.place("r", *hosts)
        cloud.now += 50
    assert cloud.placed.project_of("h1", "r") == "project"
    assert cloud.placed.project_of("h2", "r") is None


def test_what_left_while_everything_was_read_again() -> None:
    cloud = Cloud()
    cloud.place("stays", "h1")
    cloud.place("left", "h1")
    cloud.placed.follow({"stays": cloud.routers["stays"]})
    assert [cloud.placed.project_of("h1", key) for key in ("stays", "left")] == ["project", "project"]
    cloud.now += 61
    assert [cloud.placed.project_of("h1", key) for key in ("stays", "left")] == ["project", None]


def test_the_number_is_bounded() -> None:
    cloud = Cloud(most=10)
    for number in range(20):
        cloud.place(f"r{number}", "h1")
        cloud.place(f"r{number}")
    assert [cloud.placed.project_of("h1", f"r{number}") for number in (9, 10, 19)] == [None, "project", "project"]


def test_counters_of_others_are_left_out_and_have_the_routers_project() -> None:
    cloud = Cloud()
    cloud.place("mine", "h1")
    cloud.place("others", "h2")

    def counter(router_id: str) -> MeteredTraffic:
        times = {"first_update": 1, "last_update": 2}
        return MeteredTraffic(
            id=router_id, label_id="l", router_id=router_id, project_id="claimed", packets=1, bytes=1, **times
        )

    kept = cloud.placed.own("h1", Traffic(serial=7, counters=(counter("mine"), counter("others"), counter("none"))))
    assert (kept.serial, [(each.router_id, each.project_id) for each in kept.counters]) == (7, [("mine", "project")])
