"""Reports of a host that the server has not acknowledged: the newest per subject, kept across connections. Pure.

A report is sent once per connection; whatever is not acknowledged is sent again in the next one. The number is bounded:
above it the oldest error is dropped, else the oldest report.
"""

from typing import Final

import msgspec

from neutrino.feed.messages import HostReport

MAX_REPORTS: Final = 20_000
Subject = tuple[str, ...]


class UnacknowledgedReports:
    def __init__(self, most: int = MAX_REPORTS) -> None:
        self._most = most
        self._serial = 0
        self._reports: dict[Subject, HostReport] = {}
        self._unsent: dict[Subject, None] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, subject: Subject, report: HostReport) -> None:
        """Queue a report under a new serial; it replaces an earlier one on the same subject."""
        self._serial += 1
        self._reports.pop(subject, None)
        self._unsent.pop(subject, None)
        if len(self._reports) >= self._most:
            self._drop_one()
        self._reports[subject] = msgspec.structs.replace(report, serial=self._serial)
        self._unsent[subject] = None

    def _drop_one(self) -> None:
        """Errors are for the log alone; other reports change the state of ports and routers, so they go last."""
        errors = (subject for subject in self._reports if subject[0] == "error")
        oldest = next(errors, next(iter(self._reports)))
        del self._reports[oldest]
        self._unsent.pop(oldest, None)

    def take(self, most: int = 500) -> list[HostReport]:
        """The next reports to send in this connection."""
        out: list[HostReport] = []
        while self._unsent and len(out) < most:
            subject = next(iter(self._unsent))
            del self._unsent[subject]
            out.append(self._reports[subject])
        return out

    def acknowledge(self, serial: int) -> None:
        subject = next((s for s, report in self._reports.items() if report.serial == serial), None)
        # Unsent: replaced by a newer report after the acknowledged one was sent.
        if subject is not None and subject not in self._unsent:
            del self._reports[subject]

    def reconnected(self) -> None:
        """Send all of them again, in the order in which they were made."""
        self._unsent = dict.fromkeys(self._reports)
