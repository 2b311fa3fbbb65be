"""The document of `GET /v2.0/status`, from the facts and the findings on them. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Final

from neutrino import __version__
from neutrino.diagnosis.facts import BINDING_FAILED, FEED_PROCESS, HOSTS, MACHINE, UNBOUND, AgentRow, Facts, ProcessRow
from neutrino.diagnosis.problems import ERROR, NOTE, Finding
from neutrino.model.agents import (
    BGP,
    DHCP,
    FEED_BEHIND,
    L3,
    LAST_REPAIR,
    METADATA,
    NIC_SWITCH,
    OVS,
    PROBLEMS,
    TUNNELING_IP,
)
from neutrino.model.objects import Object

ROLES: Final = {OVS: "l2", DHCP: "dhcp", L3: "l3", METADATA: "metadata", BGP: "bgp", NIC_SWITCH: "sriov"}
MAX_PROBLEMS: Final = 200  # in one document; their number is always given


@dataclass(frozen=True, slots=True)
class Page:
    """Which hosts are listed; verdict and problems are always of all hosts."""

    limit: int
    marker: str = ""  # the last host of the previous page
    host: str = ""  # this host only
    only_problems: bool = False


def document(facts: Facts, findings: Sequence[Finding], page: Page) -> Object:
    problems = [finding for finding in findings if finding.severity != NOTE]
    # Pages are cut by comparing names here. Databases collate differently, some ignoring case: hosts would be left out.
    agents = sorted(facts.agents, key=lambda agent: (agent.host, agent.agent_type))
    hosts = [host_document(name, list(group), facts) for name, group in groupby(agents, key=lambda agent: agent.host)]
    _add_problems(hosts, problems)
    listed = [host for host in hosts if _is_listed(host, page)]
    feeds = [_process(process, facts) for process in facts.processes if process.kind == FEED_PROCESS]
    connected = [process["details"].get("connected_hosts") for process in feeds if process["alive"]]
    numbers = [number for number in connected if isinstance(number, int)]
    return {
        "verdict": "degraded" if any(problem.severity == ERROR for problem in problems) else "ok",
        "problems": [asdict(problem) for problem in problems[:MAX_PROBLEMS]],
        "problems_total": len(problems),
        "notes": [asdict(finding) for finding in findings if finding.severity == NOTE],
        "release": __version__,
        "servers": _servers(facts),
        "database": {
            "dialect": facts.dialect,
            "server_version": facts.server_version,
            "round_trip_ms": round(facts.round_trip * 1000, 2),
            "schema_version": facts.schema,
            "schema_needed": facts.schema_needed,
        },
        "change_log": {
            "position": facts.position,
            "removed": facts.removed,
            "kept": facts.position - facts.removed,
            "pending": facts.pending,
        },
        "feed": {"processes": feeds, "connected_hosts": sum(numbers) if numbers else None},
        "hosts": listed[: page.limit],
        "hosts_total": len(hosts),
        "hosts_alive": sum(host["alive"] for host in hosts),
        "hosts_left": max(0, len(listed) - page.limit),  # after the last one listed: the next page has them
        "agents": _agents(facts),
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
    processes = sorted(facts.processes, key=lambda process: process.host)
    return [
        {"name": name, "processes": [_process(process, facts) for process in group]}
        for name, group in groupby(processes, key=lambda process: process.host)
    ]


def _process(process: ProcessRow, facts: Facts) -> Object:
    age = round(facts.seconds_since(process.seen_at))
    # Hosts have their connection each: the list of a large cloud is long.
    details = {key: value for key, value in process.details.items() if key not in (HOSTS, MACHINE)}
    return {**asdict(process), "details": details, "seen_seconds_ago": age, "alive": facts.is_running(process)}


def host_document(name: str, agents: Sequence[AgentRow], facts: Facts) -> Object:
    is_alive = all(facts.is_alive(agent) for agent in agents)
    return {
        "name": name,
        "alive": is_alive,
        "connection": facts.connection(agents),
        "agents": [_agent(agent, facts) for agent in agents],
        "problems": [],
    }


def _agent(agent: AgentRow, facts: Facts) -> Object:
    configurations = agent.configurations
    is_up, reason = agent.dataplane()
    problems = configurations.get(PROBLEMS)
    return {
        "id": agent.id,
        "agent_type": agent.agent_type,
        "role": ROLES.get(agent.agent_type, ""),
        "alive": facts.is_alive(agent),
        "admin_state_up": agent.admin_state_up,
        "availability_zone": agent.availability_zone,
        "started_at": agent.started_at,
        "heartbeat_seconds_ago": round(facts.report_age(agent)),
        "dataplane": None if is_up is None else ("up" if is_up else "down"),
        "dataplane_reason": reason,
        "feed_behind": configurations.get(FEED_BEHIND),
        "tunneling_ip": configurations.get(TUNNELING_IP),
        "problems": problems if isinstance(problems, dict) else {},
        "last_repair": configurations.get(LAST_REPAIR),
    }


def _add_problems(hosts: Sequence[Object], problems: Sequence[Finding]) -> None:
    """Give each host the texts of its agents' problems."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for problem in problems:
        if problem.host and problem.resource_type == "agent":
            texts[problem.host].append(problem.what)
    for host in hosts:
        host["problems"] = texts[host["name"]]


def _agents(facts: Facts) -> Object:
    """Count agents by role: alive, dead, disabled."""
    by_role: dict[str, Object] = {}
    for agent in facts.agents:
        role = ROLES.get(agent.agent_type) or agent.agent_type
        counts = by_role.setdefault(role, {"total": 0, "alive": 0, "disabled": 0})
        counts["total"] += 1
        counts["alive"] += facts.is_alive(agent)
        counts["disabled"] += not agent.admin_state_up
    return by_role


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
