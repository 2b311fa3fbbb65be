"""What the server does with what hosts say. Blocking: it writes to the database.

A host speaks for itself alone: a report of another host's agent, or of a port that is not bound to it, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from neutrino.feed.messages import PortDown, PortUp, Problem, Report
from neutrino.model.agents import AgentState, BadReport
from neutrino.server.hosts import registry
from neutrino.server.ml2.provisioning import L2

LOG = logging.getLogger(__name__)
FEED_BEHIND: Final = "feed_behind"  # in an agent's configurations: how many positions it has still to carry out


class Agents(Protocol):
    def report_all(self, states: Sequence[AgentState]) -> list[registry.Report]: ...


class Ports(Protocol):
    def complete(self, port_id: str, component: str, host: str) -> bool: ...
    def lost(self, port_id: str, host: str) -> bool: ...


class Reports:
    def __init__(self, agents: Agents, reported: Callable[[registry.Report], Any], ports: Ports) -> None:
        self._agents = agents
        self._reported = reported
        self._ports = ports

    def take(self, host: str, message: object, behind: int = 0) -> str:
        """Do what a message asks; why it was not done, or an empty text."""
        if isinstance(message, Report):
            return self._report(host, message, behind)
        if isinstance(message, PortUp):
            self._ports.complete(message.port_id, L2, host)
        elif isinstance(message, PortDown):
            if self._ports.lost(message.port_id, host):
                LOG.info("port %s is down on %s: %s", message.port_id, host, message.reason)
        elif isinstance(message, Problem):
            LOG.warning("host %s could not do %s %s: %s", host, message.kind, message.id, message.text)
        return ""

    def _report(self, host: str, message: Report, behind: int) -> str:
        foreign = {state.host for state in message.states} - {host}
        if foreign:
            return f"host {host} cannot report for {', '.join(sorted(foreign))}"
        if not message.states:
            return ""
        states = [replace(s, configurations=_with_behind(s.configurations, behind)) for s in message.states]
        try:
            reports = self._agents.report_all(states)
        except BadReport as error:
            return str(error)
        for report in reports:
            self._reported(report)
        return ""


def _with_behind(configurations: Mapping[str, Any], behind: int) -> dict[str, Any]:
    return {**configurations, FEED_BEHIND: behind}
