"""The commands `check`, `import` and `export`: from an address of Neutron's database to a report."""

import time
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode, new_id
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import now
from neutrino.server.hosts.registry import timestamp
from neutrino.takeover import checks, opening, source, target
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.exporter import Exporter, Finder, written_tables
from neutrino.takeover.families import families
from neutrino.takeover.importer import Importer, Progress, no_progress
from neutrino.takeover.report import Report
from neutrino.takeover.writer import Counts


@dataclass(frozen=True)
class Options:
    dns_domain: str = ""
    dry_run: bool = False
    final: bool = False
    allow_running: bool = False


def check(url: sa.URL, options: Options, progress: Progress = no_progress) -> Report:
    """Read all of Neutron's database, and report what an import would do with it; changes nothing."""
    with source.opened(url) as opened:
        report, importer = _begin("check", opened, options, progress)
        report.counts = {name: Counts(read=number) for name, number in importer.check().items()}
    report.finished_at = now()
    return report


def run(url: sa.URL, db: Database, options: Options, progress: Progress = no_progress) -> Report:
    """Make the database equal to Neutron's, unless something is refused: then nothing is changed."""
    with source.opened(url) as opened:
        report, importer = _begin("import", opened, options, progress)
        checks.check_target(
            db,
            importer,
            silent_since=timestamp(time.time() - opening.SILENT_SECONDS),
            allow_running=options.allow_running,
        )
        report.counts = {name: Counts(read=number) for name, number in importer.check().items()}
        if report.deviations.refused:
            report.finished_at = now()
            return report
        run_id = "" if options.dry_run else _record_start(db, report)
        report.counts = importer.write(db, dry_run=options.dry_run)
        report.finished_at = now()
        if run_id:
            _record_end(db, run_id, report)
    return report


def export(url: sa.URL, db: Database, options: Options, progress: Progress = no_progress) -> Report:
    """Write what changed here since the import into Neutron's tables, unless something is refused.

    Requests may not write here from its beginning on: what changed during or after it would be missing in Neutron.
    """
    imported = opening.last_import_to_export(db)
    if options.dry_run:
        return _export(url, db, imported, options, progress)
    with opening.closed(db) as closing:
        report = _export(url, db, imported, options, progress)
        closing.is_complete = not report.deviations.refused
    return report


def _export(url: sa.URL, db: Database, imported: opening.Import, options: Options, progress: Progress) -> Report:
    with source.opened(url) as opened:
        version = checks.check_version(opened)
        if version.release != imported.release:
            raise checks.Refused(
                f"{opened.name} is of Neutron {version.release}, and the import was of {imported.release}: another "
                "database, or upgraded since"
            )
        report = Report("export", opened.name, version.release, now(), dry_run=options.dry_run)
        importer = Importer(opened, families(), Deviations(), options.dns_domain, progress)
        finder = Finder(importer, db, imported.started_at, report.deviations)
        changes = finder.changes()
    if not report.deviations.refused:
        with target.opened(url, written_tables(families()), dry_run=options.dry_run) as opened_target:
            exporter = Exporter(db, opened_target, families(), changes, report.deviations, progress)
            exporter.check()
            report.counts = exporter.counts
            if imported.exported_at and report.written:
                raise checks.Refused(
                    f"{report.written} objects differ since the export of {imported.exported_at}. Neutron has changed "
                    "them since, and an export would undo it: `neutrino takeover import` takes its changes over, "
                    "`neutrino takeover open` lets requests write here again"
                )
            if not report.deviations.refused and not options.dry_run:
                exporter.write()
    report.finished_at = now()
    return report


def _begin(command: str, opened: source.Source, options: Options, progress: Progress) -> tuple[Report, Importer]:
    version = checks.check_version(opened)
    deviations = Deviations()
    report = Report(command, opened.name, version.release, now(), dry_run=options.dry_run, final=options.final)
    report.deviations = deviations
    checks.check_source(opened, families(), deviations)
    return report, Importer(opened, families(), deviations, options.dns_domain, progress)


def _record_start(db: Database, report: Report) -> str:
    """Mark the database as a copy of Neutron's, before the first row of it is written."""
    row: Object = {
        "id": new_id(),
        "source": report.source[:255],
        "release": report.release,
        "started_at": report.started_at,
        "final": report.final,
    }

    def attempt() -> None:
        with db.transaction() as tx:
            tx.insert(t.takeovers, [row])

    db.retrying(attempt)
    return str(row["id"])


def _record_end(db: Database, run_id: str, report: Report) -> None:
    counts = {name: one.read for name, one in report.counts.items() if one.read}
    values = {"finished_at": report.finished_at, "counts": encode(counts)}

    def attempt() -> None:
        with db.transaction() as tx:
            tx.write(sa.update(t.takeovers).where(t.takeovers.c.id == run_id).values(values))

    db.retrying(attempt)
