"""The document of `GET /v2.0/status` as text. Pure."""

import textwrap
from collections.abc import Mapping, Sequence

from neutrino.cli.tables import duration, printable, table
from neutrino.model.objects import Values

MAX_HOSTS = 50  # without a problem; all of them with --all
MAX_PROBLEMS = 20
PROCESS_COLUMNS = ("SERVER", "PROCESS", "PID", "RELEASE", "STARTED", "LAST SEEN")
HOST_COLUMNS = ("HOST", "ROLES", "ALIVE", "FEED", "DATAPLANE", "BEHIND", "LAST REPORT", "LAST REPAIR", "PROBLEMS")


def render(status: Values, width: int = 100, *, every_host: bool = False) -> list[str]:
    """Render all sections, the most important first: a small terminal shows the beginning."""
    sections = [
        [headline(status)],
        _problems(status["problems"], status["problems_total"], width),
        _hosts(status, every_host),
        _servers(status),
        _objects(status),
    ]
    lines: list[str] = []
    for section in sections:
        lines += [*([""] if lines and section else []), *section]
    return [printable(line) for line in lines]


def headline(status: Values) -> str:
    total = status["problems_total"]
    problems = "no problems" if not total else f"{total} problem{'s' if total > 1 else ''}"
    hosts = f"{status['hosts_alive']} of {status['hosts_total']} hosts alive"
    return f"{status['verdict'].upper()}: {problems}; {hosts}; neutrino {status['release']}"


def _problems(problems: Sequence[Values], total: int, width: int) -> list[str]:
    lines = []
    for problem in problems[:MAX_PROBLEMS]:
        lines += _wrapped(f"{problem['severity'].upper()} {problem['what']}", width, "")
        lines += _wrapped(problem["meaning"], width, "  ")
        lines += _wrapped(f"Fix: {problem['fix']}", width, "  ")
    if total > MAX_PROBLEMS:
        lines.append(f"… {total - MAX_PROBLEMS} more problems: neutrino status --json")
    return lines


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, 20), initial_indent=indent, subsequent_indent=indent + "  ") or [""]


def _hosts(status: Values, every_host: bool) -> list[str]:
    hosts = sorted(status["hosts"], key=lambda host: (not host["problems"], host["name"]))
    troubled = sum(bool(host["problems"]) for host in hosts)
    shown = hosts if every_host else hosts[: troubled + MAX_HOSTS]
    if not shown:
        return ["No host has reported." if not status["hosts_total"] else "No host is listed."]
    lines = table(HOST_COLUMNS, [_host(host) for host in shown])
    left = status["hosts_left"] + len(hosts) - len(shown)
    return [*lines, f"… {left} more hosts (--all, --host NAME)"] if left else lines


def _host(host: Values) -> tuple[str, ...]:
    agents = host["agents"]
    alive = sum(agent["alive"] for agent in agents)
    roles = ",".join(
        f"{agent['role'] or agent['agent_type']}{'' if agent['admin_state_up'] else ' (disabled)'}" for agent in agents
    )
    planes = [agent["dataplane"] for agent in agents if agent["dataplane"]]
    behind = [agent["feed_behind"] for agent in agents if isinstance(agent["feed_behind"], int)]
    repairs = [agent["last_repair"] for agent in agents if agent["last_repair"]]
    return (
        host["name"],
        roles,
        "yes" if alive == len(agents) else ("no" if not alive else f"{alive} of {len(agents)}"),
        host.get("connection") or "-",
        "-" if not planes else ("up" if all(plane == "up" for plane in planes) else "down"),
        str(max(behind)) if behind else "-",
        duration(max(agent["heartbeat_seconds_ago"] for agent in agents)) + " ago",
        _repair(repairs[0]) if repairs else "-",
        str(len(host["problems"]) or "-"),
    )


def _repair(repair: object) -> str:
    if not isinstance(repair, dict):
        return str(repair)
    return str(repair.get("at") or ", ".join(f"{name} {value}" for name, value in list(repair.items())[:2]))[:40]


def _servers(status: Values) -> list[str]:
    database, log, feed = status["database"], status["change_log"], status["feed"]
    rows = [
        (
            process["host"],
            process["kind"],
            str(process["pid"]),
            process["release"],
            process["started_at"],
            f"{duration(process['seen_seconds_ago'])} ago{'' if process['alive'] else ', silent'}",
        )
        for server in status["servers"]
        for process in server["processes"]
    ]
    connected = feed["connected_hosts"]
    return [
        *table(PROCESS_COLUMNS, rows),
        f"Database: {database['dialect']} {database['server_version']}, schema {database['schema_version']}, "
        f"round trip {database['round_trip_ms']} ms",
        f"Change log: position {log['position']}, {log['kept']} rows kept, {log['pending']} without position",
        f"Feed: {len(feed['processes'])} processes, {'unknown' if connected is None else connected} hosts connected",
    ]


def _objects(status: Values) -> list[str]:
    ports, routers = status["ports"], status["routers"]
    states = routers["ha_states"]
    lines = [
        f"Ports: {_counts(ports)}; {_words(ports['by_binding'])}",
        f"Networks: {_counts(status['networks'])}; {status['subnets']['total']} subnets",
        f"Routers: {_counts(routers)}; {routers['ha']} HA, {routers['distributed']} distributed",
        f"Floating IPs: {_counts(status['floatingips'])}",
    ]
    if routers["ha"]:
        lines[2] += (
            f"; HA: {states['one_active']} with one active instance, {states['none_active']} with none, "
            f"{states['several_active']} with several"
        )
    return lines


def _counts(counted: Values) -> str:
    return f"{counted['total']}" + (f" ({_words(counted['by_status'])})" if counted["by_status"] else "")


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
