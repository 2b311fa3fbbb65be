"""The table of a takeover: figures by path and phase, and whether each is met. Pure functions of measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from qa.takeover.lab.meters.measurements import Measurements, Transition

LONGEST_STALL = 0.2
LONGEST_ANSWER = 4.0


@dataclass(frozen=True)
class Phase:
    """A part of the run, by the monotonic clock."""

    name: str
    start: float
    end: float
    of_neutron: bool = False  # Neutron's agents work: what is lost is shown, and not ours to prevent

    def has(self, at: float) -> bool:
        return self.start <= at < self.end


@dataclass(frozen=True)
class Figure:
    """What was measured of one path in one phase."""

    phase: str
    path: str
    text: str
    is_met: bool
    of_neutron: bool = False

    @property
    def is_acceptable(self) -> bool:
        return self.is_met or self.of_neutron


def figures(measurements: Measurements, phases: Sequence[Phase]) -> list[Figure]:
    return [
        replace(figure, of_neutron=phase.of_neutron) for phase in phases for figure in _of_phase(measurements, phase)
    ]


def _of_phase(measurements: Measurements, phase: Phase) -> Iterator[Figure]:
    for path, pings in measurements.pings.items():
        lost = sum(phase.has(at) for at in pings.lost)
        yield Figure(phase.name, path, f"{lost} pings lost", lost == 0)
    for path, stream in measurements.streams.items():
        longest = max((length for at, length in stream.stalls if _overlaps(phase, at, length)), default=0.0)
        errors = [text for at, text in stream.errors if phase.has(at)]
        text = "; ".join((f"TCP stalled {longest * 1000:.0f} ms", *errors))
        yield Figure(phase.name, path, text, longest <= LONGEST_STALL and not errors)
    for path, requests in measurements.requests.items():
        longest = max((seconds for at, seconds in requests.answers if phase.has(at)), default=0.0)
        unanswered = [text for at, text in requests.unanswered if phase.has(at)]
        text = f"answered within {longest * 1000:.0f} ms" + (f", {len(unanswered)} unanswered" if unanswered else "")
        yield Figure(phase.name, path, text, longest <= LONGEST_ANSWER and not unanswered)
    changes = [transition for transition in measurements.transitions if phase.has(transition.at)]
    double = _double_actives(measurements, phase)
    text = f"{len(changes)} VRRP transitions, {double} double actives"
    yield Figure(phase.name, "HA routers", text, not changes and not double)


def _overlaps(phase: Phase, at: float, length: float) -> bool:
    return at < phase.end and at + length > phase.start


def _double_actives(measurements: Measurements, phase: Phase) -> int:
    """How often a router became active on a host while it was on another."""
    active, count = set(measurements.active), 0
    for change in measurements.transitions:
        if change.becomes_active:
            count += phase.has(change.at) and _is_active_elsewhere(active, change)
            active.add((change.router, change.host))
        else:
            active.discard((change.router, change.host))
    return count


def _is_active_elsewhere(active: set[tuple[str, str]], change: Transition) -> bool:
    return any(router == change.router and host != change.host for router, host in active)


def render(some: Sequence[Figure], *, only_missed: bool = False) -> str:
    """A line for each path of each phase; paths where all is well can be left out."""
    lines = []
    for phase in dict.fromkeys(figure.phase for figure in some):
        own = [figure for figure in some if figure.phase == phase]
        missed = [figure for figure in own if not figure.is_met]
        note = ", of Neutron's own agents" if missed and missed[0].of_neutron else ""
        lines.append(f"{phase}: {len(own) - len(missed)} of {len(own)} figures met{note}")
        for path in dict.fromkeys(figure.path for figure in own):
            of_path = [figure for figure in own if figure.path == path]
            is_met = all(figure.is_met for figure in of_path)
            if not (is_met and only_missed):
                mark = "ok  " if is_met else "MISS"
                lines.append(f"  {mark} {path:40} {', '.join(figure.text for figure in of_path)}")
    return "\n".join(lines)
