"""What `neutrino takeover host` asks of the agent: check, dry run, compare, convert, and give the host back."""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence

from neutrino.agent.takeover.control import BACK, CHECK, COMPARE, CONVERT, DONE, DRY_RUN, REFUSED, Answer, Request
from neutrino.agent.takeover.conversion import Conversion, Failed, Outcome, Refused, Say
from neutrino.agent.takeover.look import Look
from neutrino.agent.takeover.phase import Phase
from neutrino.agent.takeover.shadow import LookFailed
from neutrino.agent.takeover.snapshot import SnapshotError
from neutrino.agent.takeover.stopped_agents import NotStopped, StoppedAgents
from neutrino.agent.takeover.works import Work, Works
from neutrino.model.takeover import CHANGING, Action

LOG = logging.getLogger(__name__)
START_AGAIN = "start Neutron's agents again"
_WORKS = {str(action): action for action in (Action.CONVERT, Action.BACK, Action.DRY_RUN, Action.COMPARE)}


@dataclasses.dataclass(eq=False)
class Commands:
    """Belongs to the agent's event loop. The host is given back between two runs of the roles."""

    conversion: Conversion
    works: Works
    stopped: StoppedAgents
    read_phase: Callable[[], Phase]
    write_phase: Callable[[Phase], None]
    check_snapshot: Callable[[], object]  # SnapshotError if there is nothing to restore
    restore: Callable[[Say], Sequence[str]]  # the problems; blocking
    end_roles: Callable[[], None]
    compare: Callable[[], Awaitable[Look]]  # in a process that ends when this is cancelled; Refused or LookFailed

    def __post_init__(self) -> None:
        self.before_change: Callable[[], None] = lambda: None
        self.is_returning = False
        self._returned = asyncio.Event()
        self._say: Say = _log
        self._problems: Sequence[str] = ()
        self._completing: asyncio.Task[object] | None = None
        self._comparing: asyncio.Future[Look] | None = None

    async def handle(self, request: Request, say: Say) -> Answer:
        """Do what a command of this host asks."""
        action = _WORKS.get(request.action)
        if action is None and request.action != CHECK:
            known = ", ".join((CHECK, DRY_RUN, COMPARE, CONVERT, BACK))
            return Answer(f"unknown action {request.action!r}: it is one of {known}", REFUSED)
        try:
            if action is None:
                await self.conversion.check(say)
                return Answer("", DONE)
            work = self.begin(action)
        except Refused as error:
            return Answer(str(error), REFUSED)
        return await self.work(action, work, say, stop_agents=request.stop_agents)

    def begin(self, action: Action, name: str = "") -> Work:
        """Note that the work begins; Refused while another one is in its way."""
        found = self.works.in_the_way(action)
        if found is not None and not (action is Action.BACK and self._completing is not None):
            other, work = found
            state = work.state()
            raise Refused(f"{_NAMES[other]} runs on this host already, since {state.seconds:.0f} s")
        if action in CHANGING:
            self.before_change()
            if self._comparing is not None:
                self._comparing.cancel()
        return self.works.begin(action, name)

    async def work(self, action: Action, work: Work, say: Say, *, stop_agents: bool = False) -> Answer:
        """Do it. What it says, and how it ends, is kept for whoever asks later."""

        def tell(text: str) -> None:
            if action in CHANGING:
                _log(text)
            work.say(text)
            say(text)

        answer = Answer("the agent has ended before the work was done", REFUSED)
        try:
            answer = await self._answer(action, tell, stop_agents=stop_agents)
        finally:
            work.end(answer)
        return answer

    async def _answer(self, action: Action, say: Say, *, stop_agents: bool) -> Answer:
        try:
            match action:
                case Action.DRY_RUN:
                    await self.conversion.dry_run(say)
                    return Answer("nothing was changed", DONE)
                case Action.COMPARE:
                    return await self._compare(say)
                case Action.CONVERT:
                    return await self._convert(say, stop_agents=stop_agents)
                case _:
                    return await self._give_back(say)
        except (Refused, SnapshotError) as error:
            return Answer(str(error), REFUSED)
        except Exception as error:
            LOG.exception("takeover: %s has failed", action)
            return Answer(f"{action} has failed: {type(error).__name__}: {error}", REFUSED)

    async def recover(self) -> None:
        """Start Neutron's agents if an agent was killed after it had stopped them, and before it changed anything."""
        await self._start_agents(_log)

    async def complete(self) -> None:
        """What an agent that was killed has left: a conversion is completed."""
        if await asyncio.to_thread(self.read_phase) is not Phase.CONVERTING:
            return
        work = self.begin(Action.CONVERT)
        self._completing = asyncio.current_task()
        answer = Answer("the conversion was ended before it was completed", REFUSED)
        try:
            answer = _answer_of(await self.conversion.complete(work.say), work.say)
        except Failed as error:  # nobody waits for it: the roles go on, and the operator can give the host back
            LOG.error("the conversion is not completed: %s. `neutrino takeover host --back` gives the host back", error)
            answer = Answer(f"not completed: {error}. --back gives the host back", REFUSED)
        finally:
            self._completing = None
            work.end(answer)

    async def return_host(self) -> None:
        """Restore the snapshot, and start Neutron's agents that were stopped for the conversion. The roles have ended."""
        problems = list(await asyncio.to_thread(self.restore, self._say))
        await asyncio.to_thread(self.write_phase, Phase.NONE)
        self._problems = problems + await self._start_agents(self._say)
        self._returned.set()

    async def _compare(self, say: Say) -> Answer:
        self._comparing = asyncio.ensure_future(self.compare())
        try:
            look = await self._comparing
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():  # the agent ends
                self._comparing.cancel()
                raise
            return Answer("it was ended, as this host is about to be changed", REFUSED)
        except LookFailed as error:
            return Answer(f"nothing is compared: {error}", REFUSED)
        finally:
            self._comparing = None
        for text in look.differences:
            say(text)
        return Answer(look.text(), REFUSED if look.differing else DONE)

    async def _convert(self, say: Say, *, stop_agents: bool) -> Answer:
        try:
            if stop_agents:
                await self._stop_agents(say)
            outcome = await self.conversion.convert(say)
        except (Refused, NotStopped) as error:
            await self._start_agents(say)
            raise Refused(str(error)) from error
        except Exception as error:  # whatever it is, a host that is half converted is worse than Neutron's
            LOG.exception("the conversion failed")
            if await asyncio.to_thread(self.read_phase) is Phase.NONE:
                await self._start_agents(say)
                return Answer(f"not converted, and nothing was changed: {error}", REFUSED)
            say(f"failed: {error}; turning back")
            back = await self._give_back(say)
            return Answer(f"not converted: {error}. {back.text}", REFUSED, given_back=True)
        return _answer_of(outcome, say)

    async def _stop_agents(self, say: Say) -> None:
        """Stop Neutron's agents, if nothing else is in the way: agents that were stopped for nothing would be missed."""
        await self.conversion.check_all_but_agents()
        agents = await asyncio.to_thread(self.conversion.neutron_agents)
        names = await asyncio.to_thread(self.stopped.stop, agents)
        if names:
            say(f"stopped {', '.join(names)}")

    async def _start_agents(self, say: Say) -> list[str]:
        """The problems. Only on a host that is Neutron's: elsewhere they would undo our work."""
        if await asyncio.to_thread(self.read_phase) is not Phase.NONE:
            return []
        names, problems = await asyncio.to_thread(self.stopped.start_again)
        if names:
            say(f"started {', '.join(names)} again")
        for problem in problems:
            say(f"Neutron's agents are not started: {problem}")
        return problems

    async def _give_back(self, say: Say) -> Answer:
        if await asyncio.to_thread(self.read_phase) is Phase.NONE:
            raise Refused("this host is not converted: it has Neutron's flows, or never had any")
        await asyncio.to_thread(self.check_snapshot)
        if self._completing is not None:  # it would write that the host is converted
            self._completing.cancel()
        by_us = await asyncio.to_thread(self.stopped.names)
        self._say, self.is_returning = say, True
        await asyncio.to_thread(self.write_phase, Phase.RETURNING)
        self.end_roles()
        await self._returned.wait()
        for problem in self._problems:
            say(f"problem: {problem}")
        text = "the host is as it was before the conversion" if not self._problems else "not everything is restored"
        if not by_us:
            text = f"{text}: {START_AGAIN}"
        return Answer(text, REFUSED if self._problems else DONE)


_NAMES = {
    Action.CONVERT: "a conversion",
    Action.BACK: "the way back",
    Action.DRY_RUN: "a dry run",
    Action.COMPARE: "a comparison",
    Action.SHADOW: "a comparison",
}


def _answer_of(outcome: Outcome | None, say: Say) -> Answer:
    if outcome is None:
        return Answer("there was nothing to complete", DONE)
    for problem in outcome.problems:
        say(f"problem: {problem}")
    return Answer(outcome.text(), DONE)


def _log(text: str) -> None:
    LOG.info("takeover: %s", text)
