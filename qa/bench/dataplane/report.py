"""The tables of the dataplane's figures: rates with targets, and what the switches have done for them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qa.bench.dataplane.traffic import METRICS, Metric

NEUTRON, OURS = "neutron", "ours"
MARGIN = 0.05  # by which two measurements of the same differ: so close to Neutron's is not behind it
_DONE = ("packets", "recirculations", "lookups", "upcalls")


@dataclass(frozen=True)
class Row:
    """One metric of one path."""

    path: str
    metric: Metric
    neutron: float
    ours: float
    ratio: float
    least: float
    most: float
    processor: float  # processor time of the switches for one unit, Neutron's as times ours

    @property
    def met(self) -> bool:
        return self.ratio >= self.metric.wanted * (1 - MARGIN)


def rows(raw: Mapping[str, Any]) -> Iterator[Row]:
    for path, metrics in raw["figures"].items():
        for metric in METRICS:
            theirs, ours = (metrics[metric.name][side] for side in (NEUTRON, OURS))
            values = [[each["value"] for each in found] for found in (theirs, ours)]
            first, second = values[::-1] if not metric.less_is_better else values
            yield Row(
                *(path, metric, statistics.median(values[0]), statistics.median(values[1])),
                statistics.median(first) / statistics.median(second),
                min(first) / max(second),
                max(first) / min(second),
                _per_unit(theirs) / _per_unit(ours),
            )


def _per_unit(found: Sequence[Mapping[str, float]]) -> float:
    return statistics.median(each["switch_s"] / each["units"] for each in found)


def missed(raw: Mapping[str, Any]) -> list[str]:
    return [
        f"{row.path}, {row.metric.name}: {row.ratio:.2f} ×, wanted {row.metric.wanted:.1f} ×"
        for row in rows(raw)
        if not row.met
    ]


def markdown(raw: Mapping[str, Any]) -> str:
    lines = [
        "| path | | Neutron's flows | ours | ratio | least to most | wanted | met | processor time of the switch |",
        "|---|---|---:|---:|---:|---:|---:|:---:|---:|",
    ]
    for row in rows(raw):
        metric = row.metric
        lines.append(
            f"| {row.path} | {metric.name} | {_shown(row.neutron, metric)} | {_shown(row.ours, metric)} "
            f"| {row.ratio:.2f} × | {row.least:.2f} to {row.most:.2f} | {metric.wanted:.1f} × "
            f"| {'yes' if row.met else '**no**'} | {row.processor:.2f} × |"
        )
    lines += ["", *_work(raw)]
    return "\n".join(lines) + "\n"


def _shown(value: float, metric: Metric) -> str:
    return f"{value:,.0f} {metric.unit}"


def _work(raw: Mapping[str, Any]) -> Iterator[str]:
    """What one new connection costs the switches: it meets every table."""
    yield "| one new connection | flows | switch | packets | recirculations | lookups in subtables | upcalls | megaflows |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for path, metrics in raw["figures"].items():
        for side, name in ((NEUTRON, "Neutron's"), (OURS, "ours")):
            found = metrics["new connections"][side]
            spent = _per_unit(found) * 1e6
            done = [statistics.median(each.get(kind, 0) / each["units"] for each in found) for kind in _DONE]
            flows = statistics.median(each["megaflows"] for each in found)
            counts = " | ".join(f"{count:.1f}" for count in done)
            yield f"| {path} | {name} | {spent:.0f} µs | {counts} | {flows:.0f} |"
