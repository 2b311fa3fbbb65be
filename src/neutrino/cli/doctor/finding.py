"""Findings of `neutrino doctor`: what was found, what it means, and how it is fixed."""

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "note"]
ERROR: Final = "error"  # something does not work
WARNING: Final = "warning"  # something will not work soon, or works worse than it should
NOTE: Final = "note"  # for completeness: it does not change the exit status
SERVER: Final = "server"
HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    severity: Severity
    what: str  # one sentence that names the object
    meaning: str
    fix: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: its name, and the texts that all its findings share. `fix` may contain {names} of values."""

    name: str
    severity: Severity
    meaning: str
    fix: str

    def __call__(self, what: str, **values: object) -> Finding:
        fix = self.fix.format(**values) if values else self.fix
        # Texts of other programs may have several lines.
        return Finding(self.name, self.severity, " ".join(what.split()), self.meaning, fix)
