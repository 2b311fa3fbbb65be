"""What is wrong, in words: each problem names the object, what it means for users of the network, and the fix. Pure."""

import time
from calendar import timegm
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from neutrino.model import agents as words
from neutrino.server.status.facts import BINDING_FAILED, NAMED, Disk, Facts, dataplane
from neutrino.server.status.processes import FEED, SILENT_AFTER

LAG: Final = 100  # positions: a host that is busy with many changes is a few behind, and catches up in a second
FULL_DISK: Final = 2**20  # bytes: SQLite may have a little room in its log, and soon has not
LOW_DISK: Final = 100 * 2**20
SLOW_DATABASE: Final = 0.1  # seconds of a round trip: a port create needs about ten of them
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    severity: Literal["error", "warning"]  # a warning alone does not degrade the service
    resource_type: str
    resource_id: str
    what: str
    meaning: str
    fix: str
    host: str = ""


def seconds_since(text: str, now: float) -> float:
    """The age of a timestamp of the database; 0 if it is none."""
    at = _epoch(text)
    return max(0.0, now - at) if at is not None else 0.0


@lru_cache(maxsize=10_000)  # strptime is slow, and the agents of a large cloud have few different timestamps
def _epoch(text: str) -> int | None:
    try:
        return timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return None


def find(facts: Facts, down_time: float, schema: str) -> list[Problem]:
    """All problems, the errors first. `schema`: the version that this release needs."""
    found = [
        *_of_database(facts, schema),
        *_of_disk(facts.disk),
        *_of_processes(facts),
        *(problem for agent in facts.agents for problem in of_agent(agent, facts.now, down_time)),
        *_of_refused_hosts(facts, down_time),
        *_of_tunnel_addresses(facts, down_time),
        *_of_advertisements(facts, down_time),
        *_of_objects(facts),
    ]
    return sorted(found, key=lambda each: each.severity)


# --- servers ----------------------------------------------------------------------------------------------------------


def _of_database(facts: Facts, schema: str) -> Iterator[Problem]:
    if facts.schema != schema:
        yield Problem(
            "error",
            "database",
            "",
            f"the database has schema version {facts.schema or 'none'}, this release needs {schema}",
            "Requests may fail on columns that are missing.",
            "Run the same release on all servers, then neutrino db upgrade.",
        )
    if facts.round_trip > SLOW_DATABASE:
        yield Problem(
            "warning",
            "database",
            "",
            f"a round trip to the database takes {facts.round_trip * 1000:.0f} ms",
            "Every request takes several round trips, so the API is slow.",
            "Move the server close to its database, or reduce the database's load.",
        )


def _of_disk(disk: Disk | None) -> Iterator[Problem]:
    if disk is None or (disk.free >= LOW_DISK and not disk.read_only):
        return
    is_full = disk.free < FULL_DISK or disk.read_only
    state = "is read-only" if disk.read_only else f"has {disk.free / 2**20:.1f} MiB left"
    yield Problem(
        "error" if is_full else "warning",
        "database",
        "",
        f"the disk of {disk.path} {state}",
        "Requests that change something are answered with 503."
        if is_full
        else "Once it is full, nothing can be changed.",
        "Make room on this disk, or move the database to another one.",
    )


def _of_processes(facts: Facts) -> Iterator[Problem]:
    alive = []
    for row in facts.processes:
        age = seconds_since(row["seen_at"], facts.now)
        if age <= SILENT_AFTER:
            alive.append(row)
            continue
        yield Problem(
            "error",
            "server_process",
            row["id"],
            f"the {row['kind']} process {row['pid']} on {row['host']} has not written for {age:.0f} s",
            "It was killed, hangs, or cannot reach the database; its server may be down.",
            f"Look at the server's log on {row['host']}. If it is gone for good, its row is removed within an hour.",
            row["host"],
        )
    if facts.agents and not any(row["kind"] == FEED for row in alive):
        yield Problem(
            "error",
            "feed",
            "",
            "no feed process runs",
            "Hosts receive no changes and their reports are lost: new ports stay DOWN.",
            "Set [feed] run = true on a server, or run neutrino feed.",
        )
    releases = sorted({row["release"] for row in alive})
    if len(releases) > 1:
        yield Problem(
            "warning",
            "server_process",
            "",
            f"the servers run different releases: {', '.join(releases)}",
            "Accepted during an upgrade; features of the newer release depend on which server responds.",
            "Complete the upgrade of all servers.",
        )


# --- hosts ------------------------------------------------------------------------------------------------------------


def of_agent(agent: Row, now: float, down_time: float) -> Iterator[Problem]:
    """The problems of one agent. Of one that is dead the rest of its last report is not repeated: it is out of date."""
    kind, host, configurations = agent["agent_type"], agent["host"], agent["configurations"]

    def problem(severity: Literal["error", "warning"], what: str, meaning: str, fix: str) -> Problem:
        return Problem(severity, "agent", agent["id"], f"{kind} on {host}: {what}", meaning, fix, host)

    age = seconds_since(agent["heartbeat_timestamp"], now)
    if age > down_time:
        yield problem(
            "error",
            f"no report for {age:.0f} s",
            "Existing traffic continues, but the host applies no changes, and nothing new is placed there.",
            "Start the agent (neutrino agent) and run neutrino doctor on the host. "
            "If the host is gone for good, delete the agent: openstack network agent delete.",
        )
        return
    is_up, reason = dataplane(configurations)
    if is_up is False and reason != words.HELD:  # else the cause is among the problems below
        yield problem(
            "error",
            f"the dataplane is down: {reason or 'no reason reported'}",
            "Ports on this host may be cut off, and changes do not reach them; new ports are still bound there.",
            "Start Open vSwitch on the host; neutrino doctor there names what is missing.",
        )
    behind = configurations.get(words.FEED_BEHIND)
    if isinstance(behind, int) and behind > LAG:
        yield problem(
            "warning",
            f"{behind} changes behind",
            "The host has not applied the newest state yet.",
            "Wait a minute. If the number grows, look for slow or failing work in the agent's log.",
        )
    respawned = configurations.get(words.RESPAWNED)
    for name, text in sorted(respawned.items()) if isinstance(respawned, dict) else ():
        yield problem(
            "warning",
            f"{name}: {text}",
            "The daemon exited by itself: what it serves was interrupted until it ran again.",
            "Its log on the host has the reason. One that is killed again and again has a fault, or the host lacks memory.",
        )
    named = configurations.get(words.PROBLEMS)
    for name, text in sorted(named.items()) if isinstance(named, dict) else ():
        if name.startswith(words.HELD):
            yield problem(
                "error",
                f"{name}: {text}",
                "The host is not the agent's own, or the server is not: the agent changes nothing there.",
                "Remove the cause; the agent then goes on by itself. The text names the option that proceeds nevertheless.",
            )
            continue
        yield problem(
            "error",
            f"{name}: {text}",
            "This object is not, or not completely, applied on the host.",
            "The text states the cause. The agent retries; neutrino agent --dry-run on the host shows what is left to do.",
        )


def _of_refused_hosts(facts: Facts, down_time: float) -> Iterator[Problem]:
    """Hosts whose credential the feed refuses, by the rows of feed processes."""
    alive = {
        agent["host"] for agent in facts.agents if seconds_since(agent["heartbeat_timestamp"], facts.now) <= down_time
    }
    last: dict[str, tuple[float, str]] = {}
    for row in facts.processes:
        is_fresh = row["kind"] == FEED and seconds_since(row["seen_at"], facts.now) <= SILENT_AFTER
        refused = row["details"].get("refused_hosts") if is_fresh else None
        for host, each in refused.items() if isinstance(refused, dict) else ():
            last[host] = max(last.get(host, (0.0, "")), (float(each["at"]), str(each["address"])))
    for host, (at, address) in sorted(last.items()):
        yield Problem(
            "warning" if host in alive else "error",  # alive: just rotated, or another machine uses its name
            "agent",
            "",
            f"host {host}: a login from {address} was refused {max(0.0, facts.now - at):.0f} s ago: wrong credential",
            "A host without a valid credential receives no changes, and its reports are lost.",
            "Write what neutrino host rotate prints to [feed] credential_file on the host: its agent reads the file again "
            "at its next attempt. If the host is connected, find out which machine uses its name.",
            host,
        )


def _of_tunnel_addresses(facts: Facts, down_time: float) -> Iterator[Problem]:
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for agent in facts.agents:
        address = agent["configurations"].get(words.TUNNELING_IP)
        is_alive = seconds_since(agent["heartbeat_timestamp"], facts.now) <= down_time
        if agent["agent_type"] == words.OVS and isinstance(address, str) and address and is_alive:
            hosts[address].append(agent["host"])
    for address, names in sorted(hosts.items()):
        if len(names) > 1:
            yield Problem(
                "error",
                "agent",
                "",
                f"hosts {', '.join(names)} have the same tunnel address {address}",
                "Tunnelled packets for either host reach only one of them.",
                "Set [ovs] local_ip to the own address of each host, and restart its agent.",
            )


def _of_advertisements(facts: Facts, down_time: float) -> Iterator[Problem]:
    """keepalived ignores advertisements whose interval is not its own."""
    hosts: defaultdict[int, list[str]] = defaultdict(list)
    for agent in facts.agents:
        interval = agent["configurations"].get(words.HA_VRRP_ADVERT_INT)
        is_alive = seconds_since(agent["heartbeat_timestamp"], facts.now) <= down_time
        if agent["agent_type"] == words.L3 and isinstance(interval, int) and is_alive:
            hosts[interval].append(agent["host"])
    if len(hosts) > 1:
        values = (f"{interval} on {', '.join(sorted(names))}" for interval, names in sorted(hosts.items()))
        yield Problem(
            "error",
            "agent",
            "",
            f"hosts have different values of ha_vrrp_advert_int: {'; '.join(values)}",
            "A new HA router on hosts with different values is active on all of them at once.",
            "Set ha_vrrp_advert_int to one value on all hosts, and restart their agents: existing routers keep theirs.",
        )


# --- objects ----------------------------------------------------------------------------------------------------------


def _of_objects(facts: Facts) -> Iterator[Problem]:
    failed = sum(number for _, vif_type, number in facts.ports if vif_type == BINDING_FAILED)
    yield from _listed(
        "port",
        facts.named["failed_ports"],
        "the binding failed",
        "No driver could connect the port on its host, so its instance has no network.",
        "Check that the host's L2 agent is alive and has a mapping or tunnel type for the network, "
        "then set the port's host again (openstack port set --host).",
        failed,
    )
    yield from _listed(
        "network",
        facts.named["networks_without_dhcp"],
        "it has DHCP, and no DHCP agent serves it",
        "Its instances get no address by DHCP.",
        "Start an agent with the role dhcp (in a zone of the network's hints), "
        "or place it: openstack network agent add network --dhcp.",
    )
    yield from _listed(
        "router",
        facts.named["routers_without_agent"],
        "no L3 agent hosts it",
        "It routes nothing: its networks are not connected.",
        "Start an agent with the role l3 whose agent_mode fits the router; neutrino db verify gives the reason.",
    )
    for row in facts.named["ha_routers"]:
        number = int(row["actives"] or 0)
        yield Problem(
            "error",
            "router",
            row["id"],
            f"router {_name(row)}: {'no instance is active' if not number else f'{number} instances are active'}",
            "It routes nothing until an instance becomes active." if not number else "Its addresses are on two hosts.",
            "Check that its hosts reach each other on the HA network, and keepalived's log on them.",
        )
    for key, kind in (("routers_in_error", "router"), ("floatingips_in_error", "floatingip")):
        yield from _listed(
            kind,
            facts.named[key],
            "its status is ERROR",
            "Its host could not apply it.",
            "The problems of the host's L3 agent state the cause.",
        )


def _listed(
    kind: str, rows: Sequence[Row], what: str, meaning: str, fix: str, total: int | None = None
) -> Iterable[Problem]:
    """A problem for each of the objects, and one for those that are not listed."""
    for row in rows:
        where = f" (host {row['host']})" if row.get("host") else ""
        yield Problem(
            "error", kind, row["id"], f"{kind} {_name(row)}{where}: {what}", meaning, fix, row.get("host", "")
        )
    if total is not None and total > len(rows):
        yield Problem("error", kind, "", f"{total - len(rows)} more {kind}s: {what}", meaning, fix)
    elif total is None and len(rows) == NAMED:
        yield Problem("error", kind, "", f"possibly more {kind}s: {what}", meaning, fix)


def _name(row: Row) -> str:
    return f"{row['name']} ({row['id']})" if row["name"] else str(row["id"])
