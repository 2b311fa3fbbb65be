"""The table of `resync.py`: targets, what was seen, and where the processor time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qa.bench.hosts_report import STORMS, Row, row_of, spent


def rows(raw: Mapping[str, Any]) -> Sequence[Row]:
    return [row_of(target, raw["results"], hosts=raw["hosts"], ports=raw["ports"]) for target in STORMS]


def missed(raw: Mapping[str, Any]) -> list[str]:
    return [row.text for row in rows(raw) if not row.met]


def markdown(raw: Mapping[str, Any]) -> str:
    result, hosts = raw["results"], raw["hosts"]
    lines = [
        f"| {raw['database']}, {hosts:,} hosts, {raw['ports']:,} ports | wanted | seen | met |",
        "|---|---:|---:|:---:|",
        *(f"| {row.text} | {row.wanted} | {row.seen} | {'yes' if row.met else 'no'} |" for row in rows(raw)),
        "",
        *spent(raw),
        "",
        f"All ports were ACTIVE {result['snapshots']['wired_s']:.1f} s after the hosts' start. The feed's memory was "
        f"{result['memory']['alone']:.0f} MB before it.",
        f"{result['compared']:,} hosts equalled the database in the end.",
    ]
    return "\n".join(lines) + "\n"
