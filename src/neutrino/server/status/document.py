"""The document of `GET /v2.0/status`, from the facts and the problems found in them. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from neutrino import __version__
from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server.status.facts import BINDING_FAILED, UNBOUND, Facts, dataplane
from neutrino.server.status.problems import Problem, seconds_since
from neutrino.server.status.processes import FEED, SILENT_AFTER

ROLES: Final = {words.OVS: "l2", words.DHCP: "dhcp", words.L3: "l3", words.METADATA: "metadata", words.BGP: "bgp"}
MAX_PROBLEMS: Final = 200  # in one document; their number is always given


@dataclass(frozen=True, slots=True)
class Page:
    """Which hosts are listed; verdict and problems are always of all hosts."""

    limit: int
    marker: str = ""  # the last host of the previous page
    host: str = ""  # this host only
    only_problems: bool = False


def document(facts: Facts, problems: Sequence[Problem], down_time: float, schema: str, page: Page) -> Object:
    errors = [each for each in problems if each.severity == "error"]
    # Pages are cut by comparing names here. Databases collate differently, some ignoring case: hosts would be left out.
    agents = sorted(facts.agents, key=lambda agent: (agent["host"], agent["agent_type"]))
    hosts = [
        _host(name, list(several), facts.now, down_time)
        for name, several in groupby(agents, key=lambda agent: agent["host"])
    ]
    _add_problems(hosts, problems)
    shown = [each for each in hosts if _is_listed(each, page)]
    feeds = [_process(row, facts.now) for row in facts.processes if row["kind"] == FEED]
    connected = [row["details"].get("connected_hosts") for row in feeds if row["alive"]]
    known = [each for each in connected if isinstance(each, int)]
    return {
        "verdict": "degraded" if errors else "ok",
        "problems": [asdict(each) for each in problems[:MAX_PROBLEMS]],
        "problems_total": len(problems),
        "release": __version__,
        "servers": _servers(facts),
        "database": {
            "dialect": facts.dialect,
            "server_version": facts.server_version,
            "round_trip_ms": round(facts.round_trip * 1000, 2),
            "schema_version": facts.schema,
            "schema_needed": schema,
        },
        "change_log": {
            "position": facts.position,
            "removed": facts.removed,
            "kept": facts.position - facts.removed,
            "pending": facts.pending,
        },
        "feed": {"processes": feeds, "connected_hosts": sum(known) if known else None},
        "hosts": shown[: page.limit],
        "hosts_total": len(hosts),
        "hosts_alive": sum(host["alive"] for host in hosts),
        "hosts_left": max(0, len(shown) - page.limit),  # after the last one listed: the next page has them
        "agents": _agents(facts, down_time),
        "ports": _ports(facts),
        "networks": {"total": sum(facts.networks.values()), "by_status": dict(facts.networks)},
        "subnets": {"total": facts.subnets},
        "routers": _routers(facts),
        "floatingips": {"total": sum(facts.floatingips.values()), "by_status": dict(facts.floatingips)},
    }


def _is_listed(host: Object, page: Page) -> bool:
    if page.host and host["name"] != page.host:
        return False
    return host["name"] > page.marker and (bool(host["problems"]) or not page.only_problems)


def _servers(facts: Facts) -> list[Object]:
    rows = sorted(facts.processes, key=lambda row: str(row["host"]))
    return [
        {"name": name, "processes": [_process(row, facts.now) for row in several]}
        for name, several in groupby(rows, key=lambda row: row["host"])
    ]


def _process(row: Mapping[str, Any], now: float) -> Object:
    age = seconds_since(row["seen_at"], now)
    shown = {name: row[name] for name in ("id", "host", "kind", "pid", "release", "started_at", "seen_at", "details")}
    return {**shown, "seen_seconds_ago": round(age), "alive": age <= SILENT_AFTER}


def _host(name: str, agents: Sequence[Mapping[str, Any]], now: float, down_time: float) -> Object:
    shown = [_agent(agent, now, down_time) for agent in agents]
    return {"name": name, "alive": all(agent["alive"] for agent in shown), "agents": shown, "problems": []}


def _agent(agent: Mapping[str, Any], now: float, down_time: float) -> Object:
    configurations = agent["configurations"]
    age = seconds_since(agent["heartbeat_timestamp"], now)
    is_up, reason = dataplane(configurations)
    problems = configurations.get(words.PROBLEMS)
    return {
        "id": agent["id"],
        "agent_type": agent["agent_type"],
        "role": ROLES.get(agent["agent_type"], ""),
        "alive": age <= down_time,
        "admin_state_up": agent["admin_state_up"],
        "availability_zone": agent["availability_zone"],
        "started_at": agent["started_at"],
        "heartbeat_seconds_ago": round(age),
        "dataplane": None if is_up is None else ("up" if is_up else "down"),
        "dataplane_reason": reason,
        "feed_behind": configurations.get(words.FEED_BEHIND),
        "tunneling_ip": configurations.get(words.TUNNELING_IP),
        "problems": problems if isinstance(problems, dict) else {},
        "last_repair": configurations.get(words.LAST_REPAIR),
    }


def _add_problems(hosts: Sequence[Object], problems: Sequence[Problem]) -> None:
    """Each host with the texts of its agents' problems."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for each in problems:
        if each.host and each.resource_type == "agent":
            texts[each.host].append(each.what)
    for host in hosts:
        host["problems"] = texts[host["name"]]


def _agents(facts: Facts, down_time: float) -> Object:
    """The number of agents by role: alive, dead, disabled."""
    found: dict[str, Object] = {}
    for agent in facts.agents:
        kind = ROLES.get(agent["agent_type"]) or str(agent["agent_type"])
        counts = found.setdefault(kind, {"total": 0, "alive": 0, "disabled": 0})
        counts["total"] += 1
        counts["alive"] += seconds_since(agent["heartbeat_timestamp"], facts.now) <= down_time
        counts["disabled"] += not agent["admin_state_up"]
    return found


def _ports(facts: Facts) -> Object:
    by_status: defaultdict[str, int] = defaultdict(int)
    bindings = {"bound": 0, "unbound": 0, "failed": 0}
    for status, vif_type, number in facts.ports:
        by_status[status] += number
        bindings[{UNBOUND: "unbound", BINDING_FAILED: "failed"}.get(vif_type, "bound")] += number
    return {"total": sum(by_status.values()), "by_status": dict(by_status), "by_binding": bindings}


def _routers(facts: Facts) -> Object:
    by_status: defaultdict[str, int] = defaultdict(int)
    for status, _, _, number in facts.routers:
        by_status[status] += number
    one_active = facts.ha_routers.get(1, 0)
    none_active = facts.ha_routers.get(0, 0)
    return {
        "total": sum(by_status.values()),
        "by_status": dict(by_status),
        "ha": sum(number for _, ha, _, number in facts.routers if ha),
        "distributed": sum(number for _, _, distributed, number in facts.routers if distributed),
        "ha_states": {
            "one_active": one_active,
            "none_active": none_active,
            "several_active": sum(facts.ha_routers.values()) - one_active - none_active,
        },
    }
