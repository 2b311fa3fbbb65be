"""The import: check everything, then delete, then write, family by family.

All families are composed before anything is written, so that every refusal comes before the first change. At the same time
they are compared with our rows, and only objects that differ are composed again to be written.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db.session import Database
from neutrino.server.quota.plugin import recount
from neutrino.takeover.ahead import ahead
from neutrino.takeover.composed import RowChecks
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.differences import Objects, Rows, differing, is_empty
from neutrino.takeover.family import Chunk, Family
from neutrino.takeover.source import PAGE, Bounds, Source
from neutrino.takeover.writer import Counts, Writer

CHECK, DELETE, WRITE, RECOUNT = "check", "deleted in Neutron", "write", "recount quotas"
_MANY: Final = 8  # if more than one in so many objects of a page differ, the page is written rather than single objects
Progress = Callable[[str, int, int], None]  # step, objects done, objects in all


def no_progress(step: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass
class _Differing:
    """What is to be written of a family: of few objects their keys, and otherwise the bounds of pages."""

    bounds: list[Bounds] = field(default_factory=list)
    keys: set[object] = field(default_factory=set)
    whole: bool = False
    number: int = 0  # of objects, of pages all


@dataclass
class Importer:
    source: Source
    families: Sequence[Family]
    deviations: Deviations
    dns_domain: str = ""
    progress: Progress = no_progress
    _checks: RowChecks = field(init=False)
    _missing: dict[str, list[list[object]]] = field(default_factory=dict)  # keys of ours that Neutron does not have
    _differing: dict[str, _Differing] = field(default_factory=lambda: defaultdict(_Differing))

    def __post_init__(self) -> None:
        # Nothing is known of the objects of a plugin, or of a newer release: ours stay.
        self.families = [family for family in self.families if family.source in self.source.tables]
        family_of = {family.tables[0].table: family for family in reversed(self.families)}
        self._checks = RowChecks(self.source, family_of, self.deviations)

    def check(self, db: Database | None = None) -> dict[str, int]:
        """Compose everything, to collect the deviations; the number of objects read by family.

        With a database of ours, what differs there is noted for `write`.
        """
        found: dict[str, int] = {}
        for family in self.families:
            note = self._nothing if db is None else partial(self._note, db, family, is_new=is_empty(db, family))
            found[family.name] = self.each_chunk(family, CHECK, note)
        return found

    def write(self, db: Database, *, dry_run: bool = False) -> dict[str, Counts]:
        """Make our database equal to Neutron's, as `check` has found them to differ; the rows written by family."""
        writer = Writer(db, dry_run=dry_run)
        for family in reversed(self.families):
            for keys in self.missing(db, family):
                writer.delete(family, keys)
        for family in self.families:
            # Objects may refer to those of later pages, so these exist before.
            in_steps = self._differing[family.name].number > PAGE and _refers_to_its_objects(family)
            self._write(family, writer.insert_objects if in_steps else writer.write)
            if in_steps and not dry_run:
                self._write(family, partial(writer.write, counted=False))
        if not dry_run:
            self.progress(RECOUNT, 0, 1)
            recount(db)
            self.progress(RECOUNT, 1, 1)
        return {family.name: writer.counts[family.name] for family in self.families}

    def missing(self, db: Database, family: Family) -> list[list[object]]:
        """Keys of our objects that Neutron does not have, in batches; looked for once."""
        if family.name not in self._missing:
            self._missing[family.name] = list(self._find_missing(db, family))
        return self._missing[family.name]

    def _find_missing(self, db: Database, family: Family) -> Iterator[list[object]]:
        table, owner = family.tables[0].table, family.tables[0].owner
        if family.whole or [column.name for column in table.primary_key.columns] != [owner]:
            return  # compared as a whole, or with the objects that they belong to
        column = table.c[owner]
        ours = sa.true() if family.ours is None else ~family.ours
        with db.read() as connection:
            total = int(connection.execute(sa.select(sa.func.count()).select_from(table).where(ours)).scalar_one())
        done, last = 0, None
        while done < total:
            after = sa.true() if last is None else column > last
            with db.read() as connection:
                statement = sa.select(column).where(ours, after).order_by(column).limit(PAGE)
                keys = list(connection.execute(statement).scalars())
            if not keys:
                return
            done, last = done + len(keys), keys[-1]
            missing = set(keys) - self.source.existing(family.source, family.key, keys)
            self.progress(f"{DELETE}: {family.name}", done, total)
            if missing:
                yield sorted(missing, key=str)

    def each_chunk(self, family: Family, step: str, use: Callable[[Chunk], None]) -> int:
        """Use all objects of a family, composed, checked and with references that exist; returns how many there are."""
        total, done = self.source.count(family.source), 0
        with ahead(self._chunks(family, unique=step == CHECK)) as chunks:
            for chunk in chunks:
                use(chunk)
                done += len(chunk.rows)
                self.progress(f"{step}: {family.name}", done, total)
        return done

    def _chunks(self, family: Family, *, unique: bool) -> Iterator[Chunk]:
        if family.whole:
            yield self._composed(family, self.source.rows(family.source), None, unique=unique)
            return
        for rows in self.source.pages(family.source, family.key):
            yield self._composed(family, rows, (rows[0][family.key], rows[-1][family.key]), unique=unique)

    def _composed(self, family: Family, rows: list[Object], bounds: Bounds | None, *, unique: bool) -> Chunk:
        chunk = Chunk(self.source, family.source, rows, self.deviations, self.dns_domain, family.key, bounds)
        family.compose(chunk)
        self._checks.check(family, chunk, unique=unique)
        return chunk

    def _nothing(self, chunk: Chunk) -> None:
        """Without a database of ours there is nothing to compare."""

    def _note(self, db: Database, family: Family, chunk: Chunk, *, is_new: bool) -> None:
        """Note what differs from our rows."""
        noted = self._differing[family.name]
        number = len(chunk.rows)
        if family.whole:
            if differing(db, family, Objects(), chunk.composed):
                noted.whole, noted.number = True, number
            return
        owners = set() if is_new else differing(db, family, objects_of(family, chunk), chunk.composed)
        if chunk.bounds is not None and (is_new or len(owners) * _MANY > number):
            noted.bounds.append(chunk.bounds)
            noted.number += number
        else:
            noted.keys |= owners
            noted.number += len(owners)

    def _write(self, family: Family, write: Callable[[Family, Objects, Rows], None]) -> None:
        noted, done = self._differing[family.name], 0
        with ahead(self._differing_chunks(family, noted)) as chunks:
            for chunk in chunks:
                done += len(chunk.rows)
                self.progress(f"{WRITE}: {family.name}", done, noted.number)
                write(family, objects_of(family, chunk), chunk.composed)

    def _differing_chunks(self, family: Family, noted: _Differing) -> Iterator[Chunk]:
        if noted.whole:
            yield from self._chunks(family, unique=False)
        for bounds in noted.bounds:
            rows = self.source.between(family.source, family.key, bounds)
            yield self._composed(family, rows, bounds, unique=False)
        keys = sorted(noted.keys, key=str)
        for start in range(0, len(keys), PAGE):
            rows = self.source.among(family.source, family.key, set(keys[start : start + PAGE]))
            yield self._composed(family, rows, None, unique=False)


def objects_of(family: Family, chunk: Chunk) -> Objects:
    """The objects of a chunk, for a comparison with ours."""
    if family.whole:
        return Objects()
    return Objects({row[family.key] for row in chunk.rows}, is_range=chunk.bounds is not None)


def _refers_to_its_objects(family: Family) -> bool:
    """Whether parts of an object refer to another object of the family, as rules of security groups do."""
    main = family.tables[0].table
    return any(
        key.column.table is main
        for owned in family.tables[1:]
        for column in owned.table.columns
        for key in column.foreign_keys
        if column.name != owned.owner
    )
