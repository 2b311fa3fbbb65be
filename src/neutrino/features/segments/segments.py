"""The segment API: segments of existing networks, created, renamed and deleted.

The network's row repeats its segments, as provider attributes or as a list; a change writes both under a lock on that row
(`ml2/segments.py`). The network's revision stays, as in Neutron. Dynamic segments of drivers are not shown.
"""

from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.segments.errors import SegmentInUse
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.collection import Collection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.view import View
from neutrino.server.ml2.driver_api import DriverContext, Segment
from neutrino.server.ml2.networks import AUTO_DELETED, Networks, delete_ports
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.segments import DYNAMIC, Segments, read_segments

_segments, _ports, _bindings = t.network_segments.c, t.ports.c, t.port_bindings.c
NAMES = (
    *("id", "network_id", "name", "description", "physical_network", "network_type", "segmentation_id"),
    *("created_at", "updated_at", "revision_number"),
)
_NOT_DYNAMIC = _segments.position < DYNAMIC
# Projects see none: the policy shows segments to administrators alone, unless an operator changes it.
_OWN_NETWORK = _segments.network_id.in_(
    sa.select(t.networks.c.id).where(t.networks.c.project_id == sa.bindparam("viewer_project", type_=sa.String))
)
SEGMENTS = View(
    t.network_segments, columns=NAMES, scope=_OWN_NETWORK, only=_NOT_DYNAMIC, not_found=errors.SegmentNotFound
)


class SegmentCollection(Collection):
    def __init__(self, db: Database, operations: Operations, networks: Networks, segments: Segments) -> None:
        super().__init__(db, SEGMENTS)
        self.operations, self.networks, self.segments = operations, networks, segments

    @retried
    def create(self, context: Context, values: Object) -> Object:
        network_id = values["network_id"]
        with self.db.read() as connection:
            network = self.networks.view.get(connection, network_id)
            existing = read_segments(connection, [network_id])[network_id]
            last = connection.execute(_last_position(network_id)).scalar()
            physical_network, number = values.get("physical_network") or None, values.get("segmentation_id")
            wanted = Segment(values["network_type"], physical_network, number)
            chosen = self.segments.reserve(self.segments.in_use(connection), wanted, network["project_id"])
        position = 0 if last is None else last + 1
        row = fresh({"project_id": "", "name": values.get("name"), "description": values["description"]})
        created = {name: row[name] for name in NAMES if name in row} | {"network_id": network_id} | asdict(chosen)
        stored = {name: created[name] for name in ("name", "description", "created_at", "updated_at")}
        change = DriverContext("update", "network", network, network, segments=[*existing, chosen])
        with self.operations.write([change]) as tx:
            self.segments.lock(tx, network_id)
            self.segments.insert(tx, network_id, [chosen], position, **stored)
            self.segments.refresh(tx, network_id)
            tx.record("network", network_id, network["project_id"])
            tx.after_commit(self.networks.segments_changed, [chosen.id])
        return created

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        with self.db.read() as connection:
            before = SEGMENTS.get(connection, key, revision=revision)
            network_id = before["network_id"]
            _check_no_subnets(connection, key)
            own_ports = _check_no_ports(connection, network_id, key)
            network = self.networks.view.get(connection, network_id)
            left = [s for s in read_segments(connection, [network_id])[network_id] if s.id != key]
        with self.operations.write([DriverContext("update", "network", network, network, segments=left)]) as tx:
            self.segments.lock(tx, network_id)
            delete_ports(tx, own_ports)
            # A subnet that got the segment since makes this fail on its foreign key, and it is decided again.
            as_read = _segments.id == key, _segments.revision_number == before["revision_number"]
            tx.change(sa.delete(t.network_segments).where(*as_read))
            self.segments.refresh(tx, network_id)
            tx.record("network", network_id, network["project_id"])
            tx.after_commit(self.networks.segments_changed, [key])


def _last_position(network_id: str) -> sa.Select[int]:
    return sa.select(sa.func.max(_segments.position)).where(_segments.network_id == network_id, _NOT_DYNAMIC)


def _check_no_subnets(connection: Connection, segment_id: str) -> None:
    on_it = sa.select(t.subnets.c.id).where(t.subnets.c.segment_id == segment_id).order_by(t.subnets.c.id)
    subnets = connection.execute(on_it).scalars().all()
    if subnets:
        raise SegmentInUse(id=segment_id, reason=f"subnets {', '.join(subnets[:10])} are on it")


def _check_no_ports(connection: Connection, network_id: str, segment_id: str) -> list[NamedRow]:
    """The service's own ports that are bound to the segment; refused if other ports are."""
    bound = sa.exists().where(_bindings.port_id == _ports.id, _bindings.levels.contains(segment_id))
    columns = (_ports.id, _ports.project_id, _ports.revision_number, _ports.device_owner)
    rows = connection.execute(
        sa.select(*columns).where(_ports.network_id == network_id, bound).order_by(_ports.id)
    ).all()
    others = [row.id for row in rows if row.device_owner not in AUTO_DELETED]
    if others:
        raise SegmentInUse(id=segment_id, reason=f"ports {', '.join(others[:10])} are bound to it")
    return list(rows)
