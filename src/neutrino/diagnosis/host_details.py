"""The document of `GET /v2.0/hosts/{name}`: agents, problems, links and tunnels of one host. Pure.

A tunnel carries packets while both its hosts report, their switches work, and the links of their underlays are up: that is
what hosts measure. Agents send no probes through tunnels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from neutrino.diagnosis.facts import AgentRow, Facts
from neutrino.diagnosis.problems import Finding
from neutrino.diagnosis.status import host_document
from neutrino.model.agents import FEED_BEHIND, LAST_REPAIR, LINKS, OVS, TUNNEL_TYPES, TUNNELING_IP
from neutrino.model.objects import Object

MAX_TUNNELS: Final = 1000
UNDERLAY: Final = "underlay"  # `use` of a link
UP, DOWN, UNKNOWN = "up", "down", "unknown"


def document(facts: Facts, findings: Sequence[Finding], name: str, peers: Iterable[str]) -> Object | None:
    """`peers`: hosts with ports on its tunnel networks. None: there is no such host."""
    agents = [agent for agent in facts.agents if agent.host == name]
    if not agents:
        return None
    repairs = [agent.configurations.get(LAST_REPAIR) for agent in agents]
    behind = [value for agent in agents if isinstance(value := agent.configurations.get(FEED_BEHIND), int)]
    links = [agent.configurations.get(LINKS) for agent in agents]
    tunnels = _tunnels(facts, name, peers)
    return {
        **host_document(name, agents, facts),
        "problems": [asdict(finding) for finding in findings if finding.host == name],
        "feed_behind": max(behind, default=None),
        "last_repair": next((repair for repair in repairs if repair), None),
        "links": next((each for each in links if isinstance(each, dict)), {}),
        "tunnels": tunnels[:MAX_TUNNELS],
        "tunnels_total": len(tunnels),
    }


def _tunnels(facts: Facts, name: str, peers: Iterable[str]) -> list[Object]:
    """The tunnels of a host, those that do not work first."""
    switches = {agent.host: agent for agent in facts.agents if agent.agent_type == OVS}
    own = switches.get(name)
    if own is None or not _address(own):
        return []
    here = tunnel_end(own, facts)
    found = []
    for host in sorted(set(peers) - {name}):
        peer = switches.get(host)
        types = _types(own) & _types(peer) if peer is not None else set()
        if peer is None or not _address(peer) or not types:
            continue
        there = tunnel_end(peer, facts)
        state, reason = next((end for end in (here, there) if end[0] == DOWN), here if here[0] == UNKNOWN else there)
        found.append(
            {"host": host, "address": _address(peer), "types": sorted(types), "state": state, "reason": reason}
        )
    return sorted(found, key=lambda tunnel: ((DOWN, UNKNOWN, UP).index(str(tunnel["state"])), str(tunnel["host"])))


def tunnel_end(agent: AgentRow, facts: Facts) -> tuple[str, str]:
    """The state of the host's end of all its tunnels, with the reason."""
    if not facts.is_alive(agent):
        return UNKNOWN, f"{agent.host} does not report"
    is_up, reason = agent.dataplane()
    if is_up is False:
        return DOWN, f"the dataplane of {agent.host} is down: {reason}"[:300]
    links = agent.configurations.get(LINKS)
    for device, link in (links if isinstance(links, dict) else {}).items():
        if isinstance(link, dict) and link.get("use") == UNDERLAY and link.get("state", UP) != UP:
            return DOWN, f"link {str(device)[:64]} of {agent.host}: {str(link['state'])[:64]}"
    return UP, ""


def _address(agent: AgentRow) -> str:
    address = agent.configurations.get(TUNNELING_IP)
    return address if isinstance(address, str) else ""


def _types(agent: AgentRow) -> set[str]:
    types = agent.configurations.get(TUNNEL_TYPES)
    return {each for each in types if isinstance(each, str)} if isinstance(types, list) else set()
