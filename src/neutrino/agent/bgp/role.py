"""The BGP role: one bgpd per speaker of this host, in the host's own namespace.

It is a role and not an extension of another one: the API has it as an agent of its own type, with its own scheduling, and
a host with BGP may have no router and no port.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from neutrino.agent.bgp.bgpd import Bgpd, daemon_name
from neutrino.agent.bgp.render import Settings, render
from neutrino.agent.runtime.measures import Measure, of_daemons
from neutrino.agent.runtime.reconcile_loop import ReconcileLoop
from neutrino.agent.runtime.role import Drift, RoleFeed, described
from neutrino.agent.runtime.supervisor import RESPAWN, Action, Supervisor
from neutrino.dataplane.process.api import ProcessError, Processes
from neutrino.dataplane.program import ProgramError
from neutrino.feed.state import StateChange
from neutrino.metrics.catalog import DRIFT
from neutrino.model import agents
from neutrino.model.bgp import BgpSpeaker

LOG = logging.getLogger(__name__)
SPEAKER = "bgp_speaker"
VERIFY_SECONDS = 2.0  # after a start
SESSIONS_SECONDS = 15.0  # between looks at sessions: one that two looks find down is a problem
ESTABLISHED = "Established"


@dataclasses.dataclass(eq=False)
class BgpRole:
    feed: RoleFeed
    bgpd: Bgpd
    processes: Processes
    settings: Settings
    description: agents.AgentState
    _: dataclasses.KW_ONLY
    repair: Callable[[], float] = lambda: 60.0
    child_action: Literal["respawn", "exit"] = RESPAWN
    report_soon: Callable[[], None] = lambda: None
    name: str = dataclasses.field(default="bgp", init=False)

    def __post_init__(self) -> None:
        self._down: dict[str, str] = {}  # sessions that the last look has found down, as problems
        self._lasting: dict[str, str] = {}  # those of them that the look before has found down too
        self._supervisor = Supervisor(self.processes, action=self.child_action)
        self._loop = ReconcileLoop(
            self.feed,
            SPEAKER,
            "BGP speaker",
            self._reconcile,
            self.bgpd.speakers,
            failures=(ProcessError, ProgramError, OSError),
            interval=self.repair,
            role=self.name,
            served=lambda: self.feed.state.objects[SPEAKER],
            report_soon=self.report_soon,
            workers=1,
        )

    # --- calls of the agent -----------------------------------------------------------------------------------------

    def changed(self, change: StateChange) -> None:
        if change.kind == SPEAKER:
            self._loop.put(change.id)

    def synced(self) -> None:
        self._loop.synced()

    def applied(self) -> int | None:
        return self._loop.position

    def describe(self) -> Iterable[agents.AgentState]:
        speakers = self.feed.state.objects[SPEAKER].values()
        values = {
            "bgp_speakers": len(speakers),
            "bgp_peers": sum(len(speaker.peers) for speaker in speakers),
            "advertise_routes": sum(len(speaker.routes) for speaker in speakers),
            **self._supervisor.described(),
        }
        problems = {**self.feed.state.problems_of(SPEAKER), **self._loop.problems, **self._lasting}
        yield described(self.description, values, problems)

    def measures(self) -> Iterator[Measure]:
        yield from self._loop.measures()
        yield from of_daemons(self._supervisor)

    async def finish(self) -> None:
        await self._loop.queue.idle()

    async def find(self) -> Drift:
        return await asyncio.to_thread(self._loop.find, self.name, self._plan)

    def _plan(self, speaker_id: str) -> tuple[list[str], str]:
        speaker = self.feed.state.get(SPEAKER, speaker_id)
        lines = self._supervisor.plan(self.bgpd.service(speaker_id))
        if lines or not isinstance(speaker, BgpSpeaker):
            return lines, ""
        commands = self.bgpd.plan(speaker_id, render(speaker, self.settings))
        return [f"bgpd: {_masked(command.strip())}" for command in commands], ""

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run())
            group.create_task(self._supervisor.run())
            group.create_task(self._follow_sessions())

    async def _follow_sessions(self) -> None:
        while True:
            await asyncio.sleep(min(self.repair(), SESSIONS_SECONDS))
            speakers = [each for each in self.feed.state.objects[SPEAKER].values() if isinstance(each, BgpSpeaker)]
            self.found_down(await asyncio.to_thread(self._sessions_down, speakers))

    def _sessions_down(self, speakers: Iterable[BgpSpeaker]) -> dict[str, str]:
        down: dict[str, str] = {}
        for speaker in speakers:
            try:
                states = self.bgpd.sessions(speaker.id)
            except (ProgramError, OSError) as error:  # bgpd does not run: its supervisor reports that
                LOG.debug("sessions of BGP speaker %s cannot be read: %s", speaker.id, error)
                continue
            for peer in speaker.peers:
                if (state := states.get(peer.peer_ip, "not configured")) != ESTABLISHED:
                    name = f"{agents.BGP_SESSION}{peer.peer_ip}"
                    down[name] = f"speaker {speaker.id}, AS {peer.remote_as}: its state is {state}"
        return down

    def found_down(self, down: dict[str, str]) -> None:
        """Take what a look has found. A session that was just configured, or is set up again, needs some seconds."""
        lasting = {name: text for name, text in down.items() if name in self._down}
        self._down = down
        if lasting.keys() != self._lasting.keys():
            for name in lasting.keys() - self._lasting.keys():
                LOG.warning("%s is down: %s", name, lasting[name])
            self._lasting = lasting
            self.report_soon()
        self._lasting = lasting

    async def _reconcile(self, speaker_id: str) -> str:
        speaker = self.feed.state.get(SPEAKER, speaker_id)
        if not isinstance(speaker, BgpSpeaker):
            if self._loop.is_synced:
                await self._supervisor.stop(daemon_name(speaker_id), pid_file=self.bgpd.daemon(speaker_id).pid_file)
                await asyncio.to_thread(self.bgpd.forget, speaker_id)
            return ""
        service, config = self.bgpd.service(speaker_id), render(speaker, self.settings)
        # What the cache lacks may be announced rightly: until the first sync, a running bgpd is left as it is.
        if not self._loop.is_synced and await asyncio.to_thread(self._supervisor.is_running, service.daemon):
            await self._supervisor.ensure(service, complete=False)
            return ""
        await asyncio.to_thread(self.bgpd.write, speaker_id, config)
        action, _ = await self._supervisor.ensure(service)
        if action is not Action.NOTHING:
            LOG.info("BGP speaker %s: %s of bgpd", speaker_id, action.value)
            self._loop.queue.later(speaker_id, VERIFY_SECONDS)  # whether bgpd has accepted every line
            return ""
        commands = await asyncio.to_thread(self.bgpd.plan, speaker_id, config)
        if commands:
            await asyncio.to_thread(self.bgpd.apply, speaker_id, commands)
            LOG.info("BGP speaker %s: %d lines of bgpd's configuration changed", speaker_id, len(commands))
            if self._loop.is_drift(speaker_id):
                DRIFT.inc(self.name)
        return ""


def _masked(command: str) -> str:
    head, password, _ = command.partition(" password ")
    return f"{head}{password}***" if password else command
