"""The tables: Neutron's figures and ours of one run, medians over the rounds, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qa.bench.report import PEERS, Peer, Row, at, compare, shown

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


def spread(neutron: Raw, ours: Raw, peer: Peer) -> tuple[float, float] | None:
    """The least and the most that the ratio could be, of any round of Neutron and any of ours."""
    theirs, own = _rounds(neutron, peer.path), _rounds(ours, peer.path)
    if not theirs or not own:
        return None
    if peer.more_is_better:
        return min(own) / max(theirs), max(own) / min(theirs)
    return min(theirs) / max(own), max(theirs) / min(own)


def _rounds(raw: Raw, path: str) -> list[float]:
    """The figure of every round; memory has none."""
    match path.split("."):
        case ["start", _]:
            return list(raw["starts_ms"])
        case ["load", "operations", operation, name]:
            return [figures[name] for figures in raw["operations"].get(operation, ())]
    return []


def markdown(sides: Mapping[str, Raw], database: str, ports: int) -> str:
    """The table of our server on one database."""
    lines = [
        "| operation | OpenStack Neutron | ours | ratio | least to most | wanted | met |",
        "|---|---:|---:|---:|---:|---:|:---:|",
    ]
    verdicts = {None: "–", True: "yes", False: "**no**"}
    for row in rows(sides, database, ports):
        peer, between = row.peer, spread(sides[NEUTRON], sides[database], row.peer)
        cells = (
            peer.operation,
            shown(peer.figure, peer.unit),
            "not measured" if row.ours is None else shown(row.ours, peer.unit),
            "–" if row.ratio is None else f"{row.ratio:.1f} ×",
            "–" if between is None else f"{between[0]:.1f} to {between[1]:.1f}",
            f"{row.wanted:g} ×",
            verdicts[row.met],
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(sides: Mapping[str, Raw], ports: int) -> str:
    """For each database a table of the operations; then the processor time of all."""
    databases = [name for name in sides if name != NEUTRON]
    parts = [f"### Ours on {name}\n\n{markdown(sides, name, ports)}" for name in databases]
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
