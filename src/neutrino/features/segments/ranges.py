"""The network segment range API: ranges of VLAN and tunnel ids, of the configuration and added by operators.

Ranges of the configuration have rows too, written when a server starts, so that lists have both kinds. New networks get
their ids by `ml2/added_ranges.py`.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.segments.errors import (
    NetworkSegmentRangeDefaultReadOnly,
    NetworkSegmentRangeNetTypeNotSupported,
    NetworkSegmentRangeNotFound,
    NetworkSegmentRangeOverlaps,
    NetworkSegmentRangeReferencedByProject,
    NetworkTunnelRangeError,
    NetworkVlanRangeError,
)
from neutrino.features.segments.resources import RANGED_TYPES
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.collection import OneByOneCollection
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import Added, View
from neutrino.server.ipam.ranges import Range
from neutrino.server.ml2.driver_api import RangedTypeDriver, TypeDriver

# Free ids that a range shows. A range of tunnel ids may have sixteen million.
MAX_AVAILABLE = 100_000
_DEFAULT_IDS = uuid.UUID("f1d8c3a2-6c1e-4a55-9a3b-0b8f9b6f4c77")  # the namespace of the configuration's ranges
_ranges, _segments, _writes = t.network_segment_ranges.c, t.network_segments.c, t.segment_range_writes.c


def _used(connection: Connection, rows: Sequence[Object]) -> list[dict[int, str]]:
    """For each range, the ids in use with the projects of their networks."""
    return [dict(_segments_in(connection, row)) for row in rows]


def _segments_in(connection: Connection, one: Values) -> list[tuple[int, str]]:
    statement = (
        sa.select(_segments.segmentation_id, t.networks.c.project_id)
        .where(
            _segments.network_id == t.networks.c.id,
            _segments.network_type == one["network_type"],
            _segments.physical_network == one["physical_network"],
            _segments.segmentation_id >= one["minimum"],
            _segments.segmentation_id <= one["maximum"],
        )
        .order_by(_segments.segmentation_id)
    )
    return [(number, project) for number, project in connection.execute(statement) if number is not None]


def _available(connection: Connection, rows: Sequence[Object]) -> Iterator[list[int]]:
    for row in rows:
        taken = {number for number, _ in _segments_in(connection, row)}
        free = (number for number in range(row["minimum"], row["maximum"] + 1) if number not in taken)
        yield list(islice(free, MAX_AVAILABLE))


_WHERE = ("network_type", "physical_network", "minimum", "maximum")
_ROWS = View(t.network_segment_ranges, hidden=("tenant_id",), not_found=NetworkSegmentRangeNotFound)
VIEW = _ROWS.composed({"available": Added(_WHERE, _available), "used": Added(_WHERE, _used)})


class SegmentRanges(OneByOneCollection):
    def __init__(self, db: Database, drivers: Mapping[str, TypeDriver]) -> None:
        super().__init__(db, VIEW)
        self._drivers = {name: d for name, d in drivers.items() if isinstance(d, RangedTypeDriver)}

    def new(self, context: Context, values: Object) -> Object:
        limits = self._limits(values.get("network_type"))
        project = None if values["shared"] else values["project_id"]
        created = fresh({"project_id": project, "default": False, **_placed(values)}, revision=0)
        created |= {"project_id": project}
        del created["tenant_id"]
        _check_limits(created, limits)
        return created

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        after = super().update(context, key, values, revision)
        # As in Neutron, the answer to an update has no project where there is none.
        return {k: v for k, v in after.items() if k != "tenant_id" and not (k == "project_id" and v is None)}

    def check_create(self, connection: Connection, context: Context, objects: Sequence[Object]) -> None:
        for created in objects:
            created["writes"] = _count_writes(connection, created)
            _check_overlap(connection, created)
            created |= _computed(connection, created)

    def check_update(self, connection: Connection, context: Context, before: Object, after: Object) -> None:
        if before["default"]:
            raise NetworkSegmentRangeDefaultReadOnly(id=before["id"])
        used = [number for number, _ in _segments_in(connection, before)]
        if used and (after["minimum"] > used[0] or after["maximum"] < used[-1]):
            raise NetworkSegmentRangeReferencedByProject(id=before["id"])
        _check_limits(after, self._limits(after["network_type"]))
        self.check_create(connection, context, [after])

    def also_write(self, tx: Transaction, before: Object | None, after: Object | None) -> None:
        if after is not None:
            _claim(tx, after, after["writes"])

    def check_delete(self, connection: Connection, context: Context, before: Object) -> None:
        if before["default"]:
            raise NetworkSegmentRangeDefaultReadOnly(id=before["id"])
        if _segments_in(connection, before):
            raise NetworkSegmentRangeReferencedByProject(id=before["id"])

    def load(self, connection: Connection, context: Context, key: str, revision: int | None) -> Object:
        return _ROWS.get(connection, key, revision=revision)

    def _limits(self, network_type: str | None) -> Range:
        if network_type not in self._drivers or network_type not in RANGED_TYPES:
            raise NetworkSegmentRangeNetTypeNotSupported(network_type=network_type)
        return self._drivers[network_type].limits

    # --- the ranges of the configuration --------------------------------------------------------------------------

    @retried
    def store_configured(self) -> None:
        """Give the configured ranges their rows, and delete those of ranges that are not configured any more.

        Every process of every server does this when it starts. Their ids follow from the ranges, so of two that insert
        the same one, the second fails on the primary key and finds it.
        """
        wanted = {row["id"]: row for row in self._configured()}
        with self.db.read() as connection:
            stored = {row["id"]: row for row in _ROWS.load_where(connection, _ranges.default)}
        if stored.keys() == wanted.keys():
            return
        with self.db.transaction() as tx:
            for key in stored.keys() - wanted.keys():
                tx.write(sa.delete(t.tags).where(t.tags.c.object_id == key))
                tx.write(sa.delete(t.network_segment_ranges).where(_ranges.id == key))
            missing = [row for key, row in wanted.items() if key not in stored]
            tx.insert(t.network_segment_ranges, [as_row(t.network_segment_ranges, row) for row in missing])

    def _configured(self) -> Iterable[Object]:
        for network_type, driver in self._drivers.items():
            for physical_network, ranges in driver.configured.items() if network_type in RANGED_TYPES else ():
                for first, last in dict.fromkeys(ranges):
                    identity = f"{network_type}/{physical_network or ''}/{first}:{last}"
                    yield fresh(
                        {
                            "id": str(uuid.uuid5(_DEFAULT_IDS, identity)),
                            "name": "",
                            "project_id": None,
                            "default": True,
                            "shared": True,
                            "network_type": network_type,
                            "physical_network": physical_network,
                            "minimum": first,
                            "maximum": last,
                        },
                        revision=0,
                    )


def _placed(values: Object) -> Object:
    """The values with a physical network if, and only if, the range is one of VLANs."""
    is_vlan = values["network_type"] == "vlan"
    if is_vlan and not values.get("physical_network"):
        raise errors.BadRequest(resource="network_segment_range", msg="a range of VLANs needs a physical_network")
    return {**values, "physical_network": values["physical_network"] if is_vlan else None}


def _computed(connection: Connection, one: Object) -> Object:
    return {"used": _used(connection, [one])[0], "available": next(_available(connection, [one]))}


def _check_limits(one: Values, limits: Range) -> None:
    first, last = one["minimum"], one["maximum"]
    if not limits[0] <= first <= last <= limits[1]:
        if one["network_type"] == "vlan":
            raise NetworkVlanRangeError(first=first, last=last)
        raise NetworkTunnelRangeError(first=first, last=last, network_type=one["network_type"])


def _ids(one: Values) -> str:
    """The name of the ids of which a range is one: those of a tunnel type, or the VLANs of a physical network."""
    return f"{one['network_type']}/{one['physical_network'] or ''}"


def _count_writes(connection: Connection, one: Values) -> int | None:
    """How often ranges of the same ids were written; None: never. Read before the check for overlaps."""
    return connection.execute(sa.select(_writes.revision).where(_writes.name == _ids(one))).scalar()


def _claim(tx: Transaction, one: Values, writes: int | None) -> None:
    """Of two requests that write ranges of the same ids at once, one fails here and checks for overlaps again."""
    if writes is None:
        tx.insert(t.segment_range_writes, [{"name": _ids(one), "revision": 0}])
    else:
        same = _writes.name == _ids(one), _writes.revision == writes
        tx.change(sa.update(t.segment_range_writes).where(*same).values(revision=writes + 1))


def _check_overlap(connection: Connection, one: Values) -> None:
    """Refuse a range that has ids of another added one; it may have ids of the configuration's ranges."""
    where = (
        sa.not_(_ranges.default),
        _ranges.network_type == one["network_type"],
        _ranges.physical_network == one["physical_network"],
        _ranges.id != one["id"],
        _ranges.minimum <= one["maximum"],
        _ranges.maximum >= one["minimum"],
    )
    ids = connection.execute(sa.select(_ranges.id).where(*where).order_by(_ranges.id)).scalars().all()
    if ids:
        raise NetworkSegmentRangeOverlaps(ids=", ".join(ids))
