"""The tables: Neutron's figures and ours of one run, medians over the rounds, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.bench.report import PEERS, Peer, Row, at, compare, rows_table, shown

NEUTRON = "neutron"
_LARGEST = 5000  # the largest list that targets are given for
_MEASURED = ("p50_ms", "per_s")
Raw = Mapping[str, Any]


def medians(raw: Raw) -> dict[str, Any]:
    """What was measured on one side, in the form that `report` compares."""
    operations = {
        operation: {
            name: statistics.median(figures[name] for figures in rounds)
            for name in _MEASURED
            if all(name in figures for figures in rounds)
        }
        for operation, rounds in raw["operations"].items()
    }
    start = {"p50_ms": statistics.median(raw["starts_ms"])}
    return {"start": start, "memory": raw["memory"], "load": {"operations": operations}}


def peers(neutron: Raw, ports: int) -> list[Peer]:
    """The figures of Neutron in this run. Targets for lists of 5,000 ports are those of lists of `ports`."""
    result, found = medians(neutron), {}
    for peer in PEERS:
        path = peer.path.replace(f"_{_LARGEST}", f"_{ports}")
        figure = at(result, path)
        if figure is not None and path not in found:
            operation = peer.operation.replace(f"{_LARGEST:,}", f"{ports:,}")
            found[path] = replace(peer, operation=operation, path=path, figure=figure)
    return list(found.values())


def rows(sides: Mapping[str, Raw], database: str, ports: int) -> list[Row]:
    return compare(database, medians(sides[database]), peers(sides[NEUTRON], ports))


def document(sides: Mapping[str, Raw], ports: int) -> str:
    """For each database a table of the operations; then the processor time of all."""
    databases = [name for name in sides if name != NEUTRON]
    parts = [f"### Ours on {name}\n\n{rows_table(rows(sides, name, ports))}" for name in databases]
    return "\n\n".join([*parts, f"### Processor time in one run\n\n{_processor(sides, databases)}"]) + "\n"


def missed(sides: Mapping[str, Raw], ports: int) -> list[str]:
    """The figures that miss their target, as "database: operation"."""
    return [
        f"{name}: {row.peer.operation}"
        for name in sides
        if name != NEUTRON
        for row in rows(sides, name, ports)
        if row.met is False
    ]


def _processor(sides: Mapping[str, Raw], databases: list[str]) -> str:
    """Seconds of processor time of a step, of the server and its database: other load on the machine does not count."""
    lines = [
        "| step | OpenStack Neutron | " + " | ".join(f"ours on {name} | ratio" for name in databases) + " |",
        "|---|---:|" + "---:|---:|" * len(databases),
    ]
    for step, times in sides[NEUTRON]["processor_seconds"].items():
        theirs = statistics.median(times)
        cells = [step, shown(theirs, "s")]
        for name in databases:
            measured = sides[name]["processor_seconds"].get(step)
            ours = statistics.median(measured) if measured else 0.0
            cells += [shown(ours, "s"), f"{theirs / ours:.1f} ×"] if ours else ["not measured", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
