"""Shadow mode: while this agent is held beside Neutron's agents, it regularly looks at what a conversion would change.

    held by Neutron's flows ──▶ a look, in a process (`look.py`) ──▶ kept, reported, logged if it differs ──▶ a pause ──┐
        ▲                          │ killed at once when a conversion begins                                            │
        └──────────────────────────┴────────────────────────────────────────────────────────────────────────────────────┘

So that what differs from Neutron's flows is known before the conversion, of all hosts, without a visit to any. Nothing on
the host is changed. The process gets the objects that the server has sent to this agent: it asks no server.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from neutrino.agent.guard.decide import FOREIGN_FLOWS
from neutrino.agent.guard.gate import Gate
from neutrino.agent.runtime.measures import Measure
from neutrino.agent.takeover.control import DONE, REFUSED, Answer
from neutrino.agent.takeover.look import Look
from neutrino.agent.takeover.works import Works
from neutrino.feed.state import State
from neutrino.metrics import catalog
from neutrino.model.takeover import Action, Compared, line

LOG = logging.getLogger(__name__)
LOOK_SECONDS: Final = 240.0  # after which a look ends by itself, with what it has
KILL_SECONDS: Final = 300.0  # after which it is killed
FIRST_SECONDS: Final = 10.0  # after the start of the agent: first the server has to send its objects
NOT_READY_SECONDS: Final = 5.0
REPORTED: Final = 20  # differences in a report of the agent
REPORTED_CHARACTERS: Final = 300  # of each


class LookFailed(Exception):
    """The process has not looked at everything."""


@dataclass(eq=False)
class Shadow:
    """Belongs to the agent's event loop."""

    gate: Gate
    offered: Callable[[], State | None]
    works: Works
    command: Callable[[int], Sequence[str]]  # of the process, with the port that it begins with
    interval: Callable[[], float]  # seconds between looks; 0: none
    report_soon: Callable[[], None] = lambda: None
    compared: Compared | None = None  # by the last look
    _first: int = 0  # the port that the next look begins with
    _looking: asyncio.Task[Look] | None = field(default=None, init=False)
    _at: float = field(default=0.0, init=False)

    async def run(self) -> None:
        await asyncio.sleep(min(FIRST_SECONDS, self.interval() or FIRST_SECONDS))
        while True:
            if not (seconds := self.interval()) or (data := self._data()) is None:
                await asyncio.sleep(NOT_READY_SECONDS)
                continue
            await self._look(data)
            await asyncio.sleep(seconds)

    def stop(self) -> None:
        """End a look that runs: the host is about to be changed."""
        if self._looking is not None:
            self._looking.cancel()

    def held(self) -> Compared | None:
        """What is reported while the agent is held; a conversion makes it a thing of the past."""
        return self.compared if FOREIGN_FLOWS in self.gate.problems else None

    def measures(self) -> Iterator[Measure]:
        """As of a role; read in another thread."""
        found = self.held()
        if found is not None and not found.error:
            yield catalog.COMPARED_AT, (), self._at
            yield catalog.COMPARED_PACKETS, (), found.packets
            yield catalog.COMPARED_DIFFERENCES, (), found.differing
            yield catalog.COMPARED_CHANGES, (), found.changes

    def _data(self) -> bytes | None:
        """What the server has sent, if the agent is held by Neutron's flows, and nothing changes the host."""
        offered = self.offered()
        is_free = FOREIGN_FLOWS in self.gate.problems and self.works.in_the_way(Action.CONVERT) is None
        return offered.dump() if is_free and offered is not None and offered.is_synced else None

    async def _look(self, data: bytes) -> None:
        self._looking = asyncio.create_task(look_in_process(self.command(self._first), data), name="shadow")
        try:
            look, error = await self._looking, ""
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():  # the agent ends
                self._looking.cancel()
                raise
            LOG.info("takeover: the comparison with Neutron's flows is ended, as this host is about to be changed")
            return
        except LookFailed as failure:
            look, error = Look(), line(str(failure))
            LOG.warning("takeover: what a conversion would change cannot be looked at: %s", error)
        finally:
            self._looking = None
        self._first += look.ports
        self._keep(look, error)

    def _keep(self, look: Look, error: str) -> None:
        before, self._at = self.compared, time.time()
        self.compared = compared_of(look, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), error)
        work = self.works.begin(Action.SHADOW)
        for text in look.differences:
            work.say(text)
        work.end(Answer(error or look.text(), REFUSED if error or look.differing else DONE))
        if look.differing and (before is None or before.differences != self.compared.differences):
            LOG.warning("takeover: %s, such as: %s", look.text(), look.differences[0])
        self.report_soon()


def compared_of(look: Look, at: str, error: str = "") -> Compared:
    """A look as it is reported: with the first differences alone, as a report is bounded."""
    return Compared(
        at=at,
        ports=look.ports,
        of_ports=look.of_ports,
        packets=look.packets,
        differing=look.differing,
        changes=look.changes,
        problems=look.problems,
        differences=tuple(text[:REPORTED_CHARACTERS] for text in look.differences[:REPORTED]),
        error=error,
    )


def command_of(files: Sequence[str], first: int) -> list[str]:
    """The command of a look, beginning with this port."""
    options = [word for file in files for word in ("--config-file", file)]
    seconds = ("--seconds", str(LOOK_SECONDS), "--first", str(first))
    return [sys.executable, "-m", "neutrino.cli.main", "shadow", *seconds, *options]


async def look_in_process(command: Sequence[str], data: bytes) -> Look:
    """LookFailed if it cannot be run. When this is cancelled, the process and what it has started are killed."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    except OSError as error:
        raise LookFailed(f"{command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(KILL_SECONDS):
            output, errors = await process.communicate(data)
    except TimeoutError:
        raise LookFailed(f"it has not ended after {KILL_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        raise LookFailed(last[0])
    try:
        return msgspec.json.decode(output, type=Look)
    except msgspec.MsgspecError as error:
        raise LookFailed(f"its output cannot be read: {error}") from error
