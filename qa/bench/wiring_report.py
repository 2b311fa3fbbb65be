"""Tables of the figures of a host, compared with OpenStack Neutron.

Neutron 29.0 was measured on one host of the same kind with Open vSwitch in userspace and all its agents: ovs, dhcp, l3 and
metadata. A hundred more ports took it 50 to 70 seconds: the better figure is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qa.bench.report import Peer, Row, at, rows_table, shown

PEERS: tuple[Peer, ...] = (
    Peer("a bound port made, plugged, ACTIVE", "ports.single.from_post.p50_ms", 2600, "ms", 20),
    Peer("the same, from the plug", "ports.single.from_plug.p50_ms", 2200, "ms", 20),
    Peer("50 ports plugged at once, all ACTIVE", "ports.together_50.ms", 16400, "ms", 20),
    Peer("100 more at once", "ports.together_100.ms", 50000, "ms", 25),
    Peer("agent restart with 273 ports until all is verified", "ports.restart_273.ms", 86000, "ms", 25),
    Peer("flows of 273 ports", "ports.restart_273.flows", 17373, "", 1),
    Peer("agent's memory with 273 ports, RSS", "ports.memory.rss_mb", 950, "MB", 6),
)


def compare(raw: Mapping[str, Any]) -> list[Row]:
    return [Row(peer, at(raw, peer.path), peer.factor) for peer in PEERS]


def missed(raw: Mapping[str, Any]) -> list[str]:
    lost = sum(entry["lost"] for entry in _restarts(raw))
    slow = [row.peer.operation for row in compare(raw) if row.met is False]
    return [*slow, *([f"{lost} pings lost while the agent restarted"] if lost else [])]


def document(raw: Mapping[str, Any]) -> str:
    ports, group = raw["ports"], raw["group"]
    more = [
        *(
            (
                f"agent restart with {entry['ports']} ports ({entry['flows']:,} flows)",
                f"{shown(entry['ms'], 'ms')}; {entry['lost']} of {entry['pings']} pings lost",
            )
            for entry in _restarts(raw)
        ),
        (
            f"the switch killed, {ports['switch_killed']['ports']} ports: from its return until all flows are back",
            shown(ports["switch_killed"]["ms"], "ms"),
        ),
        (f"agent's memory with {ports['memory']['ports']} ports, PSS", shown(ports["memory"]["pss_mb"], "MB")),
        (
            f"{group['rules']} rules that name a group of {group['members']}, on {group['ports']} ports",
            f"{shown(group['ms'], 'ms')}, {group['flows']:,} flows",
        ),
        *((f"one member {word}", _change(group[f"member_{word}"])) for word in ("added", "removed")),
        ("processes that wanted a processor, before and after", f"{raw['busy_before']:.1f}, {raw['busy_after']:.1f}"),
    ]
    lines = ["| more | |", "|---|---|", *(f"| {name} | {value} |" for name, value in more)]
    return rows_table(compare(raw)) + "\n\n" + "\n".join(lines) + "\n"


def _restarts(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for name, entry in raw["ports"].items() if name.startswith("restart_")]


def _change(entry: Mapping[str, Any]) -> str:
    return f"{shown(entry['ms'], 'ms')}, {entry['flow_changes']} flow changed"
