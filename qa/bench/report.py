"""OpenStack Neutron's figures, the targets, and the table that compares them.

Neutron 29.0 was measured with ML2 (openvswitch and l2population), MariaDB, RabbitMQ, two API workers and without
authentication, on a machine with two cores, by the same work as `load`. Times are of one machine on one day: the ratio
counts, and noise of ten per cent is usual. The factors are for SQLite. A database server has to reach the same where
clients create and connect things, and 60 % of the others.

  python -m qa.bench.report FILE
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SERVER_SHARE = 0.6  # of the factors of SQLite, which a database server has to reach, but for these
_WITH_SERVER: Mapping[str, float] = {
    "create network": 20,
    "create subnet": 20,
    "create port": 40,
    "create port, 4 clients on one network": 35,
    "add router interface": 60,
    "set router gateway": 60,
    "create floating IP": 50,
    "associate floating IP": 50,
    "memory, empty, PSS": 3.5,
    "memory, 1,000 ports, PSS": 3.5,
    "memory, 5,000 ports, PSS": 3.5,
}


@dataclass(frozen=True)
class Peer:
    """One figure of Neutron. `path`: the same figure in our raw result."""

    operation: str
    path: str
    figure: float
    unit: str
    factor: float

    @property
    def more_is_better(self) -> bool:
        return self.unit == "/s"


def _times(rows: list[tuple[str, str, float, float]]) -> tuple[Peer, ...]:
    return tuple(
        Peer(label, f"load.operations.{key}.p50_ms", figure, "ms", factor) for label, key, figure, factor in rows
    )


def _rates(rows: list[tuple[str, str, float, float]]) -> tuple[Peer, ...]:
    return tuple(
        Peer(label, f"load.operations.{key}.per_s", figure, "/s", factor) for label, key, figure, factor in rows
    )


PEERS: tuple[Peer, ...] = (
    *_times(
        [
            ("create network", "create_network", 105, 25),
            ("create subnet", "create_subnet", 97, 25),
            ("create port", "create_port", 194, 40),
            ("show port", "show_port", 27, 25),
            ("update port", "update_port", 144, 30),
            ("delete port", "delete_port", 158, 30),
        ]
    ),
    *_rates(
        [
            ("create port, 4 clients on one network", "create_port_together", 9.3, 40),
            ("show port, 4 clients", "show_port_together", 74, 25),
        ]
    ),
    *_times(
        [
            ("100 ports in one POST", "bulk_100_ports", 16500, 100),
            ("list 1,000 ports, all fields", "list_1000_all", 1260, 40),
            ("list 5,000 ports, all fields", "list_5000_all", 5480, 40),
            ("list 5,000 ports, `fields=id`", "list_5000_fields_id", 5100, 100),
            ("`limit=100` of 5,000 ports", "list_5000_limit_100", 125, 25),
            ("create security-group rule", "create_rule", 172, 40),
            ("100 rules in one POST", "bulk_100_rules", 4100, 100),
            ("list of 208 rules", "list_rules", 543, 50),
            ("create router", "create_router", 56, 20),
            ("add router interface", "add_interface", 546, 60),
            ("set router gateway", "set_gateway", 717, 60),
            ("create floating IP", "create_floatingip", 332, 50),
            ("associate floating IP", "associate_floatingip", 419, 50),
        ]
    ),
    Peer("start to first 200", "start.p50_ms", 7100, "ms", 5),
    Peer("memory, empty, PSS", "memory.empty.pss_mb", 643, "MB", 5),
    Peer("memory, empty, RSS", "memory.empty.rss_mb", 1382, "MB", 5),
    Peer("memory, 5,000 ports, PSS", "memory.ports_5000.pss_mb", 853, "MB", 5),
    Peer("memory, 5,000 ports, RSS", "memory.ports_5000.rss_mb", 1568, "MB", 5),
)


@dataclass(frozen=True)
class Row:
    """A figure of Neutron and ours; None if ours was not measured."""

    peer: Peer
    ours: float | None
    wanted: float

    @property
    def ratio(self) -> float | None:
        if not self.ours:
            return None
        return self.ours / self.peer.figure if self.peer.more_is_better else self.peer.figure / self.ours

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None else self.ratio >= self.wanted


def compare(database: str, result: Mapping[str, Any], peers: Iterable[Peer] = PEERS) -> list[Row]:
    """All figures of Neutron with those of one database's raw result."""
    return [Row(peer, at(result, peer.path), _wanted(database, peer)) for peer in peers]


def _wanted(database: str, peer: Peer) -> float:
    return peer.factor if database == "sqlite" else _WITH_SERVER.get(peer.operation, peer.factor * _SERVER_SHARE)


def missed(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The figures that miss their target, as "database: operation"."""
    return [
        f"{name}: {row.peer.operation}"
        for name, raw in results.items()
        for row in compare(name, raw)
        if row.met is False
    ]


def markdown(database: str, result: Mapping[str, Any]) -> str:
    """The table of one database."""
    return rows_table(compare(database, result))


def rows_table(rows: Iterable[Row]) -> str:
    lines = [
        "| operation | OpenStack Neutron | ours | ratio | wanted | met |",
        "|---|---:|---:|---:|---:|:---:|",
    ]
    verdicts = {None: "–", True: "yes", False: "**no**"}
    for row in rows:
        ours = "not measured" if row.ours is None else shown(row.ours, row.peer.unit)
        ratio = "–" if row.ratio is None else f"{row.ratio:.1f} ×"
        cells = (row.peer.operation, shown(row.peer.figure, row.peer.unit), ours, ratio, f"{row.wanted:g} ×")
        lines.append("| " + " | ".join((*cells, verdicts[row.met])) + " |")
    return "\n".join(lines)


def document(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of all databases, each with a heading."""
    return "\n\n".join(f"### {name}\n\n{markdown(name, result)}" for name, result in results.items()) + "\n"


def at(result: Mapping[str, Any], path: str) -> float | None:
    value: Any = result
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def shown(value: float, unit: str) -> str:
    """A figure formatted for a table."""
    if unit == "ms" and value >= 1000:
        value, unit = value / 1000, "s"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Prints the tables of results that were written earlier.")
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    print(document(json.loads(options.file.read_text(encoding="utf-8"))["databases"]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
