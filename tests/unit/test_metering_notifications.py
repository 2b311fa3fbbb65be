"""Notifications of metered traffic: one for each label, or one for each of all granularities."""

from __future__ import annotations

import dataclasses

from neutrino.features.metering.notifications import Difference, Label, render

FIRST = Difference(
    label_id="l1", router_id="r1", project_id="p1", packets=3, bytes=300, seconds=30, first_update=10, last_update=70
)
SECOND = dataclasses.replace(FIRST, router_id="r2", project_id="p2", packets=4, bytes=500, seconds=20, first_update=20)
OTHER = dataclasses.replace(FIRST, label_id="l2", packets=1, bytes=50)
SUM = {"pkts": 7, "bytes": 800, "time": 30, "first_update": 10, "last_update": 70, "host": "h1"}


def test_one_for_each_label_with_the_traffic_of_all_routers() -> None:
    found = list(render("h1", [FIRST, SECOND, OTHER], {}, granular=False))
    assert [event for event, _ in found] == ["l3.meter", "l3.meter"]
    assert found[0][1] == {"label_id": "l1", "tenant_id": "p2", **SUM}
    assert (found[1][1]["label_id"], found[1][1]["tenant_id"], found[1][1]["pkts"]) == ("l2", "p1", 1)


def test_granular_ones() -> None:
    labels = {"l1": Label("one", shared=True, project_id="p0")}  # l2 is deleted
    found = list(render("h1", [FIRST, SECOND, OTHER], labels, granular=True))
    sums = {(event.removeprefix("l3.meter."), payload["resource_id"]): payload["pkts"] for event, payload in found}
    assert sums == {
        ("label", "label-l1"): 7,
        ("router", "router-r1"): 4,
        ("router", "router-r2"): 4,
        ("project", "project-p1"): 4,
        ("project", "project-p2"): 4,
        ("label_router", "router-r1-label-l1"): 3,
        ("label_router", "router-r2-label-l1"): 4,
        ("label_project", "project-p1-label-l1"): 3,
        ("label_project", "project-p2-label-l1"): 4,
    }
    details = {payload["resource_id"]: payload for _, payload in found}
    shown = {"label_id": "l1", "label_name": "one", "label_shared": True}
    assert details["label-l1"] == {"resource_id": "label-l1", "project_id": "all", **shown, **SUM}
    assert details["router-r1-label-l1"].items() >= {**shown, "router_id": "r1", "project_id": "p1"}.items()
    assert details["project-p2-label-l1"]["project_id"] == "p2"
    assert details["router-r2"].keys() == {"resource_id", "router_id", "project_id", *SUM}
    assert details["project-p1"].keys() == {"resource_id", "project_id", *SUM}


def test_a_label_of_one_project() -> None:
    labels = {"l1": Label("one", shared=False, project_id="p1")}
    (label, *_) = render("h1", [FIRST], labels, granular=True)
    assert label[1]["project_id"] == "p1"
