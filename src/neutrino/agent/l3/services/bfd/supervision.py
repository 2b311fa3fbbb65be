"""BFD sessions of this host's routers, as the L3 role sees them: it writes which are wanted, and reads which are lost.

The speaker is one process for all routers, a daemon of the supervisor: it runs while any router of the host
has sessions, and outlives the agent. The states of sessions are in files, so an agent that was restarted renders the same
default routes as the one before.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neutrino import daemon_files
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.services.api import Put, RouterService, Serving
from neutrino.agent.l3.services.bfd import files
from neutrino.agent.l3.services.bfd.files import SessionState, WantedSessions
from neutrino.agent.l3.services.bfd.wanted import is_supervised, wanted_sessions
from neutrino.agent.l3.services.fifo import Fifo
from neutrino.agent.runtime.queue import URGENT
from neutrino.agent.runtime.supervisor import Service, Supervisor, list_directory
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
DIRECTORY = "bfd"
NAME = "bfd"


@dataclass
class BfdSessions(RouterService):
    supervisor: Supervisor
    options: L3Options
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)  # the speaker is that of all routers
    _known: dict[str, tuple[SessionState, ...]] = field(default_factory=dict, init=False)  # by router, as last reported
    _fifo: Fifo | None = field(default=None, init=False)

    @property
    def _base(self) -> Path:
        return Path(self.options.state_path) / DIRECTORY

    async def start(self, put: Put) -> None:
        """Routers whose sessions have changed are queued."""

        def read(lines: list[str]) -> None:
            for router_id in {line for line in lines if line}:
                put(router_id, URGENT)

        self._fifo = Fifo(self._base / files.NEWS, read)

    async def close(self) -> None:
        if self._fifo is not None:
            self._fifo.close()

    def lost_next_hops(self, router: Router) -> frozenset[tuple[str, str]]:
        """Device and address of each. Blocking."""
        return frozenset((state.device, state.peer) for state in self._states(router) if state.is_lost)

    def described(self) -> Mapping[str, object]:
        """The number of sessions of this host by state, and of those that are lost."""
        sessions = [session for states in self._known.values() for session in states]
        lost = sum(session.is_lost for session in sessions)
        counts = {**Counter(session.state for session in sessions), **({"lost": lost} if lost else {})}
        return {"bfd_sessions": counts} if counts else {}

    # --- one router -------------------------------------------------------------------------------------------------

    async def release(self, router: Router, serving: Serving) -> None:
        if serving.standby:  # keepalived's routes are to have all next hops here
            await self._end(router.id)

    async def ensure(self, router: Router, serving: Serving) -> list[str]:
        """Have the router's sessions where it is active. Gives its lost next hops as problems."""
        wanted = wanted_sessions(router, self.options) if serving.active else None
        if wanted is None:
            if serving.may_stop:
                await self._end(router.id)
            return []
        async with self._lock:
            await asyncio.to_thread(self._write, router.id, wanted, serving.may_stop)
            try:
                await self.supervisor.ensure(self._service(), complete=serving.may_stop)
            except (ProcessError, OSError) as error:  # the router works without it
                return [f"next hops are not supervised: {error}"]
        states = await asyncio.to_thread(self._states, router)
        self._log(router.id, states)
        lost = [state for state in states if state.is_lost]
        return [f"next hop {each.peer} on {each.device} is lost: its BFD session is {each.state}" for each in lost]

    async def stop(self, router_id: str, *, moved: bool) -> None:
        await self._end(router_id)

    async def _end(self, router_id: str) -> None:
        """End the router's sessions, and the speaker with the last one."""
        self._known.pop(router_id, None)
        path = self._base / files.WANTED / router_id
        if not path.exists():  # most routers have none
            return
        async with self._lock:
            path.unlink(missing_ok=True)
            (self._base / files.STATES / router_id).unlink(missing_ok=True)
            if not self._routers():
                await self.supervisor.stop(NAME, pid_file=self._service().daemon.pid_file)

    def find(self, router: Router, serving: Serving) -> list[str]:
        wanted = wanted_sessions(router, self.options) if serving.active else None
        there = daemon_files.read(self._base / files.WANTED / router.id)
        if wanted is None:
            return [f"end the BFD sessions of router {router.id}"] if there is not None else []
        lines = self.supervisor.plan(self._service())
        return lines if there == files.encode(wanted) else [*lines, f"set the BFD sessions of router {router.id}"]

    def _write(self, router_id: str, wanted: WantedSessions, complete: bool) -> None:
        path, text = self._base / files.WANTED / router_id, files.encode(wanted)
        there = daemon_files.read(path)
        if there is None or (complete and there != text):
            files.replace(path, text)

    def _states(self, router: Router) -> tuple[SessionState, ...]:
        if not is_supervised(router) or not (self._base / files.WANTED / router.id).exists():
            return ()
        return files.read_states(self._base / files.STATES / router.id)

    def _routers(self) -> list[str]:
        return list_directory(self._base / files.WANTED)

    def _log(self, router_id: str, states: tuple[SessionState, ...]) -> None:
        before = {(each.device, each.peer): each.is_lost for each in self._known.get(router_id, ())}
        for state in states:
            if state.is_lost != before.get((state.device, state.peer), False):
                level, what = (logging.WARNING, "lost") if state.is_lost else (logging.INFO, "back")
                LOG.log(level, "router %s: next hop %s on %s is %s", router_id, state.peer, state.device, what)
        self._known[router_id] = states

    def _service(self) -> Service:
        directory = self._base.absolute()
        daemon = Daemon(
            name=NAME,
            argv=(
                *(sys.executable, "-m", "neutrino.cli.main", "bfd"),
                *("--directory", str(directory), "--format", files.FORMAT),
            ),
            pid_file=str(directory / "pid"),
            log_file=str(directory / "log"),
        )
        return Service(daemon)
