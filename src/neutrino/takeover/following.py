"""The import as a continuous mirror: it is repeated with a pause, and a round that fails does not end it."""

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from neutrino.server.db.transaction import now
from neutrino.takeover.report import Report
from neutrino.takeover.source import SourceError

LONGEST: Final = 600.0  # between two tries, if rounds fail


def follow(
    import_once: Callable[[], Report], pause: float, wait: Callable[[float], object], say: Callable[[str], None]
) -> None:
    """Import until `wait` raises KeyboardInterrupt, one line for each round.

    A database that does not answer is asked again, later after each failure. What is refused before anything is read, as a
    target that was opened, is raised: it would be refused again.
    """
    seconds = pause
    while True:
        try:
            say(f"{now()}: {_line(import_once())}")
            seconds = pause
        except (SourceError, sa.exc.DBAPIError) as error:
            seconds = min(2 * seconds, max(LONGEST, pause))
            cause = str(error.orig) if isinstance(error, sa.exc.DBAPIError) else str(error)
            say(f"{now()}: failed, next try in {seconds:.0f} s: {' '.join(cause.split())}")
        wait(seconds)


def _line(report: Report) -> str:
    refused = len(report.deviations.refused)
    if refused:
        return f"refused, nothing was written: {refused} rows, as {report.deviations.refused[0]}"
    created = sum(one.created for one in report.counts.values())
    updated = sum(one.updated for one in report.counts.values())
    deleted = sum(one.deleted for one in report.counts.values())
    return f"{created} created, {updated} updated, {deleted} deleted; {len(report.deviations)} deviations"
