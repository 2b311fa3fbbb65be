"""Findings on the whole service, from the facts in the server's database. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from neutrino.diagnosis import host_findings, machine_problems, object_problems, server_problems
from neutrino.diagnosis.facts import (
    BINDING_FAILED,
    DRIVERS_NOT_READY,
    FEED_PROCESS,
    Disk,
    Facts,
    NamedObject,
    ProcessRow,
)
from neutrino.diagnosis.problems import SEVERITIES, Finding, Problem

FULL_DISK: Final = 2**20  # bytes: SQLite may have a little room in its log, and soon has not
LOW_DISK: Final = 100 * 2**20
SLOW_DATABASE: Final = 0.1  # seconds of a round trip: a port create needs about ten of them


def find(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    findings = [
        *_database(facts),
        *_disk(facts.disk),
        *_processes(facts),
        *host_findings.find(facts),
        *_objects(facts),
        *facts.found,
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
        if not facts.is_running(process) and not facts.is_replaced(process):
            age = facts.seconds_since(process.seen_at)
            text = f"the {process.kind} process {process.pid} on {process.host} has not written for {age:.0f} s"
            problem = server_problems.PROCESS_SILENT
            yield problem(text, "server_process", process.id, process.host, server=process.host)
    running = [process for process in facts.processes if facts.is_running(process)]
    if facts.agents and not any(process.kind == FEED_PROCESS for process in running):
        yield server_problems.FEED_STOPPED("no feed process runs", "feed")
    yield from _drivers(running)
    releases = sorted({process.release for process in running})
    if len(releases) > 1:
        text = f"the servers run different releases: {', '.join(releases)}"
        yield server_problems.RELEASES_DIFFER(text, "server_process")


def _drivers(running: Sequence[ProcessRow]) -> Iterator[Finding]:
    """Mechanism drivers that are not ready: each process has its own, and those of a server mostly fail alike."""
    found: dict[tuple[str, str, str], list[ProcessRow]] = {}
    for process in running:
        reasons = process.details.get(DRIVERS_NOT_READY)
        for name, reason in sorted(reasons.items()) if isinstance(reasons, dict) else ():
            found.setdefault((process.host, name, str(reason)), []).append(process)
    for (host, name, reason), processes in found.items():
        number = sum(process.host == host for process in running)
        text = (
            f"mechanism driver {name} is not initialised in {len(processes)} of {number} processes on {host}: {reason}"
        )
        yield server_problems.DRIVER_NOT_READY(text, "server_process", processes[0].id, host, server=host)


# --- objects ----------------------------------------------------------------------------------------------------------


def _objects(facts: Facts) -> Iterator[Finding]:
    named, most = facts.named, facts.most
    failed = sum(number for _, vif_type, number in facts.ports if vif_type == BINDING_FAILED)
    problems = object_problems
    yield from _listed(
        most, problems.BINDING_FAILED, "port", named.ports_with_failed_binding, "the binding failed", failed
    )
    text = "it has DHCP, and no DHCP agent serves it"
    yield from _listed(most, problems.NETWORK_WITHOUT_DHCP, "network", named.networks_without_dhcp, text)
    yield from _listed(
        most, problems.ROUTER_NOT_SCHEDULED, "router", named.routers_not_scheduled, "no L3 agent hosts it"
    )
    text = "all of its DHCP agents are disabled"
    yield from _listed(most, problems.NETWORK_OF_DISABLED_AGENTS, "network", named.networks_of_disabled_agents, text)
    text = "all of its L3 agents are disabled"
    yield from _listed(most, problems.ROUTER_OF_DISABLED_AGENTS, "router", named.routers_of_disabled_agents, text)
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
        yield from _listed(most, problems.OBJECT_ERROR, kind, objects, "its status is ERROR")
    yield from _listed(
        most, problems.PORT_NOT_WIRED, "port", named.ports_not_wired, "its host has not reported it as up"
    )


def _listed(
    most: int, problem: Problem, kind: str, objects: Sequence[NamedObject], what: str, total: int | None = None
) -> Iterator[Finding]:
    """Yield a finding on each of the objects, and one on those that are not listed."""
    for item in objects:
        where = f" (host {item.host})" if item.host else ""
        yield problem(f"{kind} {_name(item)}{where}: {what}", kind, item.id, item.host)
    if total is not None and total > len(objects):
        yield problem(f"{total - len(objects)} more {kind}s: {what}", kind)
    elif total is None and len(objects) == most:
        yield problem(f"possibly more {kind}s: {what}", kind)


def _name(item: NamedObject) -> str:
    return f"{item.name} ({item.id})" if item.name else item.id
