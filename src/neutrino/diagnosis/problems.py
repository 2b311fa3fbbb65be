"""Problems that diagnosis knows, and findings: problems of one object. Pure.

Each area declares its problems once, in a module of its own; `catalogue.py` has all of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "note"]
ERROR: Final = "error"  # something does not work
WARNING: Final = "warning"  # something will not work soon, or works worse than it should
NOTE: Final = "note"  # for completeness: it changes neither the verdict of status nor the exit status of doctor
SEVERITIES: Final[tuple[Severity, ...]] = (ERROR, WARNING, NOTE)


MAX_TEXT: Final = 2000  # characters of what a finding says


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of one object."""

    kind: str  # id of the problem
    severity: Severity
    what: str  # one sentence that names the object
    meaning: str
    fix: str
    resource_type: str = ""
    resource_id: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with the texts that all its findings share. The fix may contain {names} of values."""

    id: str  # documented, and in JSON: never renamed
    meaning: str
    fix: str
    severity: Severity = ERROR

    def __call__(
        self, what: str, resource_type: str = "", resource_id: str = "", host: str = "", **values: object
    ) -> Finding:
        fix = self.fix.format(**values) if values else self.fix
        # Texts of other programs and hosts may have several lines, control characters and any length.
        text = "".join(each for each in " ".join(what[:MAX_TEXT].split()) if each.isprintable())
        return Finding(self.id, self.severity, text, self.meaning, fix, resource_type, resource_id, host)


def declared(namespace: Mapping[str, object]) -> tuple[Problem, ...]:
    """Return the problems that a module declares, in their order."""
    return tuple(value for value in namespace.values() if isinstance(value, Problem))


def combine(*areas: Iterable[Problem]) -> dict[str, Problem]:
    """Return the problems of all areas by their ids."""
    problems = [problem for area in areas for problem in area]
    catalogue = {problem.id: problem for problem in problems}
    if len(catalogue) < len(problems):
        ids = [problem.id for problem in problems]
        raise ValueError(f"problems declared twice: {', '.join(sorted({id for id in ids if ids.count(id) > 1}))}")
    return catalogue
