"""Segments of a network: chosen by the type drivers, stored in `network_segments`, shown as provider attributes.

A VLAN or tunnel id is in use if its row exists (unique `identity`); no table lists the free ones.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

import sqlalchemy as sa
from msgspec import UNSET
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, new_id
from neutrino.server.db.reads import Read, RowsLookup, read
from neutrino.server.db.session import Database
from neutrino.server.db.sql import NamedRow
from neutrino.server.db.transaction import Transaction, now
from neutrino.server.ml2 import added_ranges
from neutrino.server.ml2.driver_api import RangedTypeDriver, Segment, TypeDriver

TYPE, PHYSICAL_NETWORK, SEGMENTATION_ID = NAMES = (
    "provider:network_type",
    "provider:physical_network",
    "provider:segmentation_id",
)
DYNAMIC = 1000  # position of segments that drivers allocated: behind those of the network, and not shown by the API
T = TypeVar("T")
_DYNAMIC_IDS = uuid.UUID("6a8c4c0e-53c4-4f63-8d0b-9a7f52d0f1b7")  # the namespace of their ids
_SEGMENT = (
    t.network_segments.c.network_type,
    t.network_segments.c.physical_network,
    t.network_segments.c.segmentation_id,
    t.network_segments.c.id,
)  # the fields of Segment


@dataclass(frozen=True)
class SegmentsInUse:
    """Segments in the database, and those chosen so far for other networks of the same request."""

    connection: Connection
    blind: bool = False  # a number of a large range is guessed without a lookup: the unique key decides
    added: Sequence[added_ranges.AddedRange] = ()
    _chosen: dict[str, Segment] = field(default_factory=dict, init=False)

    def add(self, identity: str, segment: Segment) -> None:
        self._chosen[identity] = segment

    def among(self, identities: Sequence[str]) -> set[str]:
        rows = self.connection.execute(
            sa.select(t.network_segments.c.identity).where(t.network_segments.c.identity.in_(list(identities)))
        )
        return set(rows.scalars()) | (self._chosen.keys() & set(identities))

    def ids(self, network_type: str, physical_network: str | None) -> set[int]:
        where = (
            t.network_segments.c.network_type == network_type,
            t.network_segments.c.physical_network == physical_network,
        )
        rows = self.connection.execute(sa.select(t.network_segments.c.segmentation_id).where(*where)).scalars()
        chosen = (
            s.segmentation_id
            for s in self._chosen.values()
            if (s.network_type, s.physical_network) == (network_type, physical_network)
        )
        return {number for number in (*rows, *chosen) if number is not None}


@dataclass(frozen=True)
class Segments:
    db: Database
    drivers: Mapping[str, TypeDriver]  # by network type
    tenant_types: Sequence[str]  # of networks whose request names no type, in the order of preference
    external_type: str | None = None  # the same for external networks
    has_added_ranges: bool = False  # operators may add ranges: `Feature.adds_segment_ranges`

    def __post_init__(self) -> None:
        for name in self.tenant_types:
            if name not in self.drivers:
                raise ValueError(f"[ml2] project_network_types: {name!r} is not among type_drivers")

    def driver(self, network_type: object) -> TypeDriver:
        if not isinstance(network_type, str) or network_type not in self.drivers:
            raise errors.InvalidInput(
                f"Invalid input for {TYPE}: {network_type!r} is not one of {sorted(self.drivers)}."
            )
        return self.drivers[network_type]

    # --- choosing -------------------------------------------------------------------------------------------------

    def reading_added(self) -> list[Read[list[added_ranges.AddedRange]]]:
        """The ranges that operators have added, to be read together with other things; nothing if they cannot."""
        return [added_ranges.ADDED()] if self.has_added_ranges else []

    def in_use(self, connection: Connection) -> SegmentsInUse:
        ranges = self.reading_added()
        return SegmentsInUse(connection, added=read(connection, ranges[0]) if ranges else ())

    def choose(self, in_use: SegmentsInUse, values: Values) -> list[Segment]:
        """The segments of a new network: as requested, else one of the types for projects."""
        requested = _requested(values)
        if requested is None:
            external = values.get("router:external") and self.external_type
            return [self._choose_free(in_use, [external] if external else self.tenant_types, values["project_id"])]
        return [self.reserve(in_use, segment, values["project_id"]) for segment in requested]

    def _choose_free(self, in_use: SegmentsInUse, types: Sequence[str], project_id: str) -> Segment:
        for network_type in types:
            free = self._allocate(in_use, self.drivers[network_type], project_id)
            if free is not None:
                return self._chosen(in_use, replace(free, id=new_id()))
        raise errors.NoNetworkAvailable()

    def _chosen(self, in_use: SegmentsInUse, segment: Segment) -> Segment:
        in_use.add(self.drivers[segment.network_type].identity(segment), segment)
        return segment

    def _allocate(
        self, in_use: SegmentsInUse, driver: TypeDriver, project_id: str | None, physical_network: str | None = None
    ) -> Segment | None:
        """A free segment, or None: of the project's own ranges if it has such, else of those that all share."""
        if not in_use.added or not isinstance(driver, RangedTypeDriver):
            return driver.allocate(in_use, physical_network)
        for ranges in added_ranges.in_order(driver.configured, in_use.added, driver.type, project_id):
            free = driver.allocate_within(in_use, ranges, physical_network)
            if free is not None:
                return free
        return None

    def _check(self, in_use: SegmentsInUse, driver: TypeDriver, segment: Segment) -> None:
        if in_use.added and isinstance(driver, RangedTypeDriver):
            driver.check_within(segment, added_ranges.known(driver.configured, in_use.added, driver.type))
        else:
            driver.check(segment)

    def reserve(self, in_use: SegmentsInUse, wanted: Segment, project_id: str | None = None) -> Segment:
        """The segment with a new id, if it is valid and free; without a segmentation id, any free one of its type."""
        driver = self.driver(wanted.network_type)
        segment = replace(wanted, id=new_id())
        self._check(in_use, driver, segment)
        if segment.segmentation_id is None and segment.network_type not in ("flat", "local"):
            free = self._allocate(in_use, driver, project_id, segment.physical_network)
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
        in_use = self.in_use(connection)
        self._check(in_use, driver, changed)
        if in_use.among([driver.identity(changed)]):
            raise driver.in_use(changed)
        return changed

    def mtu(self, segments: Sequence[Segment]) -> int:
        """The largest packet that all the segments carry; 0 if unlimited."""
        bounds = [self.driver(s.network_type).mtu(s.physical_network) for s in segments]
        return min((b for b in bounds if b > 0), default=0)

    # --- storing --------------------------------------------------------------------------------------------------

    def insert(
        self, tx: Transaction, network_id: str, segments: Sequence[Segment], position: int = 0, **values: object
    ) -> None:
        """`values`: name, description and times of segments that are created on their own."""
        at = now()
        common = {"network_id": network_id, "created_at": at, "updated_at": at, **values}
        rows = [
            {**common, **asdict(s), "position": i, "identity": self.driver(s.network_type).identity(s)}
            for i, s in enumerate(segments, position)
        ]
        tx.insert(t.network_segments, rows)

    def lock(self, tx: Transaction, network_id: str) -> None:
        """Exclude other changes of the network's segments, until the commit: its row repeats them (`refresh`)."""
        n = t.networks.c
        tx.execute(sa.select(n.id).where(n.id == network_id).with_for_update())
        tx.exclude_other_nodes(n.name, [network_id])

    def refresh(self, tx: Transaction, network_id: str) -> None:
        """Write the segments into the network's row, whose revision stays, as in Neutron."""
        own = read_segments(tx.connection, [network_id])[network_id]
        row = as_row(t.networks, shown(own))
        tx.write(sa.update(t.networks).where(t.networks.c.id == network_id).values(row))

    def renumber(self, tx: Transaction, segment: Segment) -> None:
        identity = self.driver(segment.network_type).identity(segment)
        tx.write(
            sa.update(t.network_segments)
            .where(t.network_segments.c.id == segment.id)
            .values(segmentation_id=segment.segmentation_id, identity=identity)
        )

    # --- dynamic segments -----------------------------------------------------------------------------------------

    # Allocated by mechanism drivers for lower levels of a binding (`driver_api.DynamicSegments`). In a precommit they are
    # part of its transaction. In `bind_port`, which comes before the write, they have their own.

    def allocate(self, network_id: str, wanted: Segment, tx: Transaction | None) -> Segment:
        """Ports of one network on one physical network share a segment, so an existing one is returned."""
        return self._in(tx, lambda own: self._find_or_insert(own, network_id, wanted))

    def release(self, segment_id: str, tx: Transaction | None) -> None:
        delete = sa.delete(t.network_segments).where(
            t.network_segments.c.id == segment_id, t.network_segments.c.position >= DYNAMIC
        )
        self._in(tx, lambda own: own.execute(delete))

    def _in(self, tx: Transaction | None, write: Callable[[Transaction], T]) -> T:
        def attempt() -> T:
            with self.db.transaction() as own:
                return write(own)

        return self.db.retrying(attempt) if tx is None else write(tx)

    def _find_or_insert(self, tx: Transaction, network_id: str, wanted: Segment) -> Segment:
        same = [t.network_segments.c[name] == getattr(wanted, name) for name in ("network_type", "physical_network")]
        if wanted.segmentation_id is not None:
            same.append(t.network_segments.c.segmentation_id == wanted.segmentation_id)
        dynamic = sa.select(*_SEGMENT).where(
            t.network_segments.c.network_id == network_id, t.network_segments.c.position >= DYNAMIC, *same
        )
        found = tx.execute(dynamic).first()
        if found is not None:
            return Segment(*found)
        # A concurrent transaction may have found none either, and reserve another number: the id, which both derive alike,
        # is the primary key, so one of them fails and is retried, and finds the other's segment.
        segment = replace(self.reserve(self.in_use(tx.connection), wanted), id=_dynamic_id(network_id, wanted))
        self.insert(tx, network_id, [segment], DYNAMIC)
        return segment


def _dynamic_id(network_id: str, wanted: Segment) -> str:
    """The id of a network's dynamic segment: the same for all requests that would share it."""
    number = "" if wanted.segmentation_id is None else wanted.segmentation_id
    return str(uuid.uuid5(_DYNAMIC_IDS, f"{network_id}/{wanted.network_type}/{wanted.physical_network or ''}/{number}"))


def _requested(values: Values) -> list[Segment] | None:
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


def _segment(given: Values) -> Segment:
    if given[TYPE] is UNSET or given[TYPE] is None:
        raise errors.InvalidInput(f"{TYPE} is required where other provider attributes are given.")
    number = given[SEGMENTATION_ID]
    return Segment(given[TYPE], given[PHYSICAL_NETWORK] or None, None if number is UNSET else number)


_OWN = (
    sa.select(t.network_segments.c.network_id, *_SEGMENT)
    .where(t.network_segments.c.position < DYNAMIC)
    .order_by(t.network_segments.c.position)
)
_OF_ONE = RowsLookup(_OWN.where(t.network_segments.c.network_id == sa.bindparam("network")))
_OF_SOME = _OWN.where(t.network_segments.c.network_id.in_(sa.bindparam("networks", expanding=True)))


def read_segments(connection: Connection, network_ids: Sequence[str]) -> dict[str, list[Segment]]:
    """The networks' own segments by network id, without dynamic ones."""
    if len(network_ids) == 1:
        rows: Iterable[NamedRow] = read(connection, _OF_ONE(network=network_ids[0]))
    else:
        rows = connection.execute(_OF_SOME, {"networks": list(network_ids)})
    out: dict[str, list[Segment]] = {network_id: [] for network_id in network_ids}
    for network_id, *rest in rows:
        out[network_id].append(Segment(*rest))
    return out


def read_segments_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Segment]:
    """Segments by id, also dynamic ones."""
    rows = connection.execute(sa.select(*_SEGMENT).where(t.network_segments.c.id.in_(list(ids))))
    return {row.id: Segment(*row) for row in rows}


def shown(segments: Sequence[Segment]) -> Object:
    """The columns of a network's row that show its segments: provider attributes, or a list if there are several."""
    columns = ("network_type", "physical_network", "segmentation_id")
    if len(segments) == 1:
        return {column: getattr(segments[0], column) for column in columns} | {"segments": None}
    if not segments:  # all of them have been deleted
        return dict.fromkeys((*columns, "segments"))
    return dict.fromkeys(columns) | {"segments": [provider_attributes(segment) for segment in segments]}


def provider_attributes(segment: Segment) -> Object:
    return dict(zip(NAMES, (segment.network_type, segment.physical_network, segment.segmentation_id), strict=True))
