"""Notifications of metered traffic, in the format of Neutron's metering agent, which Ceilometer reads. Pure.

By default there is one for each label and host, `l3.meter`, with the traffic of all routers of the host. Granular ones
have the sums of labels, routers and projects, and of both, each as an event type of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Payload = dict[str, Any]
EVENT = "l3.meter"


@dataclass(frozen=True)
class Difference:
    """The traffic that a counter has counted since the last report."""

    label_id: str
    router_id: str
    project_id: str  # of the router
    packets: int
    bytes: int
    seconds: int
    first_update: int
    last_update: int


class Label(NamedTuple):
    name: str
    shared: bool
    project_id: str


def render(
    host: str, differences: Iterable[Difference], labels: Mapping[str, Label], *, granular: bool
) -> Iterator[tuple[str, Payload]]:
    """Event types and payloads; `labels` are those that exist."""
    known = list(differences)
    if not granular:
        for label_id, several in _by(known, lambda each: each.label_id):
            tenant = several[-1].project_id
            yield EVENT, {"label_id": label_id, "tenant_id": tenant, **_sum(host, several)}
        return
    # A label that was deleted meanwhile has neither a name nor a project any more: these granularities need both.
    labelled = [each for each in known if each.label_id in labels]
    for event, several, resource, details in (
        ("label", labelled, _label_key, lambda each: _label_details(each, labels[each.label_id])),
        ("router", known, _router_key, _router_details),
        ("project", known, _project_key, _project_details),
        (
            *("label_router", labelled, lambda each: f"{_router_key(each)}-{_label_key(each)}"),
            lambda each: {**_label_details(each, labels[each.label_id]), **_router_details(each)},
        ),
        (
            *("label_project", labelled, lambda each: f"{_project_key(each)}-{_label_key(each)}"),
            lambda each: {**_label_details(each, labels[each.label_id]), **_project_details(each)},
        ),
    ):
        for key, group in _by(several, resource):
            yield f"{EVENT}.{event}", {"resource_id": key, **details(group[0]), **_sum(host, group)}


def _by(differences: Iterable[Difference], key: Callable[[Difference], str]) -> Iterable[tuple[str, list[Difference]]]:
    found: defaultdict[str, list[Difference]] = defaultdict(list)
    for each in differences:
        found[key(each)].append(each)
    return found.items()


def _sum(host: str, several: list[Difference]) -> Payload:
    return {
        "pkts": sum(each.packets for each in several),
        "bytes": sum(each.bytes for each in several),
        "time": max(each.seconds for each in several),
        "first_update": min(each.first_update for each in several),
        "last_update": max(each.last_update for each in several),
        "host": host,
    }


def _label_key(each: Difference) -> str:
    return f"label-{each.label_id}"


def _router_key(each: Difference) -> str:
    return f"router-{each.router_id}"


def _project_key(each: Difference) -> str:
    return f"project-{each.project_id}"


def _label_details(each: Difference, label: Label) -> Payload:
    project = "all" if label.shared else label.project_id
    return {"label_id": each.label_id, "label_name": label.name, "label_shared": label.shared, "project_id": project}


def _router_details(each: Difference) -> Payload:
    return {"router_id": each.router_id, "project_id": each.project_id}


def _project_details(each: Difference) -> Payload:
    return {"project_id": each.project_id}
