"""Conversion of many hosts: their order, batches, and hosts that answer nothing, garbage, or too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from neutrino.agent.takeover.control import Answer
from neutrino.agent.takeover.conversion import Refused
from neutrino.agent.takeover.phase import Phase
from neutrino.agent.takeover.remote import Remote
from neutrino.agent.takeover.works import KEPT, TICKET_SECONDS, Works
from neutrino.model.takeover import MAX_LINES, Action, HostTakeover, Question, WorkState
from neutrino.server.hosts.queries import NoAnswer, Reason
from neutrino.takeover.fleet.order import HaRouter, Layout, next_batch, one_by_one
from neutrino.takeover.fleet.works import SILENT_SECONDS, WORK_SECONDS, Fleet, Outcome, Result, status_of, summary

# --- order ------------------------------------------------------------------------------------------------------------


def batches(hosts: set[str], layout: Layout, most: int = 50) -> tuple[list[list[str]], list[str]]:
    found, warnings, waiting = [], list[str](), {*hosts}
    while waiting:
        batch = next_batch(waiting, layout, most)
        assert batch.hosts, "a host must be next"
        found.append([*batch.hosts])
        warnings += batch.warnings
        waiting -= {*batch.hosts}
    return found, warnings


def test_network_nodes_come_first_and_standby_before_active() -> None:
    routers = [
        HaRouter("r1", {"n1": "active", "n2": "standby"}),
        HaRouter("r2", {"n1": "active", "n3": "standby"}),
        HaRouter("r3", {"n4": "standby", "n5": "standby"}),  # none is active at the moment
    ]
    layout = Layout(frozenset(("n1", "n2", "n3", "n4", "n5", "n6")), routers)
    hosts = {"c2", "c1", "c3", "n1", "n2", "n3", "n4", "n5", "n6"}
    assert batches(hosts, layout, 3) == ([["n2", "n3", "n4"], ["n5", "n6", "n1"], ["c1", "c2", "c3"]], [])
    assert batches({"n1", "c1"}, layout) == ([["n1"], ["c1"]], []), "n2 and n3 are not asked for"


def test_two_hosts_of_one_ha_router_are_never_converted_together() -> None:
    routers = [HaRouter(f"r{n}", {f"n{n}": "standby", f"n{n + 1}": "standby"}) for n in range(6)]
    layout = Layout(frozenset(f"n{n}" for n in range(7)), routers)
    found, _ = batches({*layout.network_nodes}, layout)
    for batch in found:
        assert layout.peers(batch).isdisjoint(batch)
    assert len(found) == 2


def test_one_by_one_the_active_host_follows_its_standby_hosts() -> None:
    layout = Layout(frozenset({"n1", "n2", "n3"}), [HaRouter("r", {"n1": "active", "n2": "standby", "n3": "standby"})])
    assert list(one_by_one({"c1", "n1", "n2", "n3"}, layout)) == ["n2", "n3", "n1", "c1"]


def test_hosts_that_are_active_for_each_others_routers_are_converted_with_a_warning() -> None:
    routers = [HaRouter("r1", {"n1": "active", "n2": "standby"}), HaRouter("r2", {"n1": "standby", "n2": "active"})]
    found, warnings = batches({"n1", "n2"}, Layout(frozenset(("n1", "n2")), routers))
    assert found == [["n1"], ["n2"]]
    assert len(warnings) == 1
    assert "n1 is active for routers that are standby on n2" in warnings[0]


# --- works of hosts ---------------------------------------------------------------------------------------------------


@dataclass
class FakeHost:
    """A host's answers: it needs some questions until its work has ended."""

    needs: int = 3
    status: int = 0
    given_back: bool = False
    phase: str = ""
    refuses: str = ""
    work: WorkState | None = None
    begun: int = 0

    def answer(self, question: Question) -> bytes | NoAnswer:
        refused = ""
        if question.ticket and (self.work is None or self.work.status is not None):
            refused = self.refuses
            if not refused:
                self.begun += 1
                self.work = WorkState(id=question.ticket, lines=("saved",), total=1)
                self.phase = "converting"
        elif self.work is not None and self.work.status is None and not question.ticket:
            self.needs -= 1
            if self.needs <= 0:
                self.phase = "" if self.status else "converted"
                self.work = replace_work(self.work, status=self.status, text="it ended", given_back=self.given_back)
        work = self.work
        if work is not None:
            work = replace_work(work, lines=work.lines[question.after :])
        return msgspec.json.encode(HostTakeover(phase=self.phase, ticket="t" * 32, work=work, refused=refused))


def replace_work(work: WorkState, **values: Any) -> WorkState:
    return msgspec.structs.replace(work, **values)


@dataclass
class FakeCloud:
    """Implements `Asks`; time passes with each pause."""

    hosts: dict[str, Any]
    now: float = 0.0
    most: int = 0  # hosts that were at work at once
    order: list[str] = field(default_factory=list)

    def ask_all(self, kind: str, questions: Mapping[str, bytes], seconds: float) -> dict[str, bytes | NoAnswer]:
        assert kind == "takeover"
        found: dict[str, bytes | NoAnswer] = {}
        for host, text in questions.items():
            question = msgspec.json.decode(text, type=Question)
            if question.ticket:
                self.order.append(host)
            answering = self.hosts.get(host)
            found[host] = (
                NoAnswer(host, Reason.TIMEOUT, f"host {host} has not answered")
                if answering is None
                else answering.answer(question)
            )
        at_work = [
            h for h in self.hosts.values() if isinstance(h, FakeHost) and h.work is not None and h.work.status is None
        ]
        self.most = max(self.most, len(at_work))
        return found

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(
    cloud: FakeCloud, *, layout: Layout | None = None, batch: int = 50, action: Action = Action.CONVERT
) -> list[Outcome]:
    done: list[Outcome] = []
    fleet = Fleet(
        cloud, action, done.append, lambda text: None, batch=batch, timer=lambda: cloud.now, sleep=cloud.sleep
    )
    outcomes = fleet.run(cloud.hosts, lambda: layout or Layout())
    assert done == outcomes or sorted(map(str, done)) == sorted(map(str, outcomes)), "each is told as it completes"
    return outcomes


def results(outcomes: list[Outcome]) -> dict[str, Result]:
    return {one.host: one.result for one in outcomes}


def test_hosts_are_converted_in_batches() -> None:
    cloud = FakeCloud({f"c{n:03}": FakeHost(needs=1 + n % 4) for n in range(200)})
    outcomes = run(cloud, batch=50)
    assert {*results(outcomes).values()} == {Result.DONE}
    assert len(outcomes) == 200
    assert cloud.most == 50
    assert all(host.begun == 1 for host in cloud.hosts.values())
    assert status_of(outcomes) == 0
    assert [*summary(outcomes)] == ["200 done"]


def test_results_and_exit_statuses() -> None:
    agents = "Neutron's agents run on this host: neutron-l3-agent"
    cloud = FakeCloud(
        {
            "a": FakeHost(),
            "b": FakeHost(refuses=agents),
            "c": None,
            "d": FakeHost(phase="converted"),
            "e": FakeHost(refuses=agents),
            "f": FakeHost(work=WorkState(id="by another command", lines=("saved",), total=1)),
        }
    )
    outcomes = run(cloud)
    assert results(outcomes) == {
        "a": Result.DONE,
        "b": Result.REFUSED,
        "c": Result.UNREACHABLE,
        "d": Result.DONE,
        "e": Result.REFUSED,
        "f": Result.DONE,
    }
    assert cloud.hosts["f"].begun == 0, "what another command has begun is awaited"
    assert f"  b, e: {agents}" in [*summary(outcomes)], "hosts with one reason are named together"
    assert status_of(outcomes) == 1
    assert status_of(run(FakeCloud({"x": None, "y": None}))) == 3


def test_no_batch_follows_one_with_a_host_that_was_given_back() -> None:
    cloud = FakeCloud({"a": FakeHost(), "b": FakeHost(status=1, given_back=True), "c": FakeHost(), "d": FakeHost()})
    outcomes = run(cloud, batch=2)
    assert results(outcomes) == {"a": Result.DONE, "b": Result.GIVEN_BACK, "c": Result.LEFT, "d": Result.LEFT}
    assert cloud.hosts["c"].begun == 0
    assert status_of(outcomes) == 1


def test_a_host_waits_while_another_host_of_its_ha_router_is_at_work() -> None:
    layout = Layout(frozenset(("n1", "n2")), [HaRouter("r", {"n1": "active", "n2": "standby"})])
    cloud = FakeCloud({"n1": FakeHost()})
    fleet_asks = FakeCloud({**cloud.hosts, "n2": FakeHost(phase="converting")})
    fleet = Fleet(fleet_asks, Action.CONVERT, lambda outcome: None, lambda text: None, sleep=fleet_asks.sleep)
    (outcome,) = fleet.run(["n1"], lambda: layout)
    assert outcome.result is Result.REFUSED
    assert "n2, which has the same HA router, is being converted" in outcome.text


class Mute(FakeHost):
    """Answers until its work has begun."""

    def answer(self, question: Question) -> bytes | NoAnswer:
        if self.work is not None and not question.ticket:
            return NoAnswer("h", Reason.DOWN, "no agent of host h is alive")
        return super().answer(question)


@dataclass
class Fixed:
    """The same answer to every question, as of a host that somebody else has taken over."""

    text: bytes
    asked: int = 0

    def answer(self, question: Question) -> bytes:
        self.asked += 1
        assert self.asked < 10_000, "the command would never end"
        return self.text


FOREVER = msgspec.json.encode(
    HostTakeover(ticket="t", work=WorkState(id="x", lines=("more",) * MAX_LINES, total=10**9))
)
ENDLESS = FOREVER.replace(b'"total"', b'"status":0,"total"')


@pytest.mark.parametrize(
    ("host", "result", "part"),
    [
        (Mute(), Result.UNKNOWN, f"no answer for {SILENT_SECONDS:.0f} s"),
        (Fixed(b"[]"), Result.REFUSED, "cannot be read"),
        (Fixed(b'{"phase": 7}'), Result.REFUSED, "cannot be read"),
        (Fixed(b'{"ticket":"' + b"x" * 2**20 + b'"}'), Result.REFUSED, "cannot be read"),
        (Fixed(b"\xff\x00"), Result.REFUSED, "cannot be read"),
        (Fixed(b'{"refused":"no \\u001b[2J\\u202e way"}'), Result.REFUSED, "no  [2J  way"),
        (Fixed(b'{"phase":"converting"}'), Result.UNKNOWN, "it says that it runs still"),
        (Fixed(b"{}"), Result.REFUSED, "it has not begun"),
        (Fixed(FOREVER), Result.UNKNOWN, "it says that it runs still"),
        (Fixed(ENDLESS), Result.REFUSED, "it has not begun"),
    ],
)
def test_hosts_that_answer_nothing_garbage_or_for_ever(host: Any, result: Result, part: str) -> None:
    cloud = FakeCloud({"h": host})
    (outcome,) = run(cloud)
    assert (outcome.result, part in outcome.text) == (result, True), outcome.text
    assert outcome.text.isprintable()
    assert cloud.now <= WORK_SECONDS + 10


def test_a_start_whose_answer_was_lost_is_awaited() -> None:
    class Losing(FakeHost):
        def answer(self, question: Question) -> bytes | NoAnswer:
            answer = super().answer(question)
            return NoAnswer("h", Reason.TIMEOUT, "lost") if question.ticket else answer

    host = Losing()
    (outcome,) = run(FakeCloud({"h": host}))
    assert (outcome.result, host.begun) == (Result.DONE, 1)


# --- the agent's side -------------------------------------------------------------------------------------------------


class FakeCommands:
    def __init__(self, works: Works) -> None:
        self._works = works
        self.begun: list[tuple[Action, bool]] = []
        self.ends = asyncio.Event()

    def begin(self, action: Action, name: str = "") -> Any:
        if self._works.in_the_way(action) is not None:
            raise Refused("a conversion runs on this host already")
        return self._works.begin(action, name)

    async def work(self, action: Action, work: Any, say: Callable[[str], None], *, stop_agents: bool = False) -> Answer:
        self.begun.append((action, stop_agents))
        work.say("saved")
        await self.ends.wait()
        work.end(Answer("converted", 0))
        return Answer("converted", 0)


@dataclass
class Agent:
    now: float = 0.0
    allowed: bool = True

    def __post_init__(self) -> None:
        self.works = Works(lambda: self.now)
        self.remote = Remote(self.works, lambda: Phase.NONE, lambda: self.allowed)
        self.commands = FakeCommands(self.works)

    async def ask(self, action: Action, ticket: str = "", **more: Any) -> HostTakeover:
        return await self.remote.answer(Question(action=action, ticket=ticket, **more))


def serve(test: Callable[[Agent], Any]) -> None:
    async def main() -> None:
        agent = Agent()
        commands: Any = agent.commands
        async with asyncio.timeout(20), agent.remote.serving(commands):
            await test(agent)

    asyncio.run(main())


def test_a_work_is_started_once_and_shown_to_every_command() -> None:
    async def test(agent: Agent) -> None:
        tickets = [(await agent.ask(Action.CONVERT)).ticket for _ in range(2)]
        answers = [await agent.ask(Action.CONVERT, ticket, stop_agents=True) for ticket in (*tickets, tickets[0])]
        assert agent.commands.begun == [(Action.CONVERT, True)]
        assert {answer.work.id for answer in answers if answer.work} == {tickets[0]}
        other = await agent.ask(Action.BACK, tickets[1])
        assert other.refused == "a conversion runs on this host already"
        agent.commands.ends.set()
        await asyncio.gather(*agent.remote._tasks)
        work = (await agent.ask(Action.CONVERT)).work
        assert work is not None
        assert (work.status, work.text, work.lines) == (0, "converted", ("saved",))

    serve(test)


def test_tickets_are_good_for_a_minute_and_once() -> None:
    async def test(agent: Agent) -> None:
        agent.commands.ends.set()
        ticket = (await agent.ask(Action.DRY_RUN)).ticket
        agent.now = TICKET_SECONDS
        assert "starts nothing" in (await agent.ask(Action.DRY_RUN, ticket)).refused
        ticket = (await agent.ask(Action.DRY_RUN)).ticket
        assert not (await agent.ask(Action.DRY_RUN, ticket)).refused
        await asyncio.gather(*agent.remote._tasks)
        assert "starts nothing" in (await agent.ask(Action.COMPARE, ticket)).refused, "of another action"
        assert "starts nothing" in (await agent.ask(Action.CONVERT, "made up")).refused
        assert [action for action, _ in agent.commands.begun] == [Action.DRY_RUN]

    serve(test)


def test_an_agent_that_does_not_allow_it_is_looked_at_alone() -> None:
    async def test(agent: Agent) -> None:
        agent.allowed = False
        agent.commands.ends.set()
        for action in Action:
            ticket = (await agent.ask(action)).ticket
            refused = (await agent.ask(action, ticket)).refused
            if action in (Action.CONVERT, Action.BACK):
                assert "remote_takeover = true" in refused
        await asyncio.gather(*agent.remote._tasks)
        assert [action for action, _ in agent.commands.begun] == [Action.DRY_RUN, Action.COMPARE]

    serve(test)


def test_what_a_work_says_is_bounded() -> None:
    work = Works(lambda: 0.0).begin(Action.DRY_RUN)
    for number in range(KEPT + 500):
        work.say(f"{number} \x1b[2J" + "x" * 10_000)
    work.end(Answer("x" * 10_000, 1))
    seen: list[str] = []
    while len(seen) < work.state().total:
        seen += work.state(len(seen)).lines
    assert len(seen) == KEPT + 1
    assert seen[-1].startswith("… and 500 more lines")
    assert all(one.isprintable() for one in seen)
    encoded = msgspec.json.encode(HostTakeover(work=work.state()))
    assert len(encoded) < 2**20
    msgspec.json.decode(encoded, type=HostTakeover)
