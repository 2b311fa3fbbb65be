"""Replays the recorded exchanges against a server and reports the differences.

  python -m tests.conformance.recording.replay --url http://127.0.0.1:9696 [--part NAME]... [--show N]

The server runs without authentication, configured by `settings`.
Later exchanges need what earlier ones made. So with `--part` the exchanges before and between are sent too, but only
those of the chosen parts are judged; `--alone` leaves the others out.

A difference that is meant stands in `accepted.json`, exchange number to reason. The exit status is 0 where every
difference is accepted and everything accepted still differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.recording.client import Asker, Cast
from tests.conformance.recording.compare import judge
from tests.conformance.recording.exchange import RECORDING, Exchange, read_recording

ACCEPTED = Path(__file__).with_name("accepted.json")

_LINES_SHOWN = 8


@dataclass(frozen=True)
class Outcome:
    """One exchange that was judged, and how the answer differs."""

    exchange: Exchange
    status: int
    differences: tuple[str, ...]

    @property
    def alike(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        step = self.exchange.step
        body = "" if step.body is None else " " + json.dumps(step.body)[:160]
        lines = [f"{step.part} #{self.exchange.number} {step.actor} {step.method} {step.path}{body}"]
        lines += ["    " + line[:300] for line in self.differences[:_LINES_SHOWN]]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """What a replay found."""

    outcomes: tuple[Outcome, ...]

    @property
    def differing(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if not outcome.alike)

    @property
    def alike(self) -> bool:
        return not self.differing

    def unexplained(self, accepted: Mapping[int, str]) -> tuple[Outcome, ...]:
        """Differences that nobody has given a reason for."""
        return tuple(outcome for outcome in self.differing if outcome.exchange.number not in accepted)

    def outdated(self, accepted: Mapping[int, str]) -> tuple[int, ...]:
        """Numbers of accepted exchanges that were judged and are alike by now."""
        same = {outcome.exchange.number for outcome in self.outcomes if outcome.alike}
        return tuple(sorted(same & accepted.keys()))

    def tally(self) -> dict[str, tuple[int, int]]:
        """Part -> how many of its exchanges are alike, and how many there are."""
        counts: dict[str, tuple[int, int]] = {}
        for outcome in self.outcomes:
            alike, total = counts.get(outcome.exchange.step.part, (0, 0))
            counts[outcome.exchange.step.part] = (alike + outcome.alike, total + 1)
        return counts


def replay(
    url: str,
    recording: Path | Iterable[Exchange] = RECORDING,
    parts: Collection[str] | None = None,
    *,
    alone: bool = False,
) -> Report:
    """Ask the server at `url` everything that was recorded, and judge the exchanges of `parts` (None: all)."""
    exchanges = read_recording(recording) if isinstance(recording, Path) else list(recording)
    chosen = _chosen(exchanges, parts)
    last = max((exchange.number for exchange in exchanges if exchange.step.part in chosen), default=0)
    cast = Cast()
    names = cast.names()
    outcomes = []
    with Asker(url, cast) as asker:
        for exchange in exchanges:
            judged = exchange.step.part in chosen
            if exchange.number > last or (alone and not judged):
                continue
            status, answer = asker.ask(exchange.step, names)
            if judged:
                outcomes.append(Outcome(exchange, status, tuple(judge(exchange, status, names.masked(answer)))))
    return Report(tuple(outcomes))


def read_accepted(path: Path = ACCEPTED) -> dict[int, str]:
    """Exchange number -> why the difference is meant."""
    accepted = {int(number): reason for number, reason in json.loads(path.read_text(encoding="utf-8")).items()}
    for number, reason in accepted.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{path.name}: exchange {number} is accepted without a reason")
    return accepted


def _chosen(exchanges: Iterable[Exchange], parts: Collection[str] | None) -> set[str]:
    known = {exchange.step.part for exchange in exchanges}
    if parts is None:
        return known
    unknown = set(parts) - known
    if unknown:
        raise ValueError(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    return set(parts)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:9696")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    parser.add_argument("--accepted", type=Path, default=ACCEPTED)
    parser.add_argument("--part", action="append", help="judge only this part (may be repeated)")
    parser.add_argument("--alone", action="store_true", help="ask nothing but the chosen parts")
    parser.add_argument("--show", type=int, default=40, help="how many unexplained differences to print")
    options = parser.parse_args(arguments)
    try:
        accepted = read_accepted(options.accepted)
        report = replay(options.url, options.recording, options.part, alone=options.alone)
    except ValueError as error:
        parser.error(str(error))
    unexplained, outdated = report.unexplained(accepted), report.outdated(accepted)
    lines = [str(outcome) for outcome in unexplained[: options.show]]
    lines += [f"{part:28s} {alike:4d} of {total:4d} alike" for part, (alike, total) in sorted(report.tally().items())]
    differing, total = len(report.differing), len(report.outcomes)
    lines.append(f"{total - differing} of {total} exchanges alike, {differing - len(unexplained)} differences accepted")
    if outdated:
        lines.append("accepted, but alike by now: " + ", ".join(map(str, outdated)))
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if unexplained or outdated else 0


if __name__ == "__main__":
    sys.exit(main())
