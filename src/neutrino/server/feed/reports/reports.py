"""Reports of hosts, written to the database. `batches.py` makes the batches.

`rules.py` has refused invalid messages before, and those on agents of other hosts. A report on a port that is not
bound to the host changes nothing.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Protocol

from neutrino.feed.messages import (
    Answer,
    ErrorMessage,
    HostReport,
    PortDown,
    PortReady,
    PortUp,
    Rates,
    Report,
    Status,
    Traffic,
)
from neutrino.model.agents import AgentState
from neutrino.server.feed.reports.batches import HostReports
from neutrino.server.feed.reports.rules import one_line
from neutrino.server.hosts.registry import AgentReport, Registry
from neutrino.server.ml2.ports.provisioning import L2, Done, Ready

LOG = logging.getLogger(__name__)
AGENTS_PER_TRANSACTION = 200
HOST_SECONDS = 0.5  # of one write for the reports of one host; the others are left for the next one
TakeStatus = Callable[[str, Status], object]  # takes the host and its message
TakeRates = Callable[[Sequence[tuple[str, Rates]]], object]  # takes what several hosts have counted
TakeTraffic = Callable[[str, Traffic], object]  # takes the host and the counters of its routers


class PortReports(Protocol):
    """Takes what hosts report of ports: the core's provisioning, or a feature for ports of its own."""

    def complete_all(self, done: Sequence[Done], component: str) -> object: ...
    def ready_all(self, reports: Sequence[Ready]) -> object: ...
    def plugged(self, port_id: str, host: str) -> bool: ...
    def lost(self, port_id: str, host: str) -> bool: ...


def one_word(set_status: Callable[[str, str, str], object]) -> TakeStatus:
    """A handler of messages whose status is all that they have; `set_status` takes host, id and status."""
    return lambda host, message: set_status(host, message.id, message.status)


@dataclass(frozen=True)
class Reports:
    """Writes reports to the database; blocking."""

    agents: Registry
    reported: Callable[[AgentReport], object]  # notifies schedulers
    ports: PortReports
    statuses: Mapping[str, TakeStatus]  # by kind
    settle: Callable[[], object] = lambda: None  # catches up with what the reports have changed
    answered: Callable[[str, Answer], object] = lambda host, answer: None  # takes the answers to queries
    traffic: TakeTraffic = lambda host, message: None
    rates: TakeRates = lambda reports: None
    clock: Callable[[], float] = time.monotonic

    def write(self, batch: Sequence[HostReports]) -> list[list[str]]:
        """Write reports, each host's in its order; for each the reason of a refusal, or an empty text.

        Agent states and rates of all hosts are written together, and so are consecutive `port_up` and `port_ready`
        messages. Of a host whose time is up the later ones are not written, and have no answer.
        """
        every = [(host, message) for host, messages in batch for message in messages]
        refusals = self._write_states([message for _, message in every if isinstance(message, Report)])
        if rates := [(host, message) for host, message in every if isinstance(message, Rates)]:
            self.rates(rates)
        others = [(host, message) for host, message in every if not isinstance(message, Report | Rates)]
        left = self._write_others(others)
        return [
            [
                refusals.get(host, "") if isinstance(m, Report) else ""
                for m in takewhile(lambda m: id(m) not in left, some)
            ]
            for host, some in batch
        ]

    def _write_others(self, messages: Sequence[tuple[str, HostReport]]) -> set[int]:
        """Write what is no agent state; identities of the messages that are left, as the time of their hosts is up."""
        spent, left = defaultdict[str, float](float), set[int]()
        for is_progress, run in groupby(messages, lambda one: _is_progress(one[1])):
            in_time = list[tuple[str, HostReport]]()
            for host, message in run:
                if spent[host] >= HOST_SECONDS:
                    left.add(id(message))
                elif is_progress:
                    in_time.append((host, message))
                else:
                    began = self.clock()
                    self._write_one(host, message)
                    spent[host] += self.clock() - began
            if in_time:
                self._write_progress(in_time)
        return left

    def _write_progress(self, messages: Sequence[tuple[str, HostReport]]) -> None:
        """Write which components have finished their work for ports. Each of a port removes its own block, in any order."""
        if done := [Done(m.port_id, host, m.revision) for host, m in messages if isinstance(m, PortUp)]:
            self.ports.complete_all(done, L2)
        if ready := [Ready(m.port_id, host, m.revision) for host, m in messages if isinstance(m, PortReady)]:
            self.ports.ready_all(ready)

    def _write_one(self, host: str, message: object) -> None:
        match message:
            case PortUp():  # of an inactive binding
                self.ports.plugged(message.port_id, host)
            case PortDown():
                if self.ports.lost(message.port_id, host):
                    LOG.info("port %s is down on host %s: %s", message.port_id, host, one_line(message.reason))
            case Status():
                if take := self.statuses.get(message.kind):  # none without the plugin of the kind
                    take(host, message)
            case Traffic():
                self.traffic(host, message)
            case Answer():
                self.answered(host, message)
            case ErrorMessage():
                subject = " ".join((message.kind, message.id)).strip() or "no object named"
                LOG.warning("host %s reports an error (%s): %s", host, one_line(subject), one_line(message.text))

    def _write_states(self, reports: Sequence[Report]) -> dict[str, str]:
        """Write the states of agents; by host the reason why one of them is not stored as it was sent."""
        newest: dict[tuple[str, str], AgentState] = {}
        for state in (state for report in reports for state in report.states):
            # The newest wins, but a start in an earlier one is kept: schedulers act on it.
            earlier = newest.get((state.agent_type, state.host))
            started = state.start_flag or (earlier is not None and earlier.start_flag)
            newest[state.agent_type, state.host] = replace(state, start_flag=started)
        every, refusals = list(newest.values()), dict[str, str]()
        for start in range(0, len(every), AGENTS_PER_TRANSACTION):
            for written in self.agents.report_all(every[start : start + AGENTS_PER_TRANSACTION]):
                if written.refusal:
                    refusals[written.host] = written.refusal
                self.reported(written)
        return refusals


def _is_progress(message: HostReport) -> bool:
    """Whether the message says that a component has finished its work for a port."""
    return isinstance(message, PortReady) or (isinstance(message, PortUp) and not message.inactive)
