"""Takeover of this host through the feed: questions of an operator at a server, which start works and show them.

A question is answered at once. What it starts goes on whatever becomes of the connection and of the command, as the work
of a command on this host does, and by the same code.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from neutrino.agent.takeover.commands import Commands
from neutrino.agent.takeover.conversion import Refused
from neutrino.agent.takeover.phase import Phase
from neutrino.agent.takeover.works import Works
from neutrino.model.takeover import CHANGING, Action, HostTakeover, Question, line

LAST_SECONDS: Final = 2.0  # for a work whose commands end: it says how it has ended
FORBIDDEN: Final = (
    "this host is not converted through the feed: set [agent] remote_takeover = true in the configuration of its agent and "
    "reload it, or run the command on the host"
)


class Remote:
    """Belongs to the agent's event loop."""

    def __init__(self, works: Works, read_phase: Callable[[], Phase], is_allowed: Callable[[], bool]) -> None:
        self._works, self._read_phase, self._is_allowed = works, read_phase, is_allowed
        self._commands: Commands | None = None
        self._tasks = set[asyncio.Task[object]]()

    @contextlib.asynccontextmanager
    async def serving(self, commands: Commands) -> AsyncIterator[None]:
        """Start works while the commands can be taken."""
        self._commands = commands
        try:
            yield
        finally:
            self._commands = None
            if self._tasks:  # the last lines of one that has just ended
                await asyncio.wait(self._tasks, timeout=LAST_SECONDS)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def answer(self, question: Question) -> HostTakeover:
        refused = ""
        if question.ticket:
            try:
                self._start(question)
            except Refused as error:
                refused = line(str(error))
        phase = await asyncio.to_thread(self._read_phase)
        work = self._works.last(question.action)
        state = work.state(question.after) if work is not None else None
        return HostTakeover(phase=phase, ticket=self._works.ticket(), work=state, refused=refused)

    def _start(self, question: Question) -> None:
        """Nothing is started a second time: neither by the same question, nor beside a work of another command."""
        action, last = question.action, self._works.last(question.action)
        if last is not None and (last.id == question.ticket or last.is_running):
            return
        if not self._works.redeem(question.ticket):
            raise Refused("the question starts nothing: it is older than a minute, or was asked before")
        if action in CHANGING and not self._is_allowed():
            raise Refused(FORBIDDEN)
        if self._commands is None or action is Action.SHADOW:
            raise Refused("the agent of this host takes no commands now: it has no l2 role, or is starting")
        work = self._commands.begin(action, question.ticket)
        working = self._commands.work(action, work, _ignore, stop_agents=question.stop_agents)
        task = asyncio.create_task(working, name=f"takeover: {action}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ignore(text: str) -> None:
    """The work keeps what it says."""
