"""The file of `--report`: that it can be written is known before anything else is, and its place on the disk is taken."""

import os
from pathlib import Path
from typing import Final

from neutrino.cli.errors import INVALID, CommandError, print_error
from neutrino.takeover.report import Report

_ROOM: Final = 64 * 1024  # bytes that the last report may be longer than the one before the first write


class ReportFile:
    def __init__(self, path: Path) -> None:
        """Open the file, which keeps its content until a report is written."""
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        except OSError as error:
            raise self._error(error) from None

    def reserve(self, report: Report) -> None:
        """Write the report as it is known before the first write, with room for what follows."""
        try:
            self._write(self._text(report) + " " * _ROOM)
        except OSError as error:
            raise self._error(error, "nothing was changed") from None

    def write(self, report: Report) -> bool:
        """Write the report; whether that was possible. What it reports is done, and must not look as if it had failed."""
        try:
            self._write(self._text(report))
        except OSError as error:
            print_error(f"--report {self._path}: {error.strerror}; the command itself has ended as shown")
            return False
        return True

    def close(self) -> None:
        os.close(self._file)

    def _text(self, report: Report) -> str:
        if self._path.suffix == ".json":
            return report.to_json()
        return report.to_text() + "".join(f"{one}\n" for one in report.deviations)

    def _write(self, text: str) -> None:
        data = text.encode()
        os.lseek(self._file, 0, os.SEEK_SET)
        while data:
            data = data[os.write(self._file, data) :]
        if self._is_regular():  # not a pipe or a terminal
            os.ftruncate(self._file, os.lseek(self._file, 0, os.SEEK_CUR))
            os.fsync(self._file)

    def _is_regular(self) -> bool:
        return self._path.is_file()

    def _error(self, error: OSError, more: str = "") -> CommandError:
        return CommandError(f"--report {self._path}: {error.strerror}{more and f'; {more}'}", INVALID)
