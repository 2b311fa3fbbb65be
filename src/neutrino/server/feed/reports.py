"""What the server does with what hosts say. Blocking: it writes to the database.

A host speaks for itself alone: a report of another host's agent, or of a port that is not bound to it, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

from neutrino.feed.messages import PortDown, PortReady, PortUp, Problem, Report, Status
from neutrino.model.agents import FEED_BEHIND, AgentState, BadReport, checked
from neutrino.server.hosts import registry
from neutrino.server.ml2.ports.provisioning import L2, Done

LOG = logging.getLogger(__name__)
MOST_TEXT = 2000
BATCH = 200  # agents whose reports are one transaction


@dataclass(frozen=True, eq=False, slots=True)
class Said:
    """A message, and how many positions its host has still to carry out."""

    message: Any
    behind: int = 0


Heard = tuple[str, Sequence[Said]]  # from which host, and what


class Agents(Protocol):
    def report_all(self, states: Sequence[AgentState]) -> list[registry.Report]: ...


class Ports(Protocol):
    def complete_all(self, done: Iterable[Done], component: str) -> set[str]: ...
    def ready(self, port_id: str, component: str, revision: int, host: str) -> bool: ...
    def lost(self, port_id: str, host: str) -> bool: ...


class Statuses(Protocol):
    def set_status(self, host: str, kind: str, key: str, status: str) -> bool: ...


class Reports:
    def __init__(
        self,
        agents: Agents,
        reported: Callable[[registry.Report], Any],
        ports: Ports,
        statuses: Statuses,
        settle: Callable[[], Any] = lambda: None,
    ) -> None:
        """`settle` makes what hosts need for distributed routers, and takes away what they need no longer."""
        self.settle = settle
        self._agents = agents
        self._reported = reported
        self._ports = ports
        self._statuses = statuses

    def take_all(self, several: Sequence[Heard]) -> list[list[str]]:
        """Do what hosts say, each in its order; for every message why it was not done, or an empty text.

        However many hosts speak at once, their reports are one write, and so are ports that come up one after the other.
        """
        answers: dict[int, str] = {}
        reports = [(host, said) for host, every in several for said in every if isinstance(said.message, Report)]
        for (_, said), answer in zip(reports, self._report_all(reports), strict=True):
            answers[id(said)] = answer
        ports = [(host, said) for host, every in several for said in every if not isinstance(said.message, Report)]
        for is_up, run in groupby(ports, lambda one: isinstance(one[1].message, PortUp)):
            if is_up:
                up = ((host, said.message) for host, said in run)
                self._ports.complete_all([Done(m.port_id, host, m.revision) for host, m in up], L2)
            else:
                for host, said in run:
                    self._take(host, said.message)
        return [[answers.get(id(said), "") for said in every] for _, every in several]

    def _take(self, host: str, message: object) -> None:
        if isinstance(message, PortReady):
            self._ports.ready(message.port_id, message.component, message.revision, host)
        elif isinstance(message, PortDown):
            if self._ports.lost(message.port_id, host):
                LOG.info("port %s is down on %s: %s", message.port_id, host, _one_line(message.reason))
        elif isinstance(message, Status):
            self._statuses.set_status(host, message.kind, message.id, message.status)
        elif isinstance(message, Problem):
            about = " ".join((message.kind, message.id)).strip() or "something"
            LOG.warning("host %s could not do %s: %s", host, _one_line(about), _one_line(message.text))

    def _report_all(self, reports: Sequence[tuple[str, Said]]) -> list[str]:
        answers = []
        good: dict[tuple[str, str], AgentState] = {}
        for host, said in reports:
            try:
                states = _checked(host, said)
            except (BadReport, NotItsOwn) as error:
                answers.append(str(error))
                continue
            answers.append("")
            for state in states:
                earlier = good.get((state.agent_type, host))
                has_started = state.start_flag or (earlier is not None and earlier.start_flag)
                good[state.agent_type, host] = replace(state, start_flag=has_started)
        every = list(good.values())
        refusals: dict[str, str] = {}  # by host
        for start in range(0, len(every), BATCH):
            for report in self._agents.report_all(every[start : start + BATCH]):
                if report.refusal:
                    refusals[report.host] = report.refusal
                self._reported(report)
        return [answer or refusals.get(host, "") for answer, (host, _) in zip(answers, reports, strict=True)]


class NotItsOwn(ValueError):
    """A host speaks for another."""


def _checked(host: str, said: Said) -> list[AgentState]:
    """A host's agents as they are to be shown, or BadReport, or NotItsOwn."""
    states = said.message.states
    foreign = {state.host for state in states} - {host}
    if foreign:
        raise NotItsOwn(f"host {host} cannot report for {', '.join(sorted(foreign))}")
    return [checked(replace(s, configurations={**s.configurations, FEED_BEHIND: said.behind})) for s in states]


def _one_line(text: str) -> str:
    """A host's words for our log, which are not to look like lines of our own."""
    return " ".join(text.split())[:MOST_TEXT]
