"""The attribute `trunk_details` of parent ports: Nova gives instances their VLANs and MACs by it.

Other ports do not have it. Whether a port is a parent is a column of its own statement (`trunk_id` in the view of
ports), so a port without a trunk costs no further query.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.db import tables as t

NAME, NEEDS = "trunk_details", "trunk_id"
BATCH = 500
_s, _p = t.trunk_subports.c, t.ports.c
_SUBPORTS = (
    sa.select(_s.trunk_id, _s.port_id, _s.segmentation_type, _s.segmentation_id, _p.mac_address)
    .join(t.ports, _p.id == _s.port_id)
    .where(_s.trunk_id.in_(sa.bindparam("trunks", expanding=True)))
    .order_by(_s.segmentation_id)
)


def fields_to_read(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    """The attributes to read of ports: with the trunk, if its details are wanted."""
    if fields is None:
        return None
    return tuple(dict.fromkeys([*fields, NEEDS])) if NAME in fields else tuple(fields)


def completed(connection: Connection, ports: Iterable[Object]) -> Iterator[Object]:
    """The ports, parents with their details; one query for a batch with parents, else none."""
    remaining = iter(ports)
    while batch := list(islice(remaining, BATCH)):
        parents = [port for port in batch if port.get(NEEDS)]
        details: dict[str, list[Object]] = {port[NEEDS]: [] for port in parents}
        for row in connection.execute(_SUBPORTS, {"trunks": sorted(details)}) if details else ():
            details[row.trunk_id].append({name: value for name, value in row._asdict().items() if name != "trunk_id"})
        for port in parents:
            port[NAME] = {"trunk_id": port[NEEDS], "sub_ports": details[port[NEEDS]]}
        for port in batch:
            port.pop(NEEDS, None)
        yield from batch
