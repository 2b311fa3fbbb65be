"""The segments of a network: those an administrator asks for, or one of the kinds that projects get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.sentinel import UNSET
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import new_id
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.driver_api import Segment, TypeDriver

NAMES = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")
Object = dict[str, Any]
_c = t.network_segments.c


class TakenSegments:
    """What is in use: by the database, and by what one request has chosen so far for its other networks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chosen: dict[str, Segment] = {}

    def take(self, identity: str, segment: Segment) -> None:
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
                f"Invalid input for provider:network_type: {network_type!r} is not one of {sorted(self._drivers)}."
            )
        return self._drivers[network_type]

    # --- choosing -------------------------------------------------------------------------------------------------

    def choose(self, taken: TakenSegments, values: Mapping[str, Any]) -> list[Segment]:
        """The segments of a new network, by its request."""
        asked = _asked(values)
        if asked is None:
            external = values.get("router:external") and self._external_type
            kinds = [self._external_type] if external and self._external_type else self._tenant_types
            return [self._taken(taken, self._for_project(taken, kinds))]
        return [self._taken(taken, self._for_administrator(taken, segment)) for segment in asked]

    def _taken(self, taken: TakenSegments, segment: Segment) -> Segment:
        taken.take(self._drivers[segment.network_type].identity(segment), segment)
        return segment

    def _for_project(self, taken: TakenSegments, kinds: Sequence[str]) -> Segment:
        for kind in kinds:
            segment = self._drivers[kind].allocate(taken)
            if segment is not None:
                return replace(segment, id=new_id())
        raise errors.NoNetworkAvailable()

    def _for_administrator(self, taken: TakenSegments, asked: Mapping[str, Any]) -> Segment:
        kind = asked["provider:network_type"]
        if kind is UNSET or kind is None:
            raise errors.InvalidInput("provider:network_type is required where other provider attributes are given.")
        driver = self.driver(kind)
        segment = Segment(
            kind, asked["provider:physical_network"] or None, asked["provider:segmentation_id"], id=new_id()
        )
        driver.check(segment)
        if segment.segmentation_id is None and kind not in ("flat", "local"):
            free = driver.allocate(taken, segment.physical_network)
            if free is None:
                raise errors.NoNetworkAvailable()
            return replace(free, id=segment.id)
        if taken.among([driver.identity(segment)]):
            raise driver.in_use(segment)
        return segment

    def renumbered(self, connection: Connection, segment: Segment, segmentation_id: int) -> Segment:
        """The segment with another id, if that may be and is free."""
        driver = self.driver(segment.network_type)
        changed = replace(segment, segmentation_id=segmentation_id)
        driver.check(changed)
        if TakenSegments(connection).among([driver.identity(changed)]):
            raise driver.in_use(changed)
        return changed

    def mtu(self, segments: Sequence[Segment]) -> int:
        """The largest packet that all the segments carry; 0 if none bounds it."""
        bounds = [self.driver(s.network_type).mtu(s.physical_network) for s in segments]
        return min((b for b in bounds if b > 0), default=0)

    # --- storing --------------------------------------------------------------------------------------------------

    def insert(self, tx: Transaction, network_id: str, segments: Sequence[Segment]) -> None:
        tx.execute(
            sa.insert(t.network_segments),
            [
                {
                    "id": s.id,
                    "network_id": network_id,
                    "network_type": s.network_type,
                    "physical_network": s.physical_network,
                    "segmentation_id": s.segmentation_id,
                    "position": i,
                    "identity": self.driver(s.network_type).identity(s),
                }
                for i, s in enumerate(segments)
            ],
        )

    def renumber(self, tx: Transaction, segment: Segment) -> None:
        identity = self.driver(segment.network_type).identity(segment)
        tx.execute(
            sa.update(t.network_segments)
            .where(_c.id == segment.id)
            .values(segmentation_id=segment.segmentation_id, identity=identity)
        )


def _asked(values: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What the request says of segments, each with all three names; None if nothing."""
    single = {name: values.get(name, UNSET) for name in NAMES}
    given = any(v is not UNSET and v is not None for v in single.values())
    if values.get("segments"):
        if given:
            raise errors.SegmentsSetInConjunctionWithProviders()
        return list(values["segments"])
    if not given:
        return None
    return [
        {
            "provider:network_type": single["provider:network_type"],
            "provider:physical_network": single["provider:physical_network"] or None,
            "provider:segmentation_id": None if single[NAMES[2]] is UNSET else single[NAMES[2]],
        }
    ]


def read_segments(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[Segment]]:
    rows = connection.execute(
        sa.select(_c.network_id, _c.network_type, _c.physical_network, _c.segmentation_id, _c.id)
        .where(_c.network_id.in_(list(network_ids)))
        .order_by(_c.position)
    )
    out: dict[str, list[Segment]] = {network_id: [] for network_id in network_ids}
    for network_id, *rest in rows:
        out[network_id].append(Segment(*rest))
    return out


def shown(segments: Sequence[Segment]) -> Object:
    """The columns that show the segments in the network's own row."""
    if len(segments) == 1:
        only = segments[0]
        return {
            "network_type": only.network_type,
            "physical_network": only.physical_network,
            "segmentation_id": only.segmentation_id,
            "segments": None,
        }
    return {
        "network_type": None,
        "physical_network": None,
        "segmentation_id": None,
        "segments": [
            dict(zip(NAMES, (s.network_type, s.physical_network, s.segmentation_id), strict=True)) for s in segments
        ],
    }
