"""Taps as hosts get them: a part of their ports."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.taas.tables import tap_flows, tap_mirrors, tap_services
from neutrino.model.fields import is_peer
from neutrino.model.roles import L2
from neutrino.model.state import Port
from neutrino.model.taps import NO_TAPS, Tap, TapMirror, TapOrigin, Taps, VlanRange
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.db.sql import NamedRow
from neutrino.server.feed.declarations import Affects, Changed, Feed, Part, Reference
from neutrino.server.feed.readers.rows import Ids, read_ids, read_rows
from neutrino.server.feed.reports.rules import DONE_OR_NOT, ReportedStatus

_PAIRS = tap_flows.join(tap_services, tap_services.c.id == tap_flows.c.tap_service_id)
_source, _sink = t.ports.alias("source"), t.ports.alias("sink")
_SERVICES = RowsLookup(sa.select(tap_services.c.port_id, tap_services.c.id).order_by(tap_services.c.id))
_FLOWS = RowsLookup(
    sa.select(
        *(tap_flows.c.source_port, tap_flows.c.id, tap_flows.c.direction, tap_flows.c.vlan_filter),
        *(tap_flows.c.tunnel_id, tap_services.c.port_id, _sink.c.host),
    )
    .select_from(_PAIRS.join(_sink, _sink.c.id == tap_services.c.port_id))
    .order_by(tap_flows.c.id)
)
_ORIGINS = RowsLookup(
    sa.select(tap_services.c.port_id, tap_flows.c.id, tap_flows.c.tunnel_id, _source.c.host)
    .select_from(_PAIRS.join(_source, _source.c.id == tap_flows.c.source_port))
    .order_by(tap_flows.c.id)
)
_MIRRORS = RowsLookup(
    sa.select(
        *(tap_mirrors.c.port_id, tap_mirrors.c.id, tap_mirrors.c.directions),
        *(tap_mirrors.c.remote_ip, tap_mirrors.c.mirror_type),
    ).order_by(tap_mirrors.c.id)
)
_SINKS = RowsLookup(sa.select(tap_services.c.port_id).select_from(_PAIRS))
_SOURCES = RowsLookup(sa.select(tap_flows.c.source_port).select_from(_PAIRS))


def read_taps(connection: Connection, ids: Ids) -> dict[str, dict[str, Taps]]:
    """The taps of ports that have any, by port."""
    by_port: defaultdict[str, defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows(connection, _SERVICES, tap_services.c.port_id, ids):
        by_port[row.port_id]["services"].append(row.id)
    for row in read_rows(connection, _FLOWS, tap_flows.c.source_port, ids):
        by_port[row.source_port]["flows"].append(_tap(row))
    for row in read_rows(connection, _ORIGINS, tap_services.c.port_id, ids):
        by_port[row.port_id]["origins"].append(TapOrigin(id=row.id, host=row.host, tunnel_id=row.tunnel_id))
    for row in read_rows(connection, _MIRRORS, tap_mirrors.c.port_id, ids):
        if is_peer(row.remote_ip):  # a row of before this check would be a fault of the whole port
            by_port[row.port_id]["mirrors"] += _mirrors(row)
    return {
        port_id: {"taps": Taps(**{name: tuple(values) for name, values in fields.items()})}
        for port_id, fields in by_port.items()
    }


def tapped_with(connection: Connection, changed: Changed) -> set[str]:
    """The ports at the other ends of changed ports' tap flows: hosts need the host of both."""
    sinks = read_ids(connection, _SINKS, tap_flows.c.source_port, changed.named("port"))
    return sinks | read_ids(connection, _SOURCES, tap_services.c.port_id, changed.named("port"))


def flows_of(port: Port) -> Iterable[str]:
    """Both hosts of a tap flow need each other's tunnel address, like those of a network."""
    taps = port.taps or NO_TAPS
    return *(flow.id for flow in taps.flows), *(origin.id for origin in taps.origins)


def _tap(row: NamedRow) -> Tap:
    return Tap(
        id=row.id,
        port_id=row.port_id,
        host=row.host,
        direction=row.direction,
        tunnel_id=row.tunnel_id,
        vlans=parse_ranges(row.vlan_filter),
    )


def parse_ranges(text: str | None) -> tuple[VlanRange, ...]:
    """The ranges of a valid `vlan_filter`."""
    parts = (part.partition("-") for part in text.split(",")) if text else ()
    return tuple((int(first), int(last or first)) for first, _, last in parts)


def _mirrors(row: NamedRow) -> list[TapMirror]:
    same = {"id": row.id, "remote_ip": row.remote_ip, "mirror_type": row.mirror_type}
    directions: dict[str, int] = msgspec.json.decode(row.directions)
    return [TapMirror(direction=name, tunnel_id=number, **same) for name, number in sorted(directions.items())]


FEED = Feed(
    parts=(Part(of="port", defaults={"taps": None}, read=read_taps),),
    references=(Reference("host", "port", flows_of),),
    affects=(Affects(records="port", named=("port",), find=tapped_with),),
    statuses=dict.fromkeys(("tap_service", "tap_flow"), ReportedStatus(DONE_OR_NOT, frozenset({L2}))),
)
