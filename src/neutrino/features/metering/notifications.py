"""Notifications of metered traffic, in the format of Neutron's metering agent, which Ceilometer reads. Pure.

By default there is one for one label and host, `l3.meter`, with the traffic of all routers of the host. Granular ones
have the sums of labels, routers and projects, and of both, one as an event type of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from neutrino.model.objects import Object

Payload = Object
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
    every = list(differences)
    if not granular:
        for label_id, several in _by(every, lambda one: one.label_id):
            tenant = several[-1].project_id
            yield EVENT, {"label_id": label_id, "tenant_id": tenant, **_sum(host, several)}
        return
    # A label that was deleted meanwhile has neither a name nor a project any more: these granularities need both.
    labelled = [one for one in every if one.label_id in labels]
    for event, several, resource, details in (
        ("label", labelled, _label_key, lambda one: _label_details(one, labels[one.label_id])),
        ("router", every, _router_key, _router_details),
        ("project", every, _project_key, _project_details),
        (
            *("label_router", labelled, lambda one: f"{_router_key(one)}-{_label_key(one)}"),
            lambda one: {**_label_details(one, labels[one.label_id]), **_router_details(one)},
        ),
        (
            *("label_project", labelled, lambda one: f"{_project_key(one)}-{_label_key(one)}"),
            lambda one: {**_label_details(one, labels[one.label_id]), **_project_details(one)},
        ),
    ):
        for key, group in _by(several, resource):
            yield f"{EVENT}.{event}", {"resource_id": key, **details(group[0]), **_sum(host, group)}


def _by(differences: Iterable[Difference], key: Callable[[Difference], str]) -> Iterable[tuple[str, list[Difference]]]:
    by_key: defaultdict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        by_key[key(difference)].append(difference)
    return by_key.items()


def _sum(host: str, several: list[Difference]) -> Payload:
    return {
        "pkts": sum(one.packets for one in several),
        "bytes": sum(one.bytes for one in several),
        "time": max(one.seconds for one in several),
        "first_update": min(one.first_update for one in several),
        "last_update": max(one.last_update for one in several),
        "host": host,
    }


def _label_key(difference: Difference) -> str:
    return f"label-{difference.label_id}"


def _router_key(difference: Difference) -> str:
    return f"router-{difference.router_id}"


def _project_key(difference: Difference) -> str:
    return f"project-{difference.project_id}"


def _label_details(difference: Difference, label: Label) -> Payload:
    project = "all" if label.shared else label.project_id
    return {
        "label_id": difference.label_id,
        "label_name": label.name,
        "label_shared": label.shared,
        "project_id": project,
    }


def _router_details(difference: Difference) -> Payload:
    return {"router_id": difference.router_id, "project_id": difference.project_id}


def _project_details(difference: Difference) -> Payload:
    return {"project_id": difference.project_id}
