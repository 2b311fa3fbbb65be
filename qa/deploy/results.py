"""Results of steps, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Result:
    step: str
    seconds: float = 0.0
    figures: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure


def table(results: Sequence[Result]) -> str:
    rows = [("STEP", "RESULT", "SECONDS", "FIGURES")]
    rows += [
        (one.step, "passed" if one.passed else "FAILED", f"{one.seconds:.0f}", "; ".join(one.figures))
        for one in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join((*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3])).rstrip()
        for row in rows
    )
