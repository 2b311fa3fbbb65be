"""The tables of the figures with a large security group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WANTED_MS = 300.0  # 95th percentile, until a change is known and applied everywhere
_KINDS = ("added", "removed")
_STEPS = {
    "known": "known to all simulated hosts",
    "applied": "a flow of the real host",
    "everywhere": "known and applied everywhere",
}


def missed(raw: Mapping[str, Any]) -> list[str]:
    return [
        f"one member {kind}: {raw['results'][kind]['everywhere']['p95_ms']:.0f} ms, wanted {WANTED_MS:.0f} ms"
        for kind in _KINDS
        if raw["results"][kind]["everywhere"]["p95_ms"] > WANTED_MS
    ]


def markdown(raw: Mapping[str, Any]) -> str:
    found = raw["results"]
    lines = [
        f"| {raw['members']:,} members, {raw['hosts']} hosts, {raw['rules']} rules | median | 95th percentile | worst "
        "| wanted | ratio | met |",
        "|---|---:|---:|---:|---:|---:|:---:|",
    ]
    for kind in _KINDS:
        for name, text in _STEPS.items():
            times = found[kind][name]
            row = [f"one member {kind}: {text}", *(f"{times[key]:.0f} ms" for key in ("p50_ms", "p95_ms", "max_ms"))]
            if name == "everywhere":
                share = WANTED_MS / times["p95_ms"]
                row += [f"{WANTED_MS:.0f} ms", f"{share:.1f} ×", "yes" if share >= 1 else "**no**"]
            else:
                row += ["", "", ""]
            lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        "| each change | messages | bytes | flows | feed | agent | switch |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in _KINDS:
        each = found[kind]["each"]
        spent = (f"{each[part] * 1000:.1f} ms" for part in ("feed_s", "agent_s", "switch_s"))
        counts = f"{each['messages']:.1f} | {each['bytes']:,.0f} | {each['flows']:.1f}"
        lines.append(f"| one member {kind} | {counts} | {' | '.join(spent)} |")
    lines += [
        "",
        f"{raw['of_host']} ports plugged on the real host have {found['flows']:,} flows on its integration bridge.",
    ]
    return "\n".join(lines) + "\n"
