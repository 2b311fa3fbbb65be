"""Rows that cannot be imported as they are: what was done with each, by id and reason."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Action(StrEnum):
    REFUSED = "refused"  # importing it would change behaviour: nothing is imported
    REPAIRED = "repaired"  # the import decides, the same each time
    LEFT_OUT = "left out"  # it belongs to nothing
    NOTED = "noted"  # imported as it is: for the operator to know


@dataclass(frozen=True, order=True)
class Deviation:
    action: Action
    kind: str  # the table of Neutron
    object_id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.action}: {self.kind} {self.object_id}: {self.reason}"


@dataclass
class Deviations:
    """All of a run; one that is found twice is listed once."""

    _found: dict[Deviation, None] = field(default_factory=dict)

    def refuse(self, kind: str, object_id: object, reason: str) -> None:
        self._found[Deviation(Action.REFUSED, kind, str(object_id), reason)] = None

    def repair(self, kind: str, object_id: object, reason: str) -> None:
        self._found[Deviation(Action.REPAIRED, kind, str(object_id), reason)] = None

    def leave_out(self, kind: str, object_id: object, reason: str) -> None:
        self._found[Deviation(Action.LEFT_OUT, kind, str(object_id), reason)] = None

    def note(self, kind: str, object_id: object, reason: str) -> None:
        self._found[Deviation(Action.NOTED, kind, str(object_id), reason)] = None

    def __iter__(self) -> Iterator[Deviation]:
        return iter(sorted(self._found))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def refused(self) -> list[Deviation]:
        return [one for one in self if one.action is Action.REFUSED]
