"""Works of many hosts: started in batches, and awaited by repeated questions.

    next batch ──▶ ask each host: its phase, a ticket ──▶ start with the ticket ──▶ ask until all have ended ──┐
        ▲                                                                                                      │
        └────────────────── unless a host was given back: something may be wrong that all hosts have ──────────┘

Nothing here is needed by a conversion that has begun: it goes on when this command ends, and the next one awaits it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from neutrino.model.takeover import CHANGING, QUERY, Action, HostTakeover, Question, WorkState, line
from neutrino.server.hosts.queries import NoAnswer, Reason
from neutrino.takeover.fleet.order import Batch, Layout, next_batch

POLL_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 120.0  # without an answer of a host whose work was seen: the command gives it up, not the host
ARRIVAL_SECONDS: Final = 15.0  # a start whose answer was lost may still arrive
WORK_SECONDS: Final = 1800.0  # far more than an agent takes for any work before it gives up by itself
MAX_LINES: Final = 2500  # of one host: more than an agent keeps
_CONVERTED: Final = "converted"
_BUSY: Final = ("converting", "returning")


class Result(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # nothing was changed
    GIVEN_BACK = "given back"  # the conversion has failed
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"  # the work goes on, or the agent was restarted
    LEFT = "not begun"


@dataclass(frozen=True)
class Outcome:
    host: str
    result: Result
    text: str = ""
    lines: Sequence[str] = ()  # what the host has said


class Asks(Protocol):
    """`HostQueries` as it is used here."""

    def ask_all(self, kind: str, questions: Mapping[str, bytes], seconds: float) -> dict[str, bytes | NoAnswer]: ...


@dataclass
class _Begun:
    """A work of a host that is awaited."""

    id: str
    started: float
    answered: float  # when, last
    is_confirmed: bool = False  # the host has answered that it has begun
    lines: list[str] = field(default_factory=list)


@dataclass
class Fleet:
    asks: Asks
    action: Action
    done: Callable[[Outcome], None]  # takes each outcome at once
    say: Callable[[str], None]
    stop_agents: bool = False
    batch: int = 50
    timer: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self, hosts: Iterable[str], read_layout: Callable[[], Layout]) -> list[Outcome]:
        """The layout is read before each batch: HA routers may have moved."""
        waiting, outcomes = {*hosts}, list[Outcome]()
        while waiting:
            layout = read_layout() if self.action in CHANGING else Layout()
            batch = next_batch(waiting, layout, self.batch)
            for warning in batch.warnings:
                self.say(f"warning: {warning}")
            found = self._run_batch(batch, layout)
            outcomes += found
            waiting -= {*batch.hosts}
            if waiting and self.action in CHANGING and any(one.result in _STOPPING for one in found):
                outcomes += [self._done(Outcome(host, Result.LEFT, _NOT_BEGUN)) for host in sorted(waiting)]
                break
        return outcomes

    def _run_batch(self, batch: Batch, layout: Layout) -> list[Outcome]:
        outcomes = list[Outcome]()
        tickets = dict[str, str]()
        peers = layout.peers(batch.hosts)
        seen = self._ask({host: Question(action=self.action) for host in (*batch.hosts, *peers)})
        busy = {host for host in peers if _is_busy(seen[host])}
        begun = dict[str, _Begun]()
        for host in batch.hosts:
            answer = seen[host]
            if isinstance(answer, Outcome):
                outcomes.append(self._done(answer))
            elif answer.work is not None and answer.work.status is None:
                self.say(f"{host}: it runs already, since {answer.work.seconds:.0f} s")
                begun[host] = self._begun(answer.work.id, is_confirmed=True)
            elif self.action is Action.CONVERT and answer.phase == _CONVERTED:
                outcomes.append(self._done(Outcome(host, Result.DONE, "converted before")))
            elif self.action is Action.BACK and not answer.phase:
                outcomes.append(self._done(Outcome(host, Result.DONE, "not converted: there is nothing to give back")))
            elif several := sorted(busy & layout.peers([host])):
                text = f"{several[0]}, which has the same HA router, is being converted or given back: run this again later"
                outcomes.append(self._done(Outcome(host, Result.REFUSED, text)))
            else:
                tickets[host] = answer.ticket
        starts = {
            host: Question(action=self.action, ticket=ticket, stop_agents=self.stop_agents)
            for host, ticket in tickets.items()
        }
        for host, answer in self._ask(starts).items():
            if isinstance(answer, HostTakeover) and answer.refused:
                outcomes.append(self._done(Outcome(host, Result.REFUSED, line(answer.refused))))
            elif isinstance(answer, HostTakeover) and _is_ours(answer.work, tickets[host]):
                begun[host] = self._begun(answer.work.id if answer.work else "", is_confirmed=True)
            elif isinstance(answer, Outcome) and answer.result is Result.REFUSED:
                outcomes.append(self._done(answer))
            else:  # it may have begun, and the answer was lost
                begun[host] = self._begun(tickets[host])
        return outcomes + self._await(begun)

    def _begun(self, key: str, *, is_confirmed: bool = False) -> _Begun:
        now = self.timer()
        return _Begun(key, now, now, is_confirmed)

    def _await(self, begun: dict[str, _Begun]) -> list[Outcome]:
        outcomes = list[Outcome]()
        while begun:
            answers = self._ask({h: Question(action=self.action, after=len(one.lines)) for h, one in begun.items()})
            for host, answer in answers.items():
                outcome = self._look(host, begun[host], answer)
                if outcome is not None:
                    del begun[host]
                    outcomes.append(self._done(outcome))
            if begun:
                self.sleep(POLL_SECONDS)
        return outcomes

    def _look(self, host: str, begun: _Begun, answer: HostTakeover | Outcome) -> Outcome | None:
        """The outcome if the work has ended."""
        now = self.timer()
        if isinstance(answer, Outcome):
            if now - begun.answered < SILENT_SECONDS:
                return None
            text = f"no answer for {now - begun.answered:.0f} s: {answer.text}. What has begun goes on: run this again"
            return Outcome(host, Result.UNKNOWN, text, begun.lines)
        begun.answered = now
        if now - begun.started > WORK_SECONDS:
            text = f"it says that it runs still, after {now - begun.started:.0f} s: look at the host"
            return Outcome(host, Result.UNKNOWN, text, begun.lines)
        work = answer.work
        if work is None or work.id != begun.id:
            return self._restarted(host, begun, answer)
        begun.is_confirmed = True
        begun.lines += [line(one) for one in work.lines[: MAX_LINES - len(begun.lines)]]
        has_more = bool(work.lines) and len(begun.lines) < min(work.total, MAX_LINES)
        return None if work.status is None or has_more else _ended(host, work, begun.lines)

    def _restarted(self, host: str, begun: _Begun, answer: HostTakeover) -> Outcome | None:
        """The agent does not know the work: it never got the question, or was restarted, and goes on by itself."""
        if answer.work is not None and answer.work.status is None:
            begun.id = answer.work.id
            return None
        if self.action is Action.CONVERT and answer.phase == _CONVERTED:
            return Outcome(host, Result.DONE, "converted; its agent was restarted meanwhile", begun.lines)
        if self.action is Action.BACK and begun.is_confirmed and not answer.phase:
            return Outcome(host, Result.DONE, "given back; its agent was restarted meanwhile", begun.lines)
        if answer.phase in _BUSY:
            return None
        if not begun.is_confirmed:
            if self.timer() - begun.started < ARRIVAL_SECONDS:
                return None
            return Outcome(host, Result.REFUSED, "it has not begun: the question was lost. Run this again")
        return Outcome(
            host, Result.UNKNOWN, "its agent was restarted, and knows nothing of it: run this again", begun.lines
        )

    def _ask(self, questions: Mapping[str, Question]) -> dict[str, HostTakeover | Outcome]:
        """By host the answer, or why there is none."""
        encoded = {host: msgspec.json.encode(question) for host, question in questions.items()}
        answers = self.asks.ask_all(QUERY, encoded, ANSWER_SECONDS) if encoded else {}
        return {host: _read(host, answer) for host, answer in answers.items()}

    def _done(self, outcome: Outcome) -> Outcome:
        self.done(outcome)
        return outcome


_STOPPING: Final = frozenset({Result.GIVEN_BACK, Result.UNKNOWN})
_NOT_BEGUN: Final = (
    "a host of an earlier batch was given back, or does not answer any more: look at it, and run this again"
)


def _read(host: str, answer: bytes | NoAnswer) -> HostTakeover | Outcome:
    if isinstance(answer, NoAnswer):
        is_there = answer.reason in (Reason.ERROR, Reason.BUSY)  # as of an agent that is older
        return Outcome(host, Result.REFUSED if is_there else Result.UNREACHABLE, line(str(answer)))
    try:
        return msgspec.json.decode(answer, type=HostTakeover)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return Outcome(host, Result.REFUSED, line(f"the answer of host {host} cannot be read: {error}"))


def _ended(host: str, work: WorkState, lines: Sequence[str]) -> Outcome:
    failure = Result.GIVEN_BACK if work.given_back else Result.REFUSED
    return Outcome(host, failure if work.status else Result.DONE, line(work.text), lines)


def _is_ours(work: WorkState | None, ticket: str) -> bool:
    """Whether it was started with the ticket, or is one that another command has started just before."""
    return work is not None and (work.id == ticket or work.status is None)


def _is_busy(answer: HostTakeover | Outcome) -> bool:
    return isinstance(answer, HostTakeover) and (
        answer.phase in _BUSY or (answer.work is not None and answer.work.status is None)
    )


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How many hosts there are of each result, with the hosts of each reason."""
    for result in Result:
        several = [one for one in outcomes if one.result is result]
        if not several:
            continue
        yield f"{len(several)} {result}"
        if result is Result.DONE:
            continue
        reasons: dict[str, list[str]] = {}
        for one in several:
            reasons.setdefault(one.text, []).append(one.host)
        for text, hosts in reasons.items():
            yield f"  {', '.join(sorted(hosts))}: {text}"


def status_of(outcomes: Sequence[Outcome]) -> int:
    """0: all are done; 3: no host answers; 1 otherwise."""
    if all(one.result is Result.DONE for one in outcomes):
        return 0
    return 3 if all(one.result is Result.UNREACHABLE for one in outcomes) else 1
