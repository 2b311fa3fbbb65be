"""The way back: what changed here since the import is written into Neutron's tables.

What has changed is found with the map of the import: an object whose composed rows differ from ours. Rows of Neutron's that
the import has left out or repaired stay as they are, as long as their object does not change here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.takeover import derived
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.differences import differences
from neutrino.takeover.family import Chunk, Family
from neutrino.takeover.importer import Importer, Progress, no_progress, objects_of
from neutrino.takeover.inverse import Parts, read_rows
from neutrino.takeover.source import PAGE
from neutrino.takeover.target import RowDifference, Target
from neutrino.takeover.writer import Counts

COMPARE, EXPORT = "compare", "export"
# Tables of ours whose rows are no objects: the log, counters, credentials, reports and this server's own state.
OWN_TABLES: Final = frozenset(
    {
        *("changes", "change_head", "quota_usages", "host_credentials", "host_queries", "server_processes", "journal"),
        *("segment_range_writes", "takeovers", "metering_totals", "firewall_group_hosts", "dns_records", "dns_callers"),
        "host_rates",
    }
)
Changes = Mapping[str, Sequence[object]]  # the keys of the objects that differ, by family


def written_tables(families: Sequence[Family]) -> set[str]:
    return {one.table for family in families for one in family.theirs} | set(derived.TABLES)


@dataclass(frozen=True)
class Finder:
    """Finds the objects that differ between Neutron's database and ours."""

    importer: Importer
    db: Database
    imported_at: str  # the start of the last import: Neutron's objects are older
    deviations: Deviations = field(default_factory=Deviations)

    def changes(self) -> Changes:
        return {family.name: self._changed(family) for family in self.importer.families if family.decompose}

    def _changed(self, family: Family) -> list[object]:
        keys: set[object] = set()
        table, owner = family.tables[0].table, family.tables[0].owner

        def compare(chunk: Chunk) -> None:
            found = differences(self.db, family, objects_of(family, chunk), chunk.composed)
            keys.update(key for one in found for key in one.owners)
            self._check_unknown(family, [row for row in found[0].insert if "id" in row])

        self.importer.each_chunk(family, COMPARE, compare)
        created = [key for some in self.importer.missing(self.db, family) for key in some]
        self._check_missing(family, table, owner, created)
        return sorted(keys | set(created), key=str)

    def _check_unknown(self, family: Family, rows: Sequence[Object]) -> None:
        """Refuse to delete objects that Neutron has created since the import."""
        newer = {str(row["id"]) for row in rows if str(row.get("created_at") or "") > self.imported_at}
        if not newer:
            return
        c = t.changes.c
        deleted = sa.select(c.object_id).where(c.object_id.in_(newer), c.deleted.is_(True))
        with self.db.read() as connection:
            newer -= set(connection.execute(deleted).scalars())
        for key in sorted(newer):
            self.deviations.refuse(family.source, key, "was created in Neutron after the last import: delete it there")

    def _check_missing(self, family: Family, table: sa.Table, owner: str, keys: Sequence[object]) -> None:
        """Refuse another Neutron than that of the import: objects that it does not have, older than the import."""
        if "created_at" not in table.c:
            return
        with self.db.read() as connection:
            for row in read_rows(connection, table, owner, keys):
                if "" < row["created_at"] < self.imported_at:
                    reason = "was imported and does not exist there: another Neutron, or deleted in it since"
                    self.deviations.refuse(family.source, row[owner], reason)


@dataclass
class Exporter:
    """Writes objects into Neutron's tables, within one transaction of the target."""

    db: Database
    target: Target
    families: Sequence[Family]
    changes: Changes
    deviations: Deviations
    progress: Progress = no_progress
    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def check(self) -> None:
        """Count what differs, and refuse what has no place in Neutron; nothing is written."""
        self._check_tables()
        for family, found in self._all(self.families):
            counts = self.counts[family.name]
            main = found[0] if found else None
            owners = {key for one in found for key in one.owners}
            created, deleted = (len(main.insert), len(main.delete)) if main else (0, 0)
            counts.created += created
            counts.deleted += deleted
            counts.updated += len(owners) - created - deleted

    def write(self) -> None:
        """Release what is not wanted any more, in the reverse order; then create and update."""
        for _, found in self._all(self.families):
            for one in found:
                self._empty_references(one)
        for _, found in self._all(tuple(reversed(self.families))):
            for one in reversed(found):
                if one.delete:
                    derived.before_deletion(self.target, one)
                    self.target.delete(one.theirs, one.delete)
        for family in self.families:
            # All objects before their parts, as rules of one security group refer to others.
            for main in (True, False):
                for _, found in self._all((family,)):
                    for one in found[:1] if main else found[1:]:
                        self._write(one)
            self.progress(f"{EXPORT}: {family.name}", 1, 1)
        if self.changes.get("routers"):
            derived.reconcile_vrids(self.target, self._vrids())

    def _write(self, one: RowDifference) -> None:
        for before, changed in one.update:
            self.target.update(one.theirs, before, changed)
        self.target.insert(one.theirs, one.insert)
        derived.after_insertion(self.target, one)

    def _empty_references(self, one: RowDifference) -> None:
        """Empty references that change: what they refer to may be deleted before they get their new value."""
        table = self.target.table(one.theirs.table)
        for before, changed in one.update:
            columns = [n for n in changed if n in table.c and table.c[n].foreign_keys and table.c[n].nullable]
            if columns:
                self.target.update(one.theirs, before, dict.fromkeys(columns))

    def _vrids(self) -> set[tuple[str, int]]:
        routers = t.metadata.tables["routers"].c
        with self.db.read() as connection:
            rows = connection.execute(sa.select(routers.ha_network_id, routers.ha_vr_id))
            return {(row[0], row[1]) for row in rows if row[0] is not None and row[1] is not None}

    # --- differences of a page ------------------------------------------------------------------------------------

    def _all(self, families: Sequence[Family]) -> Iterator[tuple[Family, list[RowDifference]]]:
        for family in families:
            keys = self.changes.get(family.name, ())
            for start in range(0, len(keys), PAGE):
                yield family, self._differences(family, keys[start : start + PAGE])

    def _differences(self, family: Family, keys: Collection[object]) -> list[RowDifference]:
        wanted = self.decomposed(family, keys)
        return [
            self.target.difference(theirs, keys, wanted.get(theirs.table, ()))
            for theirs in family.theirs
            if self.target.has(theirs.table)
        ]

    def decomposed(self, family: Family, keys: Collection[object]) -> Mapping[str, Sequence[Object]]:
        """Neutron's rows of our objects; what has no place there is refused."""
        with self.db.read() as connection:
            rows = {one.table: read_rows(connection, one.table, one.owner, keys) for one in family.tables}
            parts = Parts(connection, family.source, rows, self.deviations)
            if family.decompose is not None:
                family.decompose(parts)
        owners = {one.table: one.owner for one in family.theirs}
        for name, some in parts.decomposed.items():
            columns = {column.name for column in self.target.table(name).columns} if self.target.has(name) else set()
            for row in some:
                self._check_place(family, name, row, columns, owners[name])
        return parts.decomposed

    def _check_place(self, family: Family, name: str, row: Object, columns: set[str], owner: str) -> None:
        """Refuse values that this release of Neutron has no column for, unless they are empty."""
        for column, value in row.items():
            if column in columns or column == owner or not value or column.startswith("standard_"):
                continue
            if column not in ("tags", "blocks"):
                reason = f"{column} has no place in this Neutron: {name} has no such column"
                self.deviations.refuse(family.source, row.get(owner), reason)
            elif "standard_attr_id" not in columns:
                self.deviations.refuse(family.source, row.get(owner), f"{column} have no place in Neutron")

    def _check_tables(self) -> None:
        """Refuse objects of kinds that only we have, and those of plugins that this Neutron does not have."""
        known = {one.table.name for family in self.families for one in family.tables} | OWN_TABLES
        absent = [one for one in self.families if one.theirs and not self.target.has(one.theirs[0].table)]
        for family in absent:
            known -= {one.table.name for one in family.tables} - {"tags"}
        with self.db.read() as connection:
            for table in t.metadata.sorted_tables:
                if table.name in known:
                    continue
                column = next(iter(table.primary_key.columns))
                for key in connection.execute(sa.select(column).limit(5)).scalars():
                    self.deviations.refuse(table.name, key, "has no place in Neutron, or in its plugins: delete it")


def all_objects(db: Database, families: Sequence[Family]) -> Changes:
    """Every object of ours, as if all had changed: for a test of the map in both directions."""
    found: dict[str, Sequence[object]] = {}
    with db.read() as connection:
        for family in families:
            table, owner = family.tables[0].table, family.tables[0].owner
            apart = [] if family.ours is None else [~family.ours]
            if family.decompose is not None:
                statement = sa.select(table.c[owner]).where(*apart).distinct()
                found[family.name] = sorted(connection.execute(statement).scalars(), key=str)
    return found
