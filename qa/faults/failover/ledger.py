"""What clients wrote and how each write was answered, and the comparison with the database afterwards; pure.

A write is acknowledged (2xx): it must be there. It is refused (any other answer of the server): it must not be there. It
is unknown if no server answered: the connection ended, the load balancer gave up, or the server answered that it does not
know whether the database committed; both states are then correct, but never two objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

UNKNOWN_TYPES = frozenset({"DatabaseOutcomeUnknown"})
PROXY_STATUSES = frozenset({502, 504})  # answered by the load balancer in place of a server


class Outcome(Enum):
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one write."""

    status: int  # 0: none
    error: str = ""  # the type of a NeutronError
    began: float = 0.0
    ended: float = 0.0
    target: str = ""  # where it was sent
    about: str = ""  # method and collection

    @property
    def outcome(self) -> Outcome:
        if 200 <= self.status < 300:
            return Outcome.ACKNOWLEDGED
        if self.status == 0 or self.status in PROXY_STATUSES or self.error in UNKNOWN_TYPES:
            return Outcome.UNKNOWN
        # A load balancer without any server answers 503 itself, with a page: nothing was executed.
        return Outcome.REFUSED


@dataclass
class Entry:
    """One object that a client created, or tried to; `token` is its description, which never changes."""

    kind: str
    token: str
    created: Outcome
    names: set[str] = field(default_factory=set)  # that it may have now
    refused_names: set[str] = field(default_factory=set)
    deleted: Outcome | None = None  # None: no attempt

    def renamed(self, name: str, outcome: Outcome) -> None:
        if outcome is Outcome.ACKNOWLEDGED:
            self.names = {name}
        elif outcome is Outcome.UNKNOWN:
            self.names |= {name}
        else:
            self.refused_names.add(name)

    def delete(self, outcome: Outcome) -> None:
        if outcome is not Outcome.REFUSED:
            self.deleted = outcome

    @property
    def must_exist(self) -> bool:
        return self.created is Outcome.ACKNOWLEDGED and self.deleted is None

    @property
    def must_not_exist(self) -> bool:
        return self.created is Outcome.REFUSED or self.deleted is Outcome.ACKNOWLEDGED


@dataclass(frozen=True)
class Found:
    """An object in the database."""

    kind: str
    token: str
    name: str


def violations(entries: Iterable[Entry], found: Sequence[Found]) -> list[str]:
    """Each difference between the answers and the database, as a sentence."""
    counts = Counter((one.kind, one.token) for one in found)
    names: Mapping[tuple[str, str], str] = {(one.kind, one.token): one.name for one in found}
    wrong = []
    for entry in entries:
        key = (entry.kind, entry.token)
        what = f"{entry.kind} {entry.token}"
        if counts[key] > 1:
            wrong.append(f"{what}: exists {counts[key]} times")
        if entry.must_exist and not counts[key]:
            wrong.append(f"{what}: was acknowledged and is lost")
        if entry.must_not_exist and counts[key]:
            why = "was refused" if entry.created is Outcome.REFUSED else "its delete was acknowledged"
            wrong.append(f"{what}: {why}, and it exists")
        if key in names and entry.names and names[key] not in entry.names:
            kept = "a refused name" if names[key] in entry.refused_names else "an old name"
            wrong.append(f"{what}: has {kept}, {names[key]!r} instead of {sorted(entry.names)}")
    return wrong


# --- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """What clients saw of one fault."""

    writes: int
    stall: float  # longest time without any acknowledged write
    server_stall: float  # the same for the worst server
    longest: float  # request
    unavailable: int  # answers 503
    unknown: int
    defects: Mapping[str, int]  # other errors, which must not occur


NO_FIGURES = Figures(0, 0.0, 0.0, 0.0, 0, 0, {})  # of a scenario without load


def figures(answers: Sequence[Answer], began: float, ended: float, targets: Sequence[str]) -> Figures:
    """The figures of the time from `began` to `ended`; `targets` are the single servers."""
    inside = [one for one in answers if one.ended >= began and one.began <= ended]
    refused = [one for one in inside if one.outcome is Outcome.REFUSED]
    other = Counter(f"{one.status} {one.error} {one.about}".strip() for one in refused if one.status != 503)
    return Figures(
        writes=sum(one.outcome is Outcome.ACKNOWLEDGED for one in inside),
        stall=longest_gap(inside, began, ended),
        server_stall=max(
            (longest_gap([one for one in inside if one.target == each], began, ended) for each in targets), default=0.0
        ),
        longest=max((one.ended - one.began for one in inside), default=0.0),
        unavailable=sum(one.status == 503 for one in refused),
        unknown=sum(one.outcome is Outcome.UNKNOWN for one in inside),
        defects=dict(other),
    )


def longest_gap(answers: Iterable[Answer], began: float, ended: float) -> float:
    """The longest time between two acknowledged writes, or from the fault to the first one."""
    moments = sorted(
        one.ended for one in answers if one.outcome is Outcome.ACKNOWLEDGED and began <= one.ended <= ended
    )
    edges = [began, *moments, ended]
    return max(after - before for before, after in pairwise(edges))
