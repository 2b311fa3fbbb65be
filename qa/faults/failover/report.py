"""The table of results; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qa.faults.failover.cloud import Result

HEADER = (
    "scenario",
    "writes",
    "no write at all",
    "worst server",
    "longest request",
    "503",
    "unknown",
    "node back",
    "violations",
)


def table(results: Sequence[Result]) -> str:
    """As Markdown, for docs/benchmarks.md."""
    rows = [HEADER, *map(_row, results)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEADER))]

    def line(cells: Sequence[str]) -> str:
        first, *others = [
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join([first, *others]) + " |"

    ruler = "|" + "|".join("-" * (width + 1) + (":" if n else "-") for n, width in enumerate(widths)) + "|"
    return "\n".join([line(rows[0]), ruler, *map(line, rows[1:])])


def _row(result: Result) -> tuple[str, ...]:
    seen = result.figures
    wrong = len(result.violations) + sum(seen.defects.values())
    return (
        result.name,
        str(seen.writes),
        f"{seen.stall:.1f} s",
        f"{seen.server_stall:.1f} s",
        f"{seen.longest:.1f} s",
        str(seen.unavailable),
        str(seen.unknown),
        f"{result.recovery:.1f} s",
        str(wrong) if wrong else "none",
    )
