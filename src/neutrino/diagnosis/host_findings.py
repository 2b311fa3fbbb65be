"""Findings on hosts, from the facts in the server's database: agents, connections, logins. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from neutrino.diagnosis import host_problems
from neutrino.diagnosis.facts import LATE, LOGINS, REFUSED, UNKNOWN_LOGIN, WRONG_CREDENTIAL, AgentRow, Facts
from neutrino.diagnosis.problems import WARNING, Finding, Problem
from neutrino.model.agents import (
    AGENT_MODE,
    BGP_SESSION,
    FEED_BEHIND,
    FOREIGN,
    HA_CONNTRACKD,
    HA_VRRP_ADVERT_INT,
    HELD,
    L3,
    LINKS,
    NEUTRON_AGENT,
    OVS,
    PROBLEMS,
    RESPAWNED,
    SRIOV_CARD,
    SRIOV_PORT,
    TUNNELING_IP,
)

LAG: Final = 100  # positions: a host that is busy with many changes is a few behind, and catches up in a second
REPORTED: Final = 50  # entries of one kind that are read from a report


class Refusal(NamedTuple):
    """The last refused login of a host."""

    at: float
    address: str
    reason: str


def find(facts: Facts) -> Iterator[Finding]:
    """Yield all findings on hosts."""
    refused = _refusals(facts)
    for agents in _by_host(facts).values():
        yield from _host(agents, facts, refused)
    yield from _refused_hosts(refused, facts)
    yield from _unknown_logins(facts)
    yield from _tunnel_addresses(facts)
    yield from _vrrp_intervals(facts)
    yield from _conntrackd(facts)


def _by_host(facts: Facts) -> dict[str, list[AgentRow]]:
    hosts: defaultdict[str, list[AgentRow]] = defaultdict(list)
    for agent in facts.agents:
        hosts[agent.host].append(agent)
    return hosts


def _host(agents: Sequence[AgentRow], facts: Facts, refused: Mapping[str, Refusal]) -> Iterator[Finding]:
    """Yield the findings on the agents of one host. What has stopped all of them is one problem.

    If an agent is dead, the rest of its last report is not repeated: it is out of date.
    """
    first, alive = agents[0], [agent for agent in agents if facts.is_alive(agent)]
    connection = facts.connection(agents)
    if not alive and len(agents) > 1:
        age = min(facts.report_age(agent) for agent in agents)
        if first.host not in refused:  # else that is the cause
            text = f"host {first.host}: none of its {len(agents)} agents has reported for {age:.0f} s"
            yield host_problems.HOST_DOWN(text, "agent", first.id, first.host)
        return
    if alive and connection == LATE and first.host not in refused and not facts.reconnecting and facts.feeds:
        age = min(facts.report_age(agent) for agent in alive)
        text = f"host {first.host} has no connection to any feed; its last report was {age:.0f} s ago"
        yield host_problems.HOST_DISCONNECTED(text, "agent", first.id, first.host)
    for agent in agents:
        if agent in alive:
            yield from _agent(agent)
        elif agent.host not in refused:
            yield _finding(agent, host_problems.HOST_DOWN, f"no report for {facts.report_age(agent):.0f} s")


def _finding(agent: AgentRow, problem: Problem, what: str) -> Finding:
    return problem(f"{agent.agent_type} on {agent.host}: {what}", "agent", agent.id, agent.host)


def _agent(agent: AgentRow) -> Iterator[Finding]:
    """Yield the findings on one agent that is alive."""

    def finding(problem: Problem, what: str) -> Finding:
        return _finding(agent, problem, what)

    is_up, reason = agent.dataplane()
    if is_up is False and reason != HELD:  # else the cause is among the problems below
        yield finding(host_problems.DATAPLANE_DOWN, f"the dataplane is down: {reason or 'no reason reported'}")
    behind = agent.configurations.get(FEED_BEHIND)
    if isinstance(behind, int) and behind > LAG:
        yield finding(host_problems.LAG, f"{behind} changes behind")
    for device, link in _reported(agent, LINKS):
        if isinstance(link, dict) and link.get("state") != "up":
            text = f"{agent.host}: the link of {device} ({link.get('use')}) is down: {link.get('state')}"
            yield host_problems.LINK_DOWN(f"host {text}", "agent", agent.id, agent.host)
    for name, why in _reported(agent, RESPAWNED):
        yield finding(host_problems.DAEMON_RESPAWNED, f"{name}: {why}")
    for name, why in _reported(agent, PROBLEMS):
        yield finding(_problem_named(name), f"{name}: {why}")


def _problem_named(name: str) -> Problem:
    if name == NEUTRON_AGENT:
        return host_problems.NEUTRON_AGENT_RUNS
    if name.startswith(BGP_SESSION):
        return host_problems.BGP_SESSION_DOWN
    if name.startswith(SRIOV_CARD):
        return host_problems.SRIOV_CARD_FAULTY
    if name.startswith(SRIOV_PORT):
        return host_problems.SRIOV_PORT_INCOMPLETE
    if name.startswith(FOREIGN):
        return host_problems.FOREIGN_RULES
    return host_problems.AGENT_HELD if name.startswith(HELD) else host_problems.NOT_APPLIED


def _reported(agent: AgentRow, key: str) -> list[tuple[str, object]]:
    """Return the entries of a report's dictionary, in the order of their names.

    Not more than an agent of ours reports: a host that reports thousands would hide the problems of all others.
    """
    entries = agent.configurations.get(key)
    return sorted(entries.items())[:REPORTED] if isinstance(entries, dict) else []


def _refusals(facts: Facts) -> dict[str, Refusal]:
    """Return the hosts that a feed process refuses, by the rows of the processes.

    A host that a process has admitted since was refused with the credential that it had before.
    """
    last: dict[str, Refusal] = {}
    for process in facts.feeds:
        refused = process.details.get(REFUSED)
        for host, login in refused.items() if isinstance(refused, dict) else ():
            found = _refusal(login)
            last[host] = max(last.get(host, found), found)
    admitted: dict[str, float] = {}
    for process in facts.feeds:
        logins = process.details.get(LOGINS)
        for host, at in logins.items() if isinstance(logins, dict) else ():
            admitted[host] = max(admitted.get(host, 0.0), float(str(at)))
    return {
        host: refusal
        for host, refusal in last.items()
        if refusal.reason != WRONG_CREDENTIAL or admitted.get(host, 0.0) < refusal.at
    }


def _refusal(login: Mapping[str, object]) -> Refusal:
    return Refusal(float(str(login["at"])), str(login["address"]), str(login.get("reason", WRONG_CREDENTIAL)))


def _refused_hosts(refused: Mapping[str, Refusal], facts: Facts) -> Iterator[Finding]:
    alive = {agent.host for agent in facts.agents if facts.is_alive(agent)}
    for host, (at, address, reason) in sorted(refused.items()):
        age = max(0.0, facts.now - at)
        text = f"host {host}: a login from {address} was refused {age:.0f} s ago: {reason}"
        problem = host_problems.FEED_REFUSED if reason == WRONG_CREDENTIAL else host_problems.HOST_REFUSED
        finding = problem(text, "agent", host=host)
        # The credential of a host that is connected was just rotated, or another machine uses the host's name.
        is_well = host in alive and (facts.connected is None or host in facts.connected)
        yield replace(finding, severity=WARNING) if is_well else finding


def _unknown_logins(facts: Facts) -> Iterator[Finding]:
    """Yield the last login under a name that no host has: such names are not trusted, so there is one finding of all."""
    found = [login for process in facts.feeds if isinstance(login := process.details.get(UNKNOWN_LOGIN), dict)]
    for login in sorted(found, key=lambda login: float(login["at"]))[-1:]:
        age = max(0.0, facts.now - float(login["at"]))
        text = (
            f"a login as {login['name']!r} from {login['address']} was refused {age:.0f} s ago: there is no such host"
        )
        yield host_problems.UNKNOWN_HOST(text, "agent")


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


_HA_MODES = ("legacy", "dvr_snat")  # of agents that HA routers are scheduled to


def _vrrp_intervals(facts: Facts) -> Iterator[Finding]:
    """Compare the intervals of all hosts: keepalived ignores advertisements whose interval is not its own."""
    hosts: defaultdict[float, list[str]] = defaultdict(list)
    for agent in facts.agents:
        interval = agent.configurations.get(HA_VRRP_ADVERT_INT)
        if agent.agent_type == L3 and isinstance(interval, int | float) and facts.is_alive(agent):
            hosts[interval].append(agent.host)
    if len(hosts) > 1:
        values = (f"{interval} on {', '.join(sorted(names))}" for interval, names in sorted(hosts.items()))
        text = f"hosts have different values of ha_vrrp_advert_int: {'; '.join(values)}"
        yield host_problems.VRRP_INTERVALS_DIFFER(text, "agent")


def _conntrackd(facts: Facts) -> Iterator[Finding]:
    """Compare how hosts that may serve HA routers hand connections over."""
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for agent in facts.agents:
        group, mode = agent.configurations.get(HA_CONNTRACKD), agent.configurations.get(AGENT_MODE)
        if agent.agent_type == L3 and isinstance(group, str) and mode in _HA_MODES and facts.is_alive(agent):
            hosts[group].append(agent.host)
    if len(hosts) > 1:
        values = (f"{group or 'off'} on {', '.join(sorted(names))}" for group, names in sorted(hosts.items()))
        text = f"hosts have different settings of conntrackd for HA routers: {'; '.join(values)}"
        yield host_problems.CONNTRACKD_DIFFERS(text, "agent")
