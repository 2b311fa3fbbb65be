"""The document of `GET /v2.0/health`: the problems of the status with all objects that have them, and the hosts. Pure.

Each part has an edition: a digest of what a reader of it depends on. Ages in texts ("no report for 80 s") are not in it,
so that a part stays the same while nothing happens; they are as of the moment when the part last changed.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec

from neutrino.diagnosis import object_problems
from neutrino.diagnosis.facts import BINDING_FAILED, AgentRow, Facts
from neutrino.diagnosis.problems import ERROR, NOTE, Finding
from neutrino.diagnosis.status import ROLES
from neutrino.model.agents import LINKS, TUNNELING_IP
from neutrino.model.objects import Object

PROBLEMS: Final = "problems"
HOSTS: Final = "hosts"
PARTS: Final = (PROBLEMS, HOSTS)
MAX_FINDINGS: Final = 5000


@dataclass(frozen=True)
class Health:
    """A health document in parts, each with its edition."""

    parts: Mapping[str, Object]
    editions: Mapping[str, str]

    @property
    def edition(self) -> str:
        return "-".join(self.editions[name] for name in PARTS)


def assess(facts: Facts, findings: Sequence[Finding]) -> Health:
    """Compose the document of all findings."""
    listed = findings[:MAX_FINDINGS]
    hosts = _hosts(facts, listed)
    parts = {PROBLEMS: _problems(facts, findings, listed), HOSTS: hosts}
    signature = [(f.kind, f.severity, f.resource_type, f.resource_id, f.host) for f in listed]
    return Health(parts, {PROBLEMS: _digest([signature, len(findings), facts.ports]), HOSTS: _digest(hosts)})


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


def _problems(facts: Facts, findings: Sequence[Finding], listed: Sequence[Finding]) -> Object:
    kinds: dict[str, Object] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, {"meaning": finding.meaning, "fix": finding.fix, "severity": finding.severity})
    # Without an object it stands for those that are not listed.
    beyond = {finding.kind for finding in findings if finding.resource_type in _LISTED and not finding.resource_id}
    numbers = Counter(finding.kind for finding in findings if finding.resource_id or finding.kind not in beyond)
    failed = sum(number for _, vif_type, number in facts.ports if vif_type == BINDING_FAILED)
    numbers[object_problems.BINDING_FAILED.id] = failed  # counted, however many there are
    return {
        "verdict": "degraded" if any(finding.severity == ERROR for finding in findings) else "ok",
        "total": sum(finding.severity != NOTE for finding in findings),
        "kinds": {kind: {**of, "number": numbers[kind], "more": kind in beyond} for kind, of in kinds.items()},
        "findings": [_finding(finding, kinds[finding.kind]["fix"]) for finding in listed],
    }


_LISTED: Final = frozenset({"port", "network", "router", "floatingip"})


def _finding(finding: Finding, usual_fix: object) -> Object:
    shown: Object = {"kind": finding.kind, "severity": finding.severity, "what": finding.what}
    for name in ("resource_type", "resource_id", "host"):
        if value := getattr(finding, name):
            shown[name] = value
    return shown if finding.fix == usual_fix else {**shown, "fix": finding.fix}


def _hosts(facts: Facts, findings: Sequence[Finding]) -> Object:
    problems: defaultdict[str, list[str]] = defaultdict(list)
    for finding in findings:
        if finding.host and finding.resource_type == "agent":
            problems[finding.host].append(finding.kind)
    agents = sorted(facts.agents, key=lambda agent: (agent.host, agent.agent_type))
    by_host = groupby(agents, key=lambda agent: agent.host)
    return {name: _host(list(group), facts, problems[name]) for name, group in by_host}


def _host(agents: Sequence[AgentRow], facts: Facts, problems: Sequence[str]) -> Object:
    shown: Object = {
        "connection": facts.connection(agents),
        "alive": all(facts.is_alive(agent) for agent in agents),
        "agents": {ROLES.get(agent.agent_type) or agent.agent_type: _agent(agent, facts) for agent in agents},
    }
    for agent in agents:
        if address := agent.configurations.get(TUNNELING_IP):
            shown["tunneling_ip"] = address
        if down := broken_links(agent):
            shown["links_down"] = down
    if problems:
        shown["problems"] = sorted(problems)
    return shown


def _agent(agent: AgentRow, facts: Facts) -> str:
    """The state of an agent in a word: what is worst."""
    if not facts.is_alive(agent):
        return "dead"
    if agent.dataplane()[0] is False:
        return "down"
    return "up" if agent.admin_state_up else "disabled"


def broken_links(agent: AgentRow) -> list[str]:
    """The devices whose links are reported as not up; a report may have anything."""
    links = agent.configurations.get(LINKS)
    if not isinstance(links, dict):
        return []
    return sorted(
        name for name, link in list(links.items())[:50] if isinstance(link, dict) and link.get("state", "up") != "up"
    )
