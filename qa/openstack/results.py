"""Results of a run: what was checked, with which versions, as a table, JSON and Markdown."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PASSED, FAILED = "passed", "FAILED"


@dataclass(frozen=True)
class Result:
    """One check: `detail` is what it measured, or why it failed."""

    name: str
    outcome: str
    seconds: float
    detail: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_passed(self) -> bool:
        return self.outcome == PASSED


def table(results: Sequence[Result]) -> str:
    """A summary for the terminal."""
    width = max((len(each.name) for each in results), default=0)
    lines = [
        f"{each.outcome:6}  {each.name:{width}}  {each.seconds:6.1f} s  {first_line(each.detail)}" for each in results
    ]
    passed = sum(each.is_passed for each in results)
    return "\n".join([*lines, f"{passed} of {len(results)} checks passed"])


def markdown(results: Sequence[Result], versions: Mapping[str, str]) -> str:
    """For docs/conformance.md."""
    rows = [f"| {each.name} | {each.outcome} | {each.seconds:.0f} s | {first_line(each.detail)} |" for each in results]
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join(
        [f"With {used}.", "", "| check | result | time | measured |", "| --- | --- | --- | --- |", *rows, ""]
    )


def write(directory: Path, results: Sequence[Result], versions: Mapping[str, str], name: str = "results") -> Path:
    """Write `results.json` and `results.md`; returns the path of the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"machine": platform.machine(), "versions": dict(versions), "results": [asdict(each) for each in results]}
    (directory / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    path = directory / f"{name}.md"
    path.write_text(markdown(results, versions))
    return path


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0].replace("|", "\\|")
