"""The commands `check`, `import` and `export`: from an address of Neutron's database to a report."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.objects import encode, new_id
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import now
from neutrino.server.hosts.registry import timestamp
from neutrino.takeover import checks, heads, opening, source, target
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.exporter import Exporter, Finder, written_tables
from neutrino.takeover.families import families
from neutrino.takeover.importer import Importer, Progress, no_progress
from neutrino.takeover.report import Report
from neutrino.takeover.rights import check_rights
from neutrino.takeover.writer import Counts

_PREPARE = "read the schema, look for orphans"


def keep_nothing(report: Report) -> None:
    """The report is not needed before the first write."""


@dataclass(frozen=True)
class Options:
    dns_domain: str = ""
    dry_run: bool = False
    final: bool = False
    allow_running: bool = False
    accept_unknown: bool = False  # a release that is not known


def check(url: sa.URL, options: Options, progress: Progress = no_progress) -> Report:
    """Read all of Neutron's database, and report what an import would do with it; changes nothing."""
    with source.opened(url) as opened:
        report, importer = _begin("check", opened, options, progress)
        report.counts = {name: Counts(read=number) for name, number in importer.check().items()}
    report.finished_at = now()
    return report


def run(
    url: sa.URL,
    db: Database,
    options: Options,
    progress: Progress = no_progress,
    before_writing: Callable[[Report], None] = keep_nothing,
) -> Report:
    """Make the database equal to Neutron's, unless something is refused: then nothing is changed.

    `before_writing` gets the report as it is known before the first write, and may raise.
    """
    with source.opened(url) as opened:
        report, importer = _begin("import", opened, options, progress)
        checks.check_target(
            db,
            importer,
            silent_since=timestamp(time.time() - opening.SILENT_SECONDS),
            allow_running=options.allow_running,
        )
        read = importer.check(db)
        report.counts = {name: Counts(read=number) for name, number in read.items()}
        if report.deviations.refused:
            report.finished_at = now()
            return report
        before_writing(report)
        run_id = "" if options.dry_run else _record_start(db, report)
        written = importer.write(db, dry_run=options.dry_run)
        report.counts = {name: replace(one, read=read[name]) for name, one in written.items()}
        report.finished_at = now()
        if run_id:
            _record_end(db, run_id, report)
    return report


def export(
    url: sa.URL,
    db: Database,
    options: Options,
    progress: Progress = no_progress,
    before_writing: Callable[[Report], None] = keep_nothing,
) -> Report:
    """Write what changed here since the import into Neutron's tables, unless something is refused.

    Requests may not write here from its beginning on: what changed during or after it would be missing in Neutron.
    """
    imported = opening.last_import_to_export(db)
    if imported.release == heads.UNKNOWN:
        raise checks.Refused(
            "the import was of a release of Neutron that is not known: what its tables must have is not known either, "
            "so an export is refused. Use a release of neutrino that knows it, for another import and its export"
        )
    if options.dry_run:
        return _export(url, db, imported, options, progress, before_writing)
    with opening.closed(db) as closing:
        report = _export(url, db, imported, options, progress, before_writing)
        closing.is_complete = not report.deviations.refused
    return report


def _export(
    url: sa.URL,
    db: Database,
    imported: opening.Import,
    options: Options,
    progress: Progress,
    before_writing: Callable[[Report], None],
) -> Report:
    with source.opened(url) as opened:
        _check_rights(opened)
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
                before_writing(report)
                exporter.write()
    report.finished_at = now()
    return report


def _check_rights(opened: source.Source) -> None:
    known = {name for one in families() for name in (one.source, *one.reads)}
    check_rights(opened, known | {source.STANDARD})


def _begin(command: str, opened: source.Source, options: Options, progress: Progress) -> tuple[Report, Importer]:
    progress(_PREPARE, 0, 1)
    if opened.tables:
        _check_rights(opened)
    version = checks.check_version(opened, accept_unknown=options.accept_unknown)
    deviations = Deviations()
    report = Report(command, opened.name, version.release, now(), dry_run=options.dry_run, final=options.final)
    report.deviations = deviations
    checks.note_unknown(opened, version, deviations)
    checks.check_source(opened, families(), deviations)
    progress(_PREPARE, 1, 1)
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
