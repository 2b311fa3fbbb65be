"""Segments of a network: chosen by the type drivers, stored in `network_segments`, shown as provider attributes.

A VLAN or tunnel id is in use if its row exists (unique `identity`); no table lists the free ones.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from msgspec import UNSET
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import Segment, TypeDriver

TYPE, PHYSICAL_NETWORK, SEGMENTATION_ID = NAMES = (
    "provider:network_type",
    "provider:physical_network",
    "provider:segmentation_id",
)
DYNAMIC = 1000  # position of segments that drivers allocated: behind those of the network, and not shown by the API
Object = dict[str, Any]
_c = t.network_segments.c


class SegmentsInUse:
    """Segments in the database, and those chosen so far for other networks of the same request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chosen: dict[str, Segment] = {}

    def add(self, identity: str, segment: Segment) -> None:
        self._chosen[identity] = segment

    def among(self, identities: Sequence[str]) -> set[str]:
        rows = self._connection.execute(sa.select(_c.identity).where(_c.identity.in_(list(identities))))
        return set(rows.scalars()) | (self._chosen.keys() & set(identities))

    def ids(self, network_type: str, physical_network: str | None) -> set[int]:
        where = [_c.network_type == network_type, _c.segmentation_id.is_not(None)]
        if physical_network is not None:
            where.append(_c.physical_network == physical_network)
        chosen = {
            s.segmentation_id
            for s in self._chosen.values()
            if s.network_type == network_type and s.segmentation_id is not None
            if physical_network is None or s.physical_network == physical_network
        }
        return chosen | set(self._connection.execute(sa.select(_c.segmentation_id).where(*where)).scalars())


class Segments:
    def __init__(
        self, drivers: Mapping[str, TypeDriver], tenant_types: Sequence[str], external_type: str | None = None
    ) -> None:
        self._drivers = drivers
        self._tenant_types = tenant_types
        self._external_type = external_type

    def driver(self, network_type: Any) -> TypeDriver:
        if not isinstance(network_type, str) or network_type not in self._drivers:
            raise errors.InvalidInput(
                f"Invalid input for {TYPE}: {network_type!r} is not one of {sorted(self._drivers)}."
            )
        return self._drivers[network_type]

    # --- choosing -------------------------------------------------------------------------------------------------

    def choose(self, in_use: SegmentsInUse, values: Mapping[str, Any]) -> list[Segment]:
        """The segments of a new network: as requested, else one of the types for projects."""
        requested = _requested(values)
        if requested is None:
            external = values.get("router:external") and self._external_type
            return [self._allocate(in_use, [external] if external else self._tenant_types)]
        return [self.reserve(in_use, segment) for segment in requested]

    def _allocate(self, in_use: SegmentsInUse, types: Sequence[str]) -> Segment:
        for network_type in types:
            free = self._drivers[network_type].allocate(in_use)
            if free is not None:
                return self._chosen(in_use, replace(free, id=new_id()))
        raise errors.NoNetworkAvailable()

    def _chosen(self, in_use: SegmentsInUse, segment: Segment) -> Segment:
        in_use.add(self._drivers[segment.network_type].identity(segment), segment)
        return segment

    def reserve(self, in_use: SegmentsInUse, wanted: Segment) -> Segment:
        """The segment with a new id, if it is valid and free; without a segmentation id, any free one of its type."""
        driver = self.driver(wanted.network_type)
        segment = replace(wanted, id=new_id())
        driver.check(segment)
        if segment.segmentation_id is None and segment.network_type not in ("flat", "local"):
            free = driver.allocate(in_use, segment.physical_network)
            if free is None:
                raise errors.NoNetworkAvailable()
            return self._chosen(in_use, replace(free, id=segment.id))
        if in_use.among([driver.identity(segment)]):
            raise driver.in_use(segment)
        return self._chosen(in_use, segment)

    def renumbered(self, connection: Connection, segment: Segment, segmentation_id: int) -> Segment:
        """The segment with another segmentation id, if that is valid and free."""
        driver = self.driver(segment.network_type)
        changed = replace(segment, segmentation_id=segmentation_id)
        driver.check(changed)
        if SegmentsInUse(connection).among([driver.identity(changed)]):
            raise driver.in_use(changed)
        return changed

    def mtu(self, segments: Sequence[Segment]) -> int:
        """The largest packet that all the segments carry; 0 if unlimited."""
        bounds = [self.driver(s.network_type).mtu(s.physical_network) for s in segments]
        return min((b for b in bounds if b > 0), default=0)

    # --- storing --------------------------------------------------------------------------------------------------

    def insert(self, tx: Transaction, network_id: str, segments: Sequence[Segment], position: int = 0) -> None:
        rows = [
            {
                "id": s.id,
                "network_id": network_id,
                "network_type": s.network_type,
                "physical_network": s.physical_network,
                "segmentation_id": s.segmentation_id,
                "position": i,
                "identity": self.driver(s.network_type).identity(s),
            }
            for i, s in enumerate(segments, position)
        ]
        tx.insert(t.network_segments, rows)

    def renumber(self, tx: Transaction, segment: Segment) -> None:
        identity = self.driver(segment.network_type).identity(segment)
        tx.execute(
            sa.update(t.network_segments)
            .where(_c.id == segment.id)
            .values(segmentation_id=segment.segmentation_id, identity=identity)
        )


class DynamicSegmentStore:
    """Segments that mechanism drivers allocate for lower levels of a binding (`driver_api.DynamicSegments`)."""

    def __init__(self, db: Database, segments: Segments) -> None:
        self.db = db
        self._segments = segments

    def allocate(self, network_id: str, wanted: Segment, tx: Transaction | None) -> Segment:
        """Ports of one network on one physical network share a segment, so an existing one is returned."""

        def attempt() -> Segment:
            # In a precommit within its transaction; in bind_port in one of its own, since binding comes before the write.
            with nullcontext(tx) if tx is not None else self.db.transaction() as transaction:
                found = self._find(transaction.connection, network_id, wanted)
                if found is not None:
                    return found
                segment = self._segments.reserve(SegmentsInUse(transaction.connection), wanted)
                self._segments.insert(transaction, network_id, [segment], DYNAMIC)
                return segment

        return attempt() if tx is not None else self.db.retrying(attempt)

    def _find(self, connection: Connection, network_id: str, wanted: Segment) -> Segment | None:
        where = [
            _c.network_id == network_id,
            _c.position >= DYNAMIC,
            _c.network_type == wanted.network_type,
            _c.physical_network == wanted.physical_network,
        ]
        if wanted.segmentation_id is not None:
            where.append(_c.segmentation_id == wanted.segmentation_id)
        row = connection.execute(
            sa.select(_c.network_type, _c.physical_network, _c.segmentation_id, _c.id).where(*where)
        ).first()
        return None if row is None else Segment(*row)

    def release(self, segment_id: str, tx: Transaction | None) -> None:
        delete = sa.delete(t.network_segments).where(_c.id == segment_id, _c.position >= DYNAMIC)

        def attempt() -> None:
            with self.db.transaction() as own:
                own.execute(delete)

        if tx is not None:
            tx.execute(delete)
        else:
            self.db.retrying(attempt)


def _requested(values: Mapping[str, Any]) -> list[Segment] | None:
    """The segments that a request asks for, by `segments` or by provider attributes; None if it leaves them to us."""
    single = {name: values.get(name, UNSET) for name in NAMES}
    given = any(v is not UNSET and v is not None for v in single.values())
    if values.get("segments"):
        if given:
            raise errors.SegmentsSetInConjunctionWithProviders()
        several = list(values["segments"])
    elif given:
        several = [single]
    else:
        return None
    return [_segment(one) for one in several]


def _segment(given: Mapping[str, Any]) -> Segment:
    if given[TYPE] is UNSET or given[TYPE] is None:
        raise errors.InvalidInput(f"{TYPE} is required where other provider attributes are given.")
    number = given[SEGMENTATION_ID]
    return Segment(given[TYPE], given[PHYSICAL_NETWORK] or None, None if number is UNSET else number)


def read_segments(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[Segment]]:
    """The networks' own segments by network id, without dynamic ones."""
    rows = connection.execute(
        sa.select(_c.network_id, _c.network_type, _c.physical_network, _c.segmentation_id, _c.id)
        .where(_c.network_id.in_(list(network_ids)), _c.position < DYNAMIC)
        .order_by(_c.position)
    )
    out: dict[str, list[Segment]] = {network_id: [] for network_id in network_ids}
    for network_id, *rest in rows:
        out[network_id].append(Segment(*rest))
    return out


def shown(segments: Sequence[Segment]) -> Object:
    """The columns of a network's row that show its segments: provider attributes, or a list if there are several."""
    if len(segments) == 1:
        only = segments[0]
        return {
            "network_type": only.network_type,
            "physical_network": only.physical_network,
            "segmentation_id": only.segmentation_id,
            "segments": None,
        }
    several = [dict(zip(NAMES, (s.network_type, s.physical_network, s.segmentation_id), strict=True)) for s in segments]
    return dict.fromkeys(("network_type", "physical_network", "segmentation_id")) | {"segments": several}
