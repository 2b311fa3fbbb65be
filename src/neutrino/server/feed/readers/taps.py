"""Reads the taps of ports: for the ports of the L2 role."""

from collections import defaultdict
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.fields import is_peer
from neutrino.model.taps import Tap, TapMirror, TapOrigin, Taps, VlanRange
from neutrino.server.db import tables as t
from neutrino.server.db.reads import RowsLookup
from neutrino.server.feed.declarations import Changed
from neutrino.server.feed.readers.rows import Ids, read_ids, read_rows

_s, _f, _m = t.tap_services.c, t.tap_flows.c, t.tap_mirrors.c
_source, _sink = t.ports.alias("source"), t.ports.alias("sink")
_SERVICES = RowsLookup(sa.select(_s.port_id, _s.id).order_by(_s.id))
_PAIRS = t.tap_flows.join(t.tap_services, _s.id == _f.tap_service_id)
_FLOWS = RowsLookup(
    sa.select(_f.source_port, _f.id, _f.direction, _f.vlan_filter, _f.tunnel_id, _s.port_id, _sink.c.host)
    .select_from(_PAIRS.join(_sink, _sink.c.id == _s.port_id))
    .order_by(_f.id)
)
_ORIGINS = RowsLookup(
    sa.select(_s.port_id, _f.id, _f.tunnel_id, _source.c.host)
    .select_from(_PAIRS.join(_source, _source.c.id == _f.source_port))
    .order_by(_f.id)
)
_MIRRORS = RowsLookup(sa.select(_m.port_id, _m.id, _m.directions, _m.remote_ip, _m.mirror_type).order_by(_m.id))
_SINKS = RowsLookup(sa.select(_s.port_id).select_from(_PAIRS))
_SOURCES = RowsLookup(sa.select(_f.source_port).select_from(_PAIRS))


def read_taps(connection: Connection, ids: Ids) -> dict[str, Taps]:
    """The taps of ports that have any, by port."""
    found: defaultdict[str, defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows(connection, _SERVICES, _s.port_id, ids):
        found[row.port_id]["services"].append(row.id)
    for row in read_rows(connection, _FLOWS, _f.source_port, ids):
        found[row.source_port]["flows"].append(_tap(row))
    for row in read_rows(connection, _ORIGINS, _s.port_id, ids):
        found[row.port_id]["origins"].append(TapOrigin(id=row.id, host=row.host, tunnel_id=row.tunnel_id))
    for row in read_rows(connection, _MIRRORS, _m.port_id, ids):
        if is_peer(
            row.remote_ip
        ):  # else a row of before this check: an invalid mirror would be a fault of the whole port
            found[row.port_id]["mirrors"] += _mirrors(row)
    return {key: Taps(**{name: tuple(values) for name, values in parts.items()}) for key, parts in found.items()}


def read_part(connection: Connection, ids: Ids) -> dict[str, dict[str, Taps]]:
    return {key: {"taps": taps} for key, taps in read_taps(connection, ids).items()}


def tapped_with(connection: Connection, changed: Changed) -> set[str]:
    """The ports at the other ends of changed ports' tap flows: hosts need the host of both."""
    port_ids = changed.named("port")
    return read_ids(connection, _SINKS, _f.source_port, port_ids) | read_ids(connection, _SOURCES, _s.port_id, port_ids)


def _tap(row: Any) -> Tap:
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


def _mirrors(row: Any) -> list[TapMirror]:
    same = {"id": row.id, "remote_ip": row.remote_ip, "mirror_type": row.mirror_type}
    directions: dict[str, int] = msgspec.json.decode(row.directions)
    return [TapMirror(direction=name, tunnel_id=number, **same) for name, number in sorted(directions.items())]
