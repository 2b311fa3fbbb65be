"""Findings on the whole service, from the facts in the server's database. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from neutrino.diagnosis import host_problems, machine_problems, object_problems, server_problems
from neutrino.diagnosis.facts import BINDING_FAILED, FEED_PROCESS, NAMED, AgentRow, Disk, Facts, NamedObject
from neutrino.diagnosis.problems import SEVERITIES, WARNING, Finding, Problem
from neutrino.model.agents import (
    FEED_BEHIND,
    HA_VRRP_ADVERT_INT,
    HELD,
    L3,
    NEUTRON_AGENT,
    OVS,
    PROBLEMS,
    RESPAWNED,
    TUNNELING_IP,
)

LAG: Final = 100  # positions: a host that is busy with many changes is a few behind, and catches up in a second
FULL_DISK: Final = 2**20  # bytes: SQLite may have a little room in its log, and soon has not
LOW_DISK: Final = 100 * 2**20
SLOW_DATABASE: Final = 0.1  # seconds of a round trip: a port create needs about ten of them


def find(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    findings = [
        *_database(facts),
        *_disk(facts.disk),
        *_processes(facts),
        *(finding for agent in facts.agents for finding in _agent(agent, facts)),
        *_refused_hosts(facts),
        *_tunnel_addresses(facts),
        *_vrrp_intervals(facts),
        *_objects(facts),
    ]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


# --- servers ----------------------------------------------------------------------------------------------------------


def _database(facts: Facts) -> Iterator[Finding]:
    if facts.schema != facts.schema_needed:
        versions = f"schema version {facts.schema or 'none'}, this release needs {facts.schema_needed}"
        yield server_problems.SCHEMA_DIFFERS(f"the database has {versions}", "database")
    if facts.round_trip > SLOW_DATABASE:
        text = f"a round trip to the database takes {facts.round_trip * 1000:.0f} ms"
        yield server_problems.DATABASE_SLOW(text, "database")


def _disk(disk: Disk | None) -> Iterator[Finding]:
    if disk is None or (disk.free >= LOW_DISK and not disk.read_only):
        return
    is_full = disk.free < FULL_DISK or disk.read_only
    problem = machine_problems.DISK_FULL if is_full else machine_problems.DISK_LOW
    state = "is read-only" if disk.read_only else f"has {disk.free / 2**20:.1f} MiB left"
    yield problem(f"the disk of {disk.path} {state}", "database")


def _processes(facts: Facts) -> Iterator[Finding]:
    for process in facts.processes:
        if not facts.is_running(process):
            age = facts.seconds_since(process.seen_at)
            text = f"the {process.kind} process {process.pid} on {process.host} has not written for {age:.0f} s"
            problem = server_problems.PROCESS_SILENT
            yield problem(text, "server_process", process.id, process.host, server=process.host)
    running = [process for process in facts.processes if facts.is_running(process)]
    if facts.agents and not any(process.kind == FEED_PROCESS for process in running):
        yield server_problems.FEED_STOPPED("no feed process runs", "feed")
    releases = sorted({process.release for process in running})
    if len(releases) > 1:
        text = f"the servers run different releases: {', '.join(releases)}"
        yield server_problems.RELEASES_DIFFER(text, "server_process")


# --- hosts ------------------------------------------------------------------------------------------------------------


def _agent(agent: AgentRow, facts: Facts) -> Iterator[Finding]:
    """Yield the findings on one agent. If it is dead, the rest of its last report is not repeated: it is out of date."""

    def finding(problem: Problem, what: str) -> Finding:
        return problem(f"{agent.agent_type} on {agent.host}: {what}", "agent", agent.id, agent.host)

    if not facts.is_alive(agent):
        yield finding(host_problems.HOST_DOWN, f"no report for {facts.report_age(agent):.0f} s")
        return
    is_up, reason = agent.dataplane()
    if is_up is False and reason != HELD:  # else the cause is among the problems below
        yield finding(host_problems.DATAPLANE_DOWN, f"the dataplane is down: {reason or 'no reason reported'}")
    behind = agent.configurations.get(FEED_BEHIND)
    if isinstance(behind, int) and behind > LAG:
        yield finding(host_problems.LAG, f"{behind} changes behind")
    for name, text in _reported(agent, RESPAWNED):
        yield finding(host_problems.DAEMON_RESPAWNED, f"{name}: {text}")
    for name, text in _reported(agent, PROBLEMS):
        yield finding(_problem_named(name), f"{name}: {text}")


def _problem_named(name: str) -> Problem:
    if name == NEUTRON_AGENT:
        return host_problems.NEUTRON_AGENT_RUNS
    return host_problems.AGENT_HELD if name.startswith(HELD) else host_problems.NOT_APPLIED


def _reported(agent: AgentRow, key: str) -> list[tuple[str, object]]:
    """Return the entries of a report's dictionary, in the order of their names."""
    entries = agent.configurations.get(key)
    return sorted(entries.items()) if isinstance(entries, dict) else []


def _refused_hosts(facts: Facts) -> Iterator[Finding]:
    """Yield hosts whose credential the feed refuses, by the rows of feed processes."""
    alive = {agent.host for agent in facts.agents if facts.is_alive(agent)}
    last: dict[str, tuple[float, str]] = {}  # time and address
    for process in facts.processes:
        is_fresh = process.kind == FEED_PROCESS and facts.is_running(process)
        refused = process.details.get("refused_hosts") if is_fresh else None
        for host, login in refused.items() if isinstance(refused, dict) else ():
            last[host] = max(last.get(host, (0.0, "")), (float(login["at"]), str(login["address"])))
    for host, (at, address) in sorted(last.items()):
        age = max(0.0, facts.now - at)
        text = f"host {host}: a login from {address} was refused {age:.0f} s ago: wrong credential"
        finding = host_problems.FEED_REFUSED(text, "agent", host=host)
        # The credential of a host that is alive was just rotated, or another machine uses the host's name.
        yield replace(finding, severity=WARNING) if host in alive else finding


def _tunnel_addresses(facts: Facts) -> Iterator[Finding]:
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for agent in facts.agents:
        address = agent.configurations.get(TUNNELING_IP)
        if agent.agent_type == OVS and isinstance(address, str) and address and facts.is_alive(agent):
            hosts[address].append(agent.host)
    for address, names in sorted(hosts.items()):
        if len(names) > 1:
            text = f"hosts {', '.join(names)} have the same tunnel address {address}"
            yield host_problems.TUNNEL_ADDRESS_DUPLICATE(text, "agent")


def _vrrp_intervals(facts: Facts) -> Iterator[Finding]:
    """Compare the intervals of all hosts: keepalived ignores advertisements whose interval is not its own."""
    hosts: defaultdict[int, list[str]] = defaultdict(list)
    for agent in facts.agents:
        interval = agent.configurations.get(HA_VRRP_ADVERT_INT)
        if agent.agent_type == L3 and isinstance(interval, int) and facts.is_alive(agent):
            hosts[interval].append(agent.host)
    if len(hosts) > 1:
        values = (f"{interval} on {', '.join(sorted(names))}" for interval, names in sorted(hosts.items()))
        text = f"hosts have different values of ha_vrrp_advert_int: {'; '.join(values)}"
        yield host_problems.VRRP_INTERVALS_DIFFER(text, "agent")


# --- objects ----------------------------------------------------------------------------------------------------------


def _objects(facts: Facts) -> Iterator[Finding]:
    named = facts.named
    failed = sum(number for _, vif_type, number in facts.ports if vif_type == BINDING_FAILED)
    problems = object_problems
    yield from _listed(problems.BINDING_FAILED, "port", named.ports_with_failed_binding, "the binding failed", failed)
    text = "it has DHCP, and no DHCP agent serves it"
    yield from _listed(problems.NETWORK_WITHOUT_DHCP, "network", named.networks_without_dhcp, text)
    yield from _listed(problems.ROUTER_NOT_SCHEDULED, "router", named.routers_not_scheduled, "no L3 agent hosts it")
    for router in named.ha_routers:
        number = router.active_instances
        problem = problems.ROUTER_ACTIVE_TWICE if number else problems.ROUTER_NOT_ACTIVE
        text = f"{number} instances are active" if number else "no instance is active"
        yield problem(f"router {_name(router)}: {text}", "router", router.id)
    for kind, objects in (
        ("router", named.routers_in_error),
        ("floatingip", named.floatingips_in_error),
        ("port", named.ports_in_error),
    ):
        yield from _listed(problems.OBJECT_ERROR, kind, objects, "its status is ERROR")
    yield from _listed(problems.PORT_NOT_WIRED, "port", named.ports_not_wired, "its host has not reported it as up")


def _listed(
    problem: Problem, kind: str, objects: Sequence[NamedObject], what: str, total: int | None = None
) -> Iterator[Finding]:
    """Yield a finding on each of the objects, and one on those that are not listed."""
    for item in objects:
        where = f" (host {item.host})" if item.host else ""
        yield problem(f"{kind} {_name(item)}{where}: {what}", kind, item.id, item.host)
    if total is not None and total > len(objects):
        yield problem(f"{total - len(objects)} more {kind}s: {what}", kind)
    elif total is None and len(objects) == NAMED:
        yield problem(f"possibly more {kind}s: {what}", kind)


def _name(item: NamedObject) -> str:
    return f"{item.name} ({item.id})" if item.name else item.id
