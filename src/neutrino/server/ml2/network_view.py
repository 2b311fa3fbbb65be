"""The view of networks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from neutrino.server.access import sharing
from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, View, among, one_of, own_ids, shared_ids, shared_with_viewer
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.segments import NAMES, shown
from neutrino.server.query import Query

Object = dict[str, Any]
NO_SEGMENTS = b"null"

_c = t.networks.c
_s = t.network_segments.c
RENAMED = {
    "router:external": "external",
    "provider:network_type": "network_type",
    "provider:physical_network": "physical_network",
    "provider:segmentation_id": "segmentation_id",
}


def _by_segment(column: sa.ColumnElement[Any]) -> Callable[[tuple[Any, ...]], sa.ColumnElement[bool]]:
    return lambda values: sa.exists(sa.select(_s.id).where(_s.network_id == _c.id, one_of(column, values)))


_SHARED = shared_with_viewer(_c.id)
_OPENED = shared_with_viewer(_c.id, sharing.EXTERNAL)
VIEW = View(
    t.networks,
    renamed=RENAMED,
    computed={"shared": _SHARED, "l2_adjacency": sa.literal(True, sa.Boolean)},
    filters={
        "shared": lambda values: sa.or_(*(_SHARED if v else sa.not_(_SHARED) for v in values)),
        "provider:network_type": _by_segment(_s.network_type),
        "provider:physical_network": _by_segment(_s.physical_network),
        "provider:segmentation_id": _by_segment(_s.segmentation_id),
    },
    scope=sa.or_(_c.project_id == PROJECT, _SHARED, _OPENED),
    listed=among(t.networks, own_ids(t.networks), shared_ids(sharing.SHARED, sharing.EXTERNAL)),
)


def with_id(query: Query) -> Query:
    """The query with `id` among its fields: availability zones are added by it."""
    if query.fields is None or "id" in query.fields:
        return query
    return replace(query, fields=(*query.fields, "id"))


def one_way_of_segments(row: Object) -> None:
    """Show either `segments` or the provider attributes: to clients, `segments` means a network with several."""
    if "segments" in row:
        if bytes(row["segments"]) == NO_SEGMENTS:
            del row["segments"]
        else:
            for name in NAMES:
                row.pop(name, None)


def api_network(network: Object, segments: Sequence[Segment]) -> Object:
    """A network that was just written, as the API shows it."""
    columns = shown(segments)
    out = {**network, "tenant_id": network["project_id"]}
    for name in (*NAMES, "segments"):
        out.pop(name, None)
    if columns["segments"] is not None:
        return {**out, "segments": columns["segments"]}
    return {**out, **{api: columns[column] for api, column in RENAMED.items() if column in columns}}
